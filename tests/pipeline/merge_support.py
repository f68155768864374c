"""Merges of a storage directory by both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.merge import MergeResult
from engine.observer import Observer
from engine.settings import MergeSettings
from site_config.engine_settings import EngineChoice, EngineSettings, SparkSettings

ON_SPARK = EngineSettings(EngineChoice.SPARK, spark=SparkSettings(partitions=3))
AUTO = EngineSettings(EngineChoice.AUTO, spark=SparkSettings("local[2]"))


def merge_on_spark(
    folder: Path, engine: EngineSettings = ON_SPARK, observer: Observer | None = None, **options: Any
) -> MergeResult:
    """Merge a storage directory in the shared session of the tests."""
    return merge_directory(plan_directory(folder), MergeSettings(**options), engine=engine, observer=observer)
