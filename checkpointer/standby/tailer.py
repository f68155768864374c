"""The tail of the journal: keeps a warm namespace in step with the edits, and stops where a rolling upgrade begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

from checkpointer.observer import Observer
from checkpointer.standby.journal_view import OpenTail, open_ops, view_journal
from checkpointer.storage.lookup import ImageCopy
from checkpointer.warm import WarmNamespace
from journal.ops import EditOp, RollingUpgradeFinalizeOp, RollingUpgradeStartOp
from journal.segment_file import EditLogSegment, read_ops

__all__ = ["EditTailer"]

_LOG = logging.getLogger(__name__)


class EditTailer:
    """A warm namespace and the shared edits that go into it. One thread at a time works, any may read attributes.

    Args:
        warm: the namespace; nobody else applies edits to it.
        folder: `current` of the shared edits directory.
        has_rollback_image: whether there is one at this txid or later, or none is to be made.
        upgrade_finalized: told the txid of each FINALIZE that was applied.

    Attributes:
        in_progress: whether the open segment is read too.
        applied_txid: newest transaction in the namespace, -1 before the first load.
        source_txid: newest one that the directory was seen to hold, -1 before the first look.
        rollback_due: the namespace is as the rollback image of a rolling upgrade has to be, and stays so until
            `rollback_made`.
        upgrading: whether a rolling upgrade was in progress at `applied_txid`.
        open_fault: why the open segment could not be read last, "" where it could or is not to be.
    """

    def __init__(
        self,
        warm: WarmNamespace,
        folder: Path,
        *,
        in_progress: bool,
        has_rollback_image: Callable[[int], bool],
        upgrade_finalized: Callable[[int], None],
    ) -> None:
        self._warm = warm
        self._folder = folder
        self._has_rollback_image = has_rollback_image
        self._upgrade_finalized = upgrade_finalized
        self.in_progress = in_progress
        self.applied_txid = -1
        self.source_txid = -1
        self.rollback_due = False
        self.upgrading = False
        self.open_fault = ""
        # Txids of a START and a FINALIZE whose segment was not applied to its end yet.
        self._started: int | None = None
        self._ended: int | None = None
        # End of the segment that is being applied, None between segments.
        self._segment_last: int | None = None

    def load(self, image: ImageCopy, observer: Observer) -> None:
        """Begin afresh with an image; raises as `WarmNamespace.load`."""
        self.rollback_due = False
        self._started = self._ended = self._segment_last = None
        self._warm.load(image.path, observer)
        self._note()

    def rollback_made(self) -> None:
        """The rollback image is saved: the edits behind it may be applied."""
        self.rollback_due = False

    def catch_up(self, observer: Observer) -> int:
        """Apply what there is, up to the end of the segment in which a rolling upgrade begins; how much it was.

        What was applied before a fault stays, and the next call goes on behind it.

        Raises:
            JournalError, StorageError, OSError: edits cannot be read, or some are missing.
            ReplayError, ImageFormatError: an edit does not fit; the namespace has to be loaded again.
            CheckpointCancelledError: the observer said so.
        """
        before = self._warm.last_txid
        if self._segment_last is not None and before >= self._segment_last:
            self._settle()
        view = view_journal(self._folder, before + 1, in_progress=self.in_progress)
        self.source_txid, self.open_fault = view.last_txid, view.open_fault
        total = max(0, view.last_txid - before)
        try:
            for segment in view.segments:
                if self.rollback_due:
                    break
                self._apply_finalized(segment, total, observer)
            if view.tail is not None and not self.rollback_due:
                self._apply_open(view.tail, total, observer)
        finally:
            self._note()
        return self.applied_txid - before

    def _apply_finalized(self, segment: EditLogSegment, total: int, observer: Observer) -> None:
        ops = read_ops(segment, from_txid=self._warm.last_txid + 1)
        self._segment_last = segment.last
        self._warm.apply(self._watched(ops), expected=total, observer=observer)
        self._settle()

    def _settle(self) -> None:
        """A segment was applied to its end: see to what began or ended in it."""
        self._segment_last = None
        if self._ended is not None:
            self._upgrade_finalized(self._ended)
            self._ended = None
        if self._started is not None:
            # Where it cannot be told whether there is one, another is made.
            self.rollback_due = True
            started, self._started = self._started, None
            self.rollback_due = not self._has_rollback_image(started)
            if self.rollback_due:
                _LOG.info(
                    "a rolling upgrade began at txid %d, a rollback image is due",
                    started,
                    extra={"txid": started, "phase": "replay"},
                )

    def _watched(self, ops: Iterator[EditOp]) -> Iterator[EditOp]:
        """Notes begin and end of a rolling upgrade, to be seen to when their segment has been applied whole."""
        for op in ops:
            if isinstance(op, RollingUpgradeStartOp):
                self._started = op.txid
            elif isinstance(op, RollingUpgradeFinalizeOp):
                self._started, self._ended = None, op.txid
            yield op

    def _apply_open(self, tail: OpenTail, total: int, observer: Observer) -> None:
        """A START waits until its segment has ended, where the rollback image has to be made; so does a FINALIZE."""
        kinds = (RollingUpgradeStartOp, RollingUpgradeFinalizeOp)
        ops = takewhile(lambda op: not isinstance(op, kinds), open_ops(tail, self._warm.last_txid + 1))
        self._warm.apply(ops, expected=total, observer=observer)

    def _note(self) -> None:
        """Keep what other threads ask for; a namespace that is gone stands where its image does, until it is loaded."""
        if self._warm.usable:
            self.applied_txid = self._warm.last_txid
            self.upgrading = self._warm.namespace.info.rollingUpgradeStartTime != 0
