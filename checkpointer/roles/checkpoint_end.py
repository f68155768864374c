"""The last steps of a checkpoint in each role: warnings, failed directories and the purge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from checkpointer.storage.retention import enforce_retention
from engine.merge import MergeResult
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


def report_result(result: MergeResult, drop: Callable[[Path, str], None]) -> None:
    """Log the warnings of a merge, and call `drop` for each directory that could not store the image."""
    for warning in result.warnings:
        _LOG.error("fsimage_%019d: %s", result.txid, warning, extra={"txid": result.txid, "phase": "save"})
    for failure in result.saved.failures:
        drop(failure.folder, failure.reason)


def purge(images: Sequence[Path], edits: Sequence[Path], config: CheckpointConfig, *, rollback: bool = False) -> None:
    """Purge old images and edits in these `current` folders; `rollback` has the same meaning as in
    `enforce_retention`.
    """
    for warning in enforce_retention(
        images,
        edits,
        keep=config.images_retained,
        extra_edits=config.extra_edits_retained,
        max_segments=config.max_extra_segments,
        rollback=rollback,
    ):
        _LOG.warning("%s", warning)
