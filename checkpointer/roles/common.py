"""Steps that all roles share: calls that a caller can abandon, cancellable observers, and the end of a checkpoint."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from checkpointer.storage.retention import enforce_retention
from engine.errors import CheckpointCancelledError
from engine.merge import MergeResult
from engine.observer import SilentObserver
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, read_transactions, select_segments
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_SLICE_SECONDS = 0.25

T = TypeVar("T")


def watched(call: Callable[[], T], cancelled: Callable[[], bool], peer: str) -> T:
    """Return or raise the result of `call`, which runs in a separate thread; `peer` names the peer that must answer.

    Raises:
        CheckpointCancelledError: `cancelled()` became true first. The thread runs until its call returns.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=f"call-{peer}", daemon=True).start()
    while not wait([answer], _SLICE_SECONDS).done:
        if cancelled():
            raise CheckpointCancelledError(f"cancelled while {peer} did not answer")
    return answer.result()


def read_operations(segments: Sequence[EditLogSegment], first: int, last: int) -> Iterator[EditOp]:
    """Return the operations `first` to `last` of finalized segment files.

    Raises:
        JournalError: operations are missing or damaged.
        OSError: a file cannot be read.
    """
    chosen = select_segments(segments, first, last)
    return takewhile(lambda op: op.txid <= last, read_transactions(chosen, first))


class CancellableObserver(SilentObserver):
    """A silent observer that cancels the merge when `cancelled` returns True."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        return self._cancelled()


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
