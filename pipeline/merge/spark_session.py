"""The Spark session of a checkpoint."""

from __future__ import annotations

import logging
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pipeline.session import build_session, suppress_py4j_logs
from site_config.engine_settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_END_SECONDS = 30.0


@contextmanager
def engine_session(settings: SparkSettings, *, small: bool = False) -> Iterator[SparkSession]:
    """Use the session of this process, or start one that ends with the checkpoint, so that a daemon keeps no idle JVM.

    Args:
        small: see `build_session`.

    Raises:
        PipelineSetupError: see `build_session`.
    """
    from pyspark.sql import SparkSession

    # A session of another thread is active only in that thread.
    before = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if before is not None:
        yield before
        return
    suppress_py4j_logs()
    try:
        yield from _session(settings, small=small)
    finally:
        _end_java()


def _session(settings: SparkSettings, *, small: bool) -> Iterator[SparkSession]:
    spark = build_session(
        master=settings.master or None,
        driver_memory=settings.driver_memory,
        conf=settings.conf,
        small=small,
        sources=False,
    )
    try:
        yield spark
    finally:
        _stop(spark)


def _stop(spark: SparkSession) -> None:
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    context = spark.sparkContext
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            spark.stop()
    except (Py4JError, OSError) as error:
        _LOG.warning("Spark did not stop cleanly: %s", error)
        # The second call skips Java and resets the state in Python.
        context.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end_java() -> None:
    """End the JVM. PySpark reuses the JVM it started for the next session even after it died, which would break a
    daemon.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    # A JVM that `spark-submit` started is not ended here.
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
