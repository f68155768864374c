"""Engines that make a checkpoint from an image and segments: the local engine, and engines of other packages.

An engine's entry point in the `checkpointer.engines` group has the engine's name. It is a callable that accepts
`SparkSettings` and returns a `MergeEngine`.
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
from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.extras import install_hint
from hadoop_common.file_faults import error_text
from journal.segment_file import EditLogSegment, SegmentTransactions
from site_config.engine_settings import EngineChoice, EngineSettings, SparkSettings

_LOG = logging.getLogger(__name__)
LOADED = "the merge code was loaded"
"""Beginning of the log message of a process that is ready to merge."""
_GROUP = "checkpointer.engines"


class EngineError(CheckpointError):
    """A request for an engine that is not installed or cannot make this checkpoint."""

    exit_code: ClassVar[int] = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class MergeTask:
    """A checkpoint to make.

    Attributes:
        image: newest valid image, at txid `base_txid`.
        segments: segments with the transactions after the image, contiguous and in order; the engine reads each up to
            `last`.
        last_txid: last transaction of the segments.
        folders: `current` folders for the new image and its digest file.
        settings: settings of the merge; `memory` applies to the local engine only.
    """

    image: Path
    base_txid: int
    segments: tuple[EditLogSegment, ...]
    last_txid: int
    folders: tuple[Path, ...]
    settings: MergeSettings = MergeSettings()


def load_ahead() -> None:
    """Load the compiled code of the local engine in advance, because loading takes seconds."""
    # this import loads the compiler
    from engine.warm_up import warm_up

    try:
        _LOG.info("%s in %.1f s", LOADED, warm_up(first=True))
    except (HdfsError, OSError) as fault:
        _LOG.warning("the merge code could not be loaded in advance; the next merge loads it: %s", error_text(fault))


class MergeEngine(Protocol):
    """An engine that makes checkpoints; all engines write the same bytes."""

    def refusal(self, task: MergeTask) -> str:
        """Return a clause with the reason why this engine cannot make the checkpoint; "" if it can."""

    def merge(self, task: MergeTask, observer: Observer | None = None) -> MergeResult:
        """Make a checkpoint; raise the same errors as `engine.merge.merge`."""


class LocalEngine:
    """The engine that merges in this process."""

    def refusal(self, task: MergeTask) -> str:
        return ""

    def merge(self, task: MergeTask, observer: Observer | None = None) -> MergeResult:
        return merge(
            task.image,
            SegmentTransactions(task.segments, task.base_txid + 1),
            list(task.folders),
            task.settings,
            expected=task.last_txid - task.base_txid,
            observer=observer,
        )


def choose_engine(settings: EngineSettings, task: MergeTask) -> MergeEngine:
    """Choose the engine of a checkpoint.

    `auto` selects Spark if a master is configured and Spark can make the checkpoint, otherwise the local engine.

    Raises:
        EngineError: Spark is requested but not installed, or cannot make this checkpoint.
    """
    if settings.choice is EngineChoice.LOCAL:
        return LocalEngine()
    wanted = settings.choice is EngineChoice.SPARK
    if not wanted and not settings.spark.master:
        return LocalEngine()
    engine = _find_spark(settings.spark)
    reason = "it is not installed" if engine is None else engine.refusal(task)
    if engine is not None and not reason:
        return engine
    if wanted:
        hint = f"Use --engine local. {install_hint('spark')}" if engine is None else "Use --engine local."
        raise EngineError(f"the Spark engine cannot make this checkpoint: {reason}", hint=hint)
    _LOG.info("the local engine makes this checkpoint, because Spark cannot: %s", reason)
    return LocalEngine()


def _find_spark(settings: SparkSettings) -> MergeEngine | None:
    for offered in entry_points(group=_GROUP, name=EngineChoice.SPARK.value):
        engine: MergeEngine = offered.load()(settings)
        return engine
    return None
