"""Builds the Spark sessions of the pipeline: finds Java, reduces logging, and registers the data sources."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineSetupError
from pipeline.java import find_java_home
from pipeline.java_options import LOCAL_FLAGS
from pipeline.libraries import INSTALL_HINT, SPARK, require_libraries
from pipeline.python_daemon import start_early
from pipeline.task_errors import error_reason

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_MODULES = frozenset({"java_gateway", "clientserver"})
"""Modules of py4j that log some tracebacks with the root logger."""


def suppress_py4j_logs() -> None:
    """Suppress py4j's tracebacks about interrupts and an ended JVM until the process ends.

    The suppression is permanent, because Python may free objects of an ended JVM at any time, and py4j logs each
    failure.
    """
    logging.getLogger().addFilter(lambda record: record.module not in _MODULES)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


_java_started = threading.Event()
"""This event is set once this process has had a context, because PySpark keeps the JVM for later contexts."""
_LOCAL = re.compile(r"local(\[|$)")
_CORE = re.compile(r"spark-core_[^-]+-(.+)\.jar")
_LOGGING_OPTION = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Environment variable with options of the driver's JVM, which precede the options in Spark's settings."""
_DAEMON = "pipeline.python_daemon"
_APPLICATION = "hdfs-checkpointer"
_SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for small inputs, where replanning after each stage and compiling Java code would take most of the time."""

_PATIENT = {"spark.executor.heartbeatInterval": "60s", "spark.network.timeout": "600s"}
"""Settings for a local driver, which is its own executor and ends after 60 failed heartbeats in a row. On an overloaded
machine, heartbeats take longer than the default limit of 10 s.
"""


SAFE_PATH = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
"""Setting of our commands, whose workers import nothing from the working directory. Users' own functions may come from
there.
"""


def build_session(
    *,
    master: str | None = None,
    driver_memory: str = "1g",
    conf: Mapping[str, str] | None = None,
    small: bool = False,
    sources: bool = True,
) -> SparkSession:
    """Start Spark, or use the existing session of this process, and register the data sources.

    Args:
        master, driver_memory, conf, small: see `build_context`.
        sources: whether to register the data sources, which starts a Python process. A merge needs no data source.

    Raises:
        PipelineSetupError: see `build_context`.
    """
    build_context(master=master, driver_memory=driver_memory, conf=conf, small=small)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.config(map=dict(conf or {})).getOrCreate()
    _quiet_query_errors()
    if sources:
        _register(spark)
    return spark


def build_context(
    *, master: str | None = None, driver_memory: str = "1g", conf: Mapping[str, str] | None = None, small: bool = False
) -> SparkContext:
    """Start Spark without SQL, which starts faster, or use the existing context of this process.

    Args:
        master: e.g. `local[4]`, `spark://host:7077`, `yarn`; None for the master of `spark-submit`, or else all local
            cores.
        driver_memory: heap of the driver's JVM; in local mode the executors share this heap.
        conf: further settings, which override our settings.
        small: whether the input is so small that compilers and planners would take most of the time; ignored on a
            cluster.

    Raises:
        PipelineSetupError: PySpark or a suitable Java is missing, or the master is unreachable.
    """
    require_libraries(SPARK)
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as error:
        raise PipelineSetupError(f"PySpark cannot be imported: {error}", hint=INSTALL_HINT) from None
    if not _is_submitted():
        _check_spark_home()
        os.environ["JAVA_HOME"] = str(find_java_home(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = _chosen_master(master)
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif not _is_submitted():
        _configure_cluster_logging()
    wanted = {**settings(chosen, driver_memory, small=small), **(conf or {})}
    try:
        context = SparkContext.getOrCreate(SparkConf().setAppName(_APPLICATION).setAll(list(wanted.items())))
    except Exception as error:
        where = "" if chosen is None else f" with master {chosen}"
        hint = "Check that the master is running at this address; check Java and memory."
        raise PipelineSetupError(f"Spark did not start{where}: {error_reason(error)}", hint=hint) from error
    _java_started.set()
    return context


def _configure_cluster_logging() -> None:
    """Pass our logging to the driver's JVM without replacing its options in spark-defaults.conf or the environment."""
    given = os.environ.get(_JAVA_OPTIONS, "")
    if _LOGGING_OPTION not in given.split():
        # Java uses the last definition of a property
        os.environ[_JAVA_OPTIONS] = f"{_LOGGING_OPTION} {given}".rstrip()


def _check_spark_home() -> None:
    """Check that SPARK_HOME, if it is set, is a Spark of PySpark's release, because PySpark starts this Spark.

    Raises:
        PipelineSetupError: SPARK_HOME is not a Spark, or a Spark of another release.
    """
    from pyspark import __version__ as wanted

    home = os.environ.get("SPARK_HOME")
    if home is None:
        return
    jars = [_CORE.match(each.name) for each in Path(home, "jars").glob("spark-core_*.jar")]
    found = next((each[1] for each in jars if each is not None), None)
    if found is None or found.split(".")[:2] != wanted.split(".")[:2]:
        what = "which contains no Spark" if found is None else f"which is Spark {found}"
        raise PipelineSetupError(
            f"SPARK_HOME is {home}, {what}, but PySpark {wanted} needs a Spark of its own release",
            hint="Unset SPARK_HOME to use the Spark of the Python package, or set it to a Spark of PySpark's release.",
        )


def stop_context(context: SparkContext) -> None:
    """Stop a context; ignore a JVM that has exited, because the interrupted job reports the reason."""
    from py4j.protocol import Py4JError

    with warnings.catch_warnings(), suppress(Py4JError, OSError):
        warnings.simplefilter("ignore", RuntimeWarning)
        context.stop()


def early_daemon(master: str | None) -> AbstractContextManager[None]:
    """Return a context manager in which a session for this master starts faster; see `pipeline.python_daemon`."""
    return start_early() if _is_local(master) and not _java_started.is_set() else nullcontext()


def _is_local(master: str | None) -> bool:
    chosen = _chosen_master(master)
    return chosen is not None and _LOCAL.match(chosen) is not None


def _chosen_master(master: str | None) -> str | None:
    return master or (None if _is_submitted() else "local[*]")


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _register(spark: SparkSession) -> None:
    from pipeline import register

    try:
        register(spark)
    except BaseException:
        spark.stop()
        raise


def _quiet_query_errors() -> None:
    """Suppress PySpark's log of invalid queries (JSON with a Java stack); the exception contains the reason."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def settings(master: str | None, driver_memory: str, *, small: bool = False) -> dict[str, str]:
    """Return Spark's settings for a master; None keeps the master of `spark-submit`.

    For `small` see `build_context`.
    """
    chosen = {
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if master is not None:
        chosen["spark.master"] = master
        if _LOCAL.match(master):
            chosen["spark.driver.host"] = chosen["spark.driver.bindAddress"] = "127.0.0.1"
            chosen["spark.sql.shuffle.partitions"] = "32"
            # a JVM refuses two garbage collectors, so these options replace those of spark-defaults.conf
            chosen["spark.driver.extraJavaOptions"] = " ".join([_LOGGING_OPTION, *LOCAL_FLAGS])
            chosen["spark.python.daemon.module"] = _DAEMON
            chosen |= _PATIENT
            if small:
                chosen |= _SMALL
    return chosen
