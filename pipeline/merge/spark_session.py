"""The Spark context of a checkpoint."""

from __future__ import annotations

import logging
import subprocess
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pipeline.session import build_context, early_daemon, suppress_py4j_logs
from site_config.engine_settings import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOG = logging.getLogger(__name__)
_OWNER = "spark.hdfs.checkpointer.owner"
_END_SECONDS = 30.0


@contextmanager
def engine_context(settings: SparkSettings, *, small: bool = False) -> Iterator[SparkContext]:
    """Use the context of this process, or start one that ends with the checkpoint, so that a daemon keeps no idle JVM.

    Args:
        small: see `build_context`.

    Raises:
        PipelineSetupError: see `build_context`.
    """
    suppress_py4j_logs()
    # An existing context ignores this setting.
    owner = uuid.uuid4().hex
    context, owned = None, False
    with early_daemon(settings.master or None):
        try:
            context = build_context(
                master=settings.master or None,
                driver_memory=settings.driver_memory,
                conf={**settings.conf, _OWNER: owner},
                small=small,
            )
            # asked now: the JVM, which answers, may have ended at the end of the checkpoint
            owned = context.getConf().get(_OWNER) == owner
            yield context
        finally:
            if context is not None and owned:
                _stop(context)
            if context is None or owned:
                _end_java()


def _stop(context: SparkContext) -> None:
    from py4j.protocol import Py4JError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            context.stop()
    except (Py4JError, OSError) as error:
        _LOG.warning("Spark did not stop cleanly: %s", error)
        # The second call skips Java and resets the state in Python.
        context.stop()


def _end_java() -> None:
    """End the JVM. PySpark reuses the JVM it started for the next context even after it died, which would break a
    daemon, and has no public function to end it.
    """
    from pyspark import SparkContext

    gateway = getattr(SparkContext, "_gateway", None)
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
