"""The Spark session that a checkpoint runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from checkpointer.engine_settings import SparkSettings
from pipeline.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["engine_session"]


@contextmanager
def engine_session(settings: SparkSettings) -> Iterator[SparkSession]:
    """The session that this process has, else one that ends with the checkpoint: a daemon keeps no idle JVM.

    Raises:
        PipelineSetupError: see `build_session`.
    """
    from pyspark.sql import SparkSession

    # Another thread's session is active in that thread alone.
    before = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if before is not None:
        yield before
        return
    spark = build_session(master=settings.master or None, driver_memory=settings.driver_memory, conf=settings.conf)
    try:
        yield spark
    finally:
        spark.stop()
