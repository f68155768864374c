"""The members of a journal set: written and dropped ones, and whether enough are left.

A member is free (no segment, no fault), written (with an open segment), or dropped (with a fault).

    a segment begins       free -> written; dropped -> written if it is restored, beginning with this segment.
    a step fails in it     -> dropped; its segment stays in progress.
    the segment ends       written -> free.
    recovery               all become free, or are dropped again.

A dropped member gets no more of the open segment, so its segments have no holes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from journal.errors import JournalError, JournalStorageError
from journal.journal import Journal, SegmentWriter

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalMember:
    """A journal of a set.

    Attributes:
        required: the set fails with it (dfs.namenode.edits.dir.required).
        shared: others read it, as dfs.namenode.shared.edits.dir. It is written first, so that a standby sees every
            transaction that another member has.
    """

    journal: Journal
    required: bool = False
    shared: bool = False


class MemberState:
    """A member with its open segment, and the error for which it was dropped."""

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
    """Seats in the order in which they are written; not thread-safe.

    Args:
        minimum: number of members that must work, of those that are not required.
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
        """Seats that are not dropped."""
        return [state for state in self.states if state.fault is None]

    @property
    def written(self) -> list[MemberState]:
        """Seats with an open segment."""
        return [state for state in self.states if state.writer is not None]

    @contextmanager
    def dropping(self, state: MemberState, kind: type[JournalError] = JournalError) -> Iterator[None]:
        """Drop the member if a step fails with this kind of error; the failure of a required member fails the set.

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
        """Take a step in every open segment.

        Raises:
            JournalStorageError: too many members failed.
        """
        for state in self.written:
            with self.dropping(state):
                if state.writer is not None:
                    step(state.writer)
        self.require_enough(what, self.written)

    def forget(self) -> None:
        """Clear the open segments, which were finalized."""
        for state in self.states:
            state.writer = None

    def require_enough(self, what: str, working: Sequence[MemberState]) -> None:
        """Check that enough members work (NameNodeResourcePolicy).

        Raises:
            JournalStorageError: too few work.
        """
        redundant = [state for state in self.states if not state.member.required]
        left = sum(state in working for state in redundant)
        required_work = all(state in working for state in self.states if state.member.required)
        if required_work and (left >= self._minimum or not redundant):
            return
        faults = [state.fault for state in self.states if state.fault is not None]
        reasons = "; ".join(fault.message for fault in faults)
        problem = f"{what}: {left} of {len(redundant)} redundant journals work, {self._minimum} are required: {reasons}"
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
