"""Members of a journal set with their states, and the check that enough members work.

A member is free (no open segment and no fault), written (with an open segment), or dropped (with a fault).

    a segment begins       free -> written; dropped -> written if the member is restored with this segment.
    a step fails in it     -> dropped; the member's segment stays in progress.
    the segment ends       written -> free.
    recovery               all members become free, or are dropped again.

A dropped member receives no more of the open segment, so its segments have no gaps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hadoop_common.storage_info import StorageInfo
from journal.errors import JournalError, JournalStorageError, TransactionGapError
from journal.file_journal import FileJournal
from journal.journal import Journal, ReadableSegment, RecordBatch, SegmentWriter
from journal.segment_copies import SegmentCopies
from journal.segment_writer import JournalLifecycle

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalMember:
    """A journal of a set.

    Attributes:
        required: whether a failure of this member fails the set (dfs.namenode.edits.dir.required).
        shared: whether other nodes read the journal, as with dfs.namenode.shared.edits.dir. A shared journal is written
            first, so that a standby can read every transaction that another member has.
    """

    journal: Journal
    required: bool = False
    shared: bool = False


class MemberState:
    """A member with its open segment, or with the error that caused it to be dropped."""

    def __init__(self, member: JournalMember) -> None:
        self.member = member
        self.writer: SegmentWriter | None = None
        self.fault: JournalError | None = None

    @property
    def journal(self) -> Journal:
        return self.member.journal

    @property
    def location(self) -> str:
        return self.member.journal.location


class MemberStates:
    """Members in the order in which they are written; not thread-safe.

    Args:
        minimum: minimum number of working members, required members excluded.
        on_failure: called for every dropped member.
    """

    def __init__(
        self,
        members: Iterable[JournalMember],
        minimum: int,
        on_failure: Callable[[JournalMember, JournalError], None] | None,
    ) -> None:
        ordered = sorted(members, key=lambda member: (not member.shared, not member.required))
        self.states = tuple(MemberState(member) for member in ordered)
        self._minimum = minimum
        self._on_failure = on_failure

    @property
    def usable(self) -> list[MemberState]:
        """Members that are not dropped."""
        return [state for state in self.states if state.fault is None]

    @property
    def written(self) -> list[MemberState]:
        """Members with an open segment."""
        return [state for state in self.states if state.writer is not None]

    @contextmanager
    def dropping(self, state: MemberState, kind: type[JournalError] = JournalError) -> Iterator[None]:
        """Drop the member if the context raises this kind of error; a failure of a required member fails the set.

        Raises:
            JournalStorageError: the member is required.
        """
        try:
            yield
        except kind as error:
            self._drop(state, error)
            if state.member.required:
                problem = f"the required journal {state.location} failed: {error.message}"
                raise JournalStorageError(problem, hint=error.hint) from error

    def in_each(self, what: str, step: Callable[[SegmentWriter], None]) -> None:
        """Perform a step in every open segment.

        Raises:
            JournalStorageError: too many members failed.
        """
        for state in self.written:
            with self.dropping(state):
                if state.writer is not None:
                    step(state.writer)
        self.require_enough(what, self.written)

    def forget(self) -> None:
        """Forget the open segments, because they were finalized."""
        for state in self.states:
            state.writer = None

    def require_enough(self, what: str, working: Sequence[MemberState]) -> None:
        """Check that enough members work (NameNodeResourcePolicy).

        Raises:
            JournalStorageError: too few members work.
        """
        redundant = [state for state in self.states if not state.member.required]
        left = sum(state in working for state in redundant)
        required_work = all(state in working for state in self.states if state.member.required)
        if required_work and (left >= self._minimum or not redundant):
            return
        faults = [state.fault for state in self.states if state.fault is not None]
        reasons = "; ".join(fault.message for fault in faults)
        problem = (
            f"{what}: {left} of {len(redundant)} redundant journals work, but {self._minimum} are required: {reasons}"
        )
        raise JournalStorageError(problem) from (faults[-1] if faults else None)

    def abort(self) -> None:
        """Abort every open segment."""
        for state in self.written:
            if state.writer is not None:
                state.writer.abort()
            state.writer = None

    def _drop(self, state: MemberState, error: JournalError) -> None:
        writer, state.writer, state.fault = state.writer, None, error
        if writer is not None:
            writer.abort()
        _LOG.error("%s is dropped: %s", state.location, error)
        if self._on_failure is not None:
            self._on_failure(state.member, error)


class SetWriter:
    """`SegmentWriter` of a set, which performs each step in all members, and aborts if too many members fail.

    Args:
        members: members, each with its open segment.
        first_txid: first transaction of these segments.

    Attributes:
        last_txid: newest transaction that all written members have.
    """

    def __init__(
        self, members: MemberStates, first_txid: int, lifecycle: JournalLifecycle[StorageInfo, SetWriter]
    ) -> None:
        self._members = members
        self._lifecycle = lifecycle
        self._open = True
        self.first_txid = first_txid
        self.last_txid = first_txid - 1

    def append(self, batch: RecordBatch) -> None:
        with self._aborting():
            self._members.in_each(f"write of txid {batch.first}", lambda writer: writer.append(batch))
            self.last_txid = batch.last

    def finalize(self, last_txid: int) -> None:
        with self._aborting():
            self._members.in_each(f"end of segment {self.first_txid}", lambda writer: writer.finalize(last_txid))
            self._open = False
            self._members.forget()
        self._lifecycle.ended(whole=True)

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._members.abort()
            self._lifecycle.ended(whole=False)

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        if not self._open:
            hint = "Recover the journals, then begin another segment."
            raise JournalError(f"segment {self.first_txid} was abandoned", txid=self.last_txid, hint=hint)
        try:
            yield
        except BaseException:
            self.abort()
            raise


def segments_of(journal: Journal, from_txid: int, *, in_progress: bool) -> Sequence[ReadableSegment]:
    """Return the segments of a member, including segments after a gap, because another member may fill the gap."""
    if isinstance(journal, FileJournal):
        return journal.files(in_progress=in_progress)
    while True:
        try:
            return journal.segments(from_txid, in_progress=in_progress)
        except TransactionGapError as gap:
            if gap.found is None or gap.found <= from_txid:
                raise
            from_txid = gap.found


def bounded(segment: ReadableSegment, open_first: int, open_last: int) -> ReadableSegment:
    """Limit a copy of the open segment to its durable transactions; recovery may discard later transactions."""
    if segment.in_progress and segment.first == open_first:
        return SegmentCopies([segment], min(segment.last, open_last))
    return segment
