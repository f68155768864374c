"""The tail of the shared edits, which keeps a warm namespace up to date and stops where a rolling upgrade begins.

The state consists of the namespace's last txid, and of a rolling upgrade's START or FINALIZE in a segment that is not
applied completely. Both operations take effect at the end of their segment. The rollback image ends with the segment
that contains START. The tailer does not apply the two operations in an open segment (`_held_at`), because the end of
this segment is unknown.

`rollback_due` stops the tail, and `rollback_made` allows it to continue. If the process is killed between the two, a
restart reaches the same state: the tailer applies START again, and then searches for an image at its txid or later.

`TailPace` determines how often to tail. The pause doubles after each tail without edits, as in Hadoop's EditLogTailer,
up to `dfs.ha.tail-edits.period.backoff-max`. A maximum below the period, such as 0, means no back-off. Hadoop's guide
for observers sets the period to 0. A checkpointer does not need this rate, and tails at most 4 times per second. With a
period below a second, the pause always grows, until an idle quorum receives about one call per second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.folder_edits import FinalizedFile
from checkpointer.storage.usable_images import ImageCopy
from engine.observer import Observer
from engine.warm_namespace import WarmNamespace
from journal.journal import ReadableSegment
from journal.ops import EditOp, RollingUpgradeFinalizeOp, RollingUpgradeStartOp

_MIN_SECONDS = 0.25
_SHORT_PERIOD = 1.0
# An idle tail sends up to three calls to each JournalNode: for new edits, for segments, and for the check of the past.
_IDLE_SECONDS_PER_NODE = 3.5


class TailPace:
    """The pause between tails; only the tailing thread may use it.

    Args:
        period, longest: dfs.ha.tail-edits.period and dfs.ha.tail-edits.period.backoff-max, in seconds.
        nodes: number of JournalNodes that each tail queries; 0 if the edits are not on JournalNodes.
        clock: monotonic seconds.
    """

    def __init__(
        self, period: float, longest: float, *, nodes: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.period = max(period, _MIN_SECONDS)
        self._clock = clock
        self._longest = max(longest, self.period)
        if period < _SHORT_PERIOD:
            self._longest = max(self._longest, _IDLE_SECONDS_PER_NODE * max(nodes, 1))
        self._pause = self.period
        self._began = clock() - self.period

    def begin(self) -> bool:
        """Return whether a tail is due, and begin it in that case.

        Callers poll once per period. A tail may begin half a period early, so that a late call does not make the next
        call skip its tail.
        """
        now = self._clock()
        if now < self._began + self._pause - self.period / 2:
            return False
        self._began = now
        return True

    def end(self, *, found: bool) -> None:
        """Record whether the tail found edits."""
        self._pause = self.period if found else min(self._longest, self._pause * 2)


_LOG = logging.getLogger(__name__)


class EditTailer:
    """A warm namespace and the shared edits that are applied to it. Only one thread at a time may call methods; any
    thread may read attributes.

    Args:
        warm: the namespace; only the tailer applies edits to it.
        source: the shared edits.
        has_rollback_image: returns whether an image at this txid or later exists or is not needed.
        upgrade_finalized: called with the txid of each applied FINALIZE.

    Attributes:
        in_progress: whether the tailer also reads the open segment.
        applied_txid: newest transaction in the namespace, -1 if the namespace was never loaded.
        source_txid: newest known transaction of the source, -1 before the first tail.
        rollback_due: whether the namespace is in the state for the rollback image of a rolling upgrade; True until
            `rollback_made`.
        upgrading: whether a rolling upgrade was in progress at `applied_txid`.
        open_fault: reason why the last read of the open segment failed, "" if it succeeded or was not needed.
    """

    def __init__(
        self,
        warm: WarmNamespace,
        source: EditSource,
        *,
        in_progress: bool,
        has_rollback_image: Callable[[int], bool],
        upgrade_finalized: Callable[[int], None],
    ) -> None:
        self._warm = warm
        self._source = source
        self._has_rollback_image = has_rollback_image
        self._upgrade_finalized = upgrade_finalized
        self.in_progress = in_progress
        self.applied_txid = -1
        self.source_txid = -1
        self.rollback_due = False
        self.upgrading = False
        self.open_fault = ""
        # txids of START and FINALIZE in a segment that is not applied completely
        self._started: int | None = None
        self._ended: int | None = None
        # end of the segment that is being applied, None between segments
        self._segment_last: int | None = None
        # txid of START or FINALIZE in the open segment; the tailer does not apply it before the segment ends
        self._held_at: int | None = None

    def load(self, image: ImageCopy, observer: Observer, cluster: int | None = None) -> None:
        """Start over with an image; arguments and errors as for `WarmNamespace.load`."""
        self.rollback_due = False
        self._started = self._ended = self._segment_last = self._held_at = None
        self._warm.load(image.path, observer, cluster=cluster)
        self._note()

    def rollback_made(self) -> None:
        """Allow further tails after the rollback image was saved."""
        self.rollback_due = False

    def catch_up(self, observer: Observer) -> int:
        """Apply present edits, but stop after the segment in which a rolling upgrade begins; return the number of
        applied edits.

        Edits that were applied before a fault remain applied, and the next call continues after them.

        Raises:
            JournalError, StorageError, OSError: edits are unreadable or missing.
            ReplayError, ImageFormatError: an edit cannot be applied; the namespace has to be loaded again.
            CheckpointCancelledError: the observer cancelled the operation.
        """
        before = self._warm.last_txid
        if self._segment_last is not None and before >= self._segment_last:
            self._end_segment()
        try:
            while self._apply_view(observer) and not self.rollback_due:
                pass
        finally:
            self._note()
        return self.applied_txid - before

    def _apply_view(self, observer: Observer) -> bool:
        """Apply the edits of one view; return whether another view may contain more."""
        before = self._warm.last_txid
        # Read a held START or FINALIZE only from the finalized segment, because JournalNodes still return the open part
        # from their caches.
        held = self._held_at == before + 1
        view = self._source.view(before + 1, in_progress=self.in_progress and not held)
        self.source_txid = max(view.last_txid, self.source_txid if held else -1)
        self.open_fault = view.open_fault
        total = max(0, view.last_txid - before)
        for segment in view.segments:
            if self.rollback_due:
                break
            self._apply_finalized(segment, total, observer)
        if view.tail is not None and not self.rollback_due:
            self._apply_open(view.tail, total, observer)
        reached = self._warm.last_txid
        stopped = not held and self._held_at == reached + 1
        return stopped or ((view.more or held) and reached > before)

    def _apply_finalized(self, segment: ReadableSegment, total: int, observer: Observer) -> None:
        first = self._warm.last_txid + 1
        self._segment_last = segment.last
        if isinstance(segment, FinalizedFile):
            ops = segment.transactions(first)
            self._warm.apply(ops, expected=total, observer=observer, watch=self._note_upgrade)
        else:
            # Read the rest of a partly applied segment again from the source.
            read = segment.read if segment.first < first else None
            self._warm.apply(
                segment.read(first), expected=total, observer=observer, watch=self._note_upgrade, read=read
            )
        self._end_segment()

    def _end_segment(self) -> None:
        """Process a rolling upgrade that began or ended in a segment that is now applied completely."""
        self._segment_last = None
        if self._ended is not None:
            self._upgrade_finalized(self._ended)
            self._ended = None
        if self._started is not None:
            # If the next call fails, make a rollback image, because it is unknown whether one exists.
            self.rollback_due = True
            started, self._started = self._started, None
            self.rollback_due = not self._has_rollback_image(started)
            if self.rollback_due:
                _LOG.info(
                    "a rolling upgrade began at txid %d; a rollback image is due",
                    started,
                    extra={"txid": started, "phase": "replay"},
                )

    def _note_upgrade(self, op: EditOp) -> bool:
        """Remember the start or end of a rolling upgrade until its segment is applied completely."""
        if isinstance(op, RollingUpgradeStartOp):
            self._started = op.txid
        elif isinstance(op, RollingUpgradeFinalizeOp):
            self._started, self._ended = None, op.txid
        return True

    def _apply_open(self, tail: ReadableSegment, total: int, observer: Observer) -> None:
        ops = tail.read(self._warm.last_txid + 1)
        self._warm.apply(ops, expected=total, observer=observer, watch=self._may_apply, read=tail.read)

    def _may_apply(self, op: EditOp) -> bool:
        """Return False for START and FINALIZE, because the tailer holds them until their segment has ended."""
        if isinstance(op, RollingUpgradeStartOp | RollingUpgradeFinalizeOp):
            self._held_at = op.txid
            return False
        return True

    def _note(self) -> None:
        """Update the attributes that other threads read. While no namespace is loaded, the attributes keep their last
        values.
        """
        if self._warm.usable:
            self.applied_txid = self._warm.last_txid
            self.upgrading = self._warm.namespace.info.rollingUpgradeStartTime != 0
