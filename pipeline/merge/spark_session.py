"""The Spark context of a checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.session import SAFE_PATH, build_context, early_daemon, stop_context, suppress_py4j_logs
from site_config.engine_settings import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext

_OWNER = "spark.hdfs.checkpointer.owner"


@contextmanager
def engine_context(settings: SparkSettings, *, small: bool = False) -> Iterator[SparkContext]:
    """Provide the process's Spark context, or start one that stops with the checkpoint; the JVM ends with the process.

    Args:
        small: see `build_context`.

    Raises:
        PipelineSetupError: see `build_context`.
    """
    suppress_py4j_logs()
    # An existing context ignores this setting.
    owner = uuid.uuid4().hex
    with early_daemon(settings.master or None):
        context = build_context(
            master=settings.master or None,
            driver_memory=settings.driver_memory,
            conf={**SAFE_PATH, **settings.conf, _OWNER: owner},
            small=small,
        )
        # read now, because the JVM may have ended by the end of the checkpoint
        owned = context.getConf().get(_OWNER) == owner
        try:
            yield context
        finally:
            if owned:
                stop_context(context)
