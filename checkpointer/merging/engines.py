"""Engines that make a checkpoint of an image and segments: the local one, and others that packages offer.

An engine is found by the entry point of its name in the group `checkpointer.engines`: a callable that takes
`SparkSettings` and gives a `MergeEngine`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar, Protocol

from engine.errors import CheckpointError
from engine.merge import merge
from engine.observer import Observer
from engine.saver import MergeResult
from engine.settings import MergeSettings
from hadoop_common.errors import EXIT_USAGE, HdfsError
from hadoop_common.file_faults import told
from journal.segment_file import EditLogSegment, read_transactions
from site_config.engine_settings import EngineChoice, EngineSettings, SparkSettings

_LOG = logging.getLogger(__name__)
_GROUP = "checkpointer.engines"


class EngineError(CheckpointError):
    """The engine that was asked for is not installed, or cannot make this checkpoint."""

    exit_code: ClassVar[int] = EXIT_USAGE


@dataclass(frozen=True, slots=True)
class MergeTask:
    """A checkpoint to make.

    Attributes:
        image: newest valid image, of transaction `base_txid`.
        segments: hold the transactions after it, contiguous and in order; `last` of each is how far it is read.
        last_txid: of the segments.
        folders: `current` folders that get the new image and its digest file.
        settings: how it is made. `memory` in it is for the local engine; others have settings of their own.
    """

    image: Path
    base_txid: int
    segments: tuple[EditLogSegment, ...]
    last_txid: int
    folders: tuple[Path, ...]
    settings: MergeSettings = MergeSettings()


def load_ahead() -> None:
    """Have the compiled code of the local engine in memory, so that the next merge begins at once; it takes seconds."""
    # Importing it loads the compiler.
    from engine.warm_up import warm_up

    try:
        _LOG.info("the code of merges is loaded, which took %.1f s", warm_up(first=True))
    except (HdfsError, OSError) as fault:
        _LOG.warning("the code of merges could not be loaded ahead, the next merge does it: %s", told(fault))


class MergeEngine(Protocol):
    """Makes checkpoints; they are the same whatever engine makes them."""

    def refusal(self, task: MergeTask) -> str:
        """Why this engine does not make a checkpoint, as a sentence without its end; "" where it does."""

    def merge(self, task: MergeTask, observer: Observer | None = None) -> MergeResult:
        """Make a checkpoint; raises as `engine.merge.merge`."""


class LocalEngine:
    """Merges in this process."""

    def refusal(self, task: MergeTask) -> str:
        return ""

    def merge(self, task: MergeTask, observer: Observer | None = None) -> MergeResult:
        return merge(
            task.image,
            read_transactions(task.segments, task.base_txid + 1),
            list(task.folders),
            task.settings,
            expected=task.last_txid - task.base_txid,
            observer=observer,
        )


def choose_engine(settings: EngineSettings, task: MergeTask) -> MergeEngine:
    """The engine that is to make a checkpoint.

    `auto` takes Spark where a master is configured or the image is large, and the local one where Spark cannot.

    Raises:
        EngineError: Spark is asked for and not installed, or it cannot make this checkpoint.
    """
    if settings.choice is EngineChoice.LOCAL:
        return LocalEngine()
    wanted = settings.choice is EngineChoice.SPARK
    if not wanted and not settings.spark.master and task.image.stat().st_size < settings.spark_from:
        return LocalEngine()
    engine = _find(EngineChoice.SPARK.value, settings.spark)
    reason = "it is not installed" if engine is None else engine.refusal(task)
    if engine is not None and not reason:
        return engine
    if wanted:
        hint = "Install it with pip install 'hdfs-checkpointer[spark]', or use --engine local."
        raise EngineError(f"the Spark engine cannot make this checkpoint: {reason}", hint=hint)
    _LOG.info("the local engine makes this checkpoint, Spark cannot: %s", reason)
    return LocalEngine()


def _find(name: str, settings: SparkSettings) -> MergeEngine | None:
    for offered in entry_points(group=_GROUP, name=name):
        engine: MergeEngine = offered.load()(settings)
        return engine
    return None
