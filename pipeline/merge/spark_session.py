"""The Spark session that a checkpoint runs in."""

from __future__ import annotations

import logging
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pipeline.quiet_gateway import quiet_gateway
from pipeline.session import build_session
from site_config.engine_settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_END_SECONDS = 30.0


@contextmanager
def engine_session(settings: SparkSettings, *, small: bool = False) -> Iterator[SparkSession]:
    """The session that this process has, else one that ends with the checkpoint: a daemon keeps no idle JVM.

    Args:
        small: see `build_session`.

    Raises:
        PipelineSetupError: see `build_session`.
    """
    from pyspark.sql import SparkSession

    # Another thread's session is active in that thread alone.
    before = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if before is not None:
        yield before
        return
    quiet_gateway()
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
        _LOG.warning("Spark was not stopped in order: %s", error)
        # The second time it does without Java, and forgets what Python has of it.
        context.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end_java() -> None:
    """PySpark keeps the JVM it started, dead or alive, for its next session: a daemon would not get over its death."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    # What `spark-submit` started is not ours to end.
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
