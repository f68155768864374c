"""The members of a journal set: written and dropped ones, and whether enough are left.

A seat is free (no segment, no fault), written (with an open segment), or dropped (with a fault).

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
class Member:
    """A journal of a set.

    Attributes:
        required: the set fails with it (dfs.namenode.edits.dir.required).
        shared: others read it, as dfs.namenode.shared.edits.dir. It is written first, so that a standby sees every
            transaction that another member has.
    """

    journal: Journal
    required: bool = False
    shared: bool = False


class Seat:
    """A member with its open segment, and the error for which it was dropped."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.writer: SegmentWriter | None = None
        self.fault: JournalError | None = None

    @property
    def journal(self) -> Journal:
        return self.member.journal

    @property
    def location(self) -> str:
        return self.member.journal.location


class Members:
    """Seats in the order in which they are written; not thread-safe.

    Args:
        minimum: number of members that must work, of those that are not required.
        on_failure: called for every dropped member.
    """

    def __init__(
        self, members: Iterable[Member], minimum: int, on_failure: Callable[[Member, JournalError], None] | None
    ) -> None:
        ordered = sorted(members, key=lambda member: (not member.shared, not member.required))
        self.seats = tuple(Seat(member) for member in ordered)
        self._minimum = minimum
        self._on_failure = on_failure

    @property
    def usable(self) -> list[Seat]:
        """Seats that are not dropped."""
        return [seat for seat in self.seats if seat.fault is None]

    @property
    def written(self) -> list[Seat]:
        """Seats with an open segment."""
        return [seat for seat in self.seats if seat.writer is not None]

    @contextmanager
    def dropping(self, seat: Seat, kind: type[JournalError] = JournalError) -> Iterator[None]:
        """Drop the member if a step fails with this kind of error; the failure of a required member fails the set.

        Raises:
            JournalStorageError: the member is required.
        """
        try:
            yield
        except kind as error:
            self._drop(seat, error)
            if seat.member.required:
                problem = f"the required journal {seat.location} failed: {error.message}"
                raise JournalStorageError(problem, hint=error.hint) from error

    def in_each(self, what: str, step: Callable[[SegmentWriter], None]) -> None:
        """Take a step in every open segment.

        Raises:
            JournalStorageError: too many members failed.
        """
        for seat in self.written:
            with self.dropping(seat):
                if seat.writer is not None:
                    step(seat.writer)
        self.require_enough(what, self.written)

    def forget(self) -> None:
        """Clear the open segments, which were finalized."""
        for seat in self.seats:
            seat.writer = None

    def require_enough(self, what: str, working: Sequence[Seat]) -> None:
        """Check that enough members work (NameNodeResourcePolicy).

        Raises:
            JournalStorageError: too few work.
        """
        redundant = [seat for seat in self.seats if not seat.member.required]
        left = sum(seat in working for seat in redundant)
        required_work = all(seat in working for seat in self.seats if seat.member.required)
        if required_work and (left >= self._minimum or not redundant):
            return
        faults = [seat.fault for seat in self.seats if seat.fault is not None]
        reasons = "; ".join(fault.message for fault in faults)
        problem = f"{what}: {left} of {len(redundant)} redundant journals work, {self._minimum} are required: {reasons}"
        raise JournalStorageError(problem) from (faults[-1] if faults else None)

    def abort(self) -> None:
        """Abort every open segment."""
        for seat in self.written:
            if seat.writer is not None:
                seat.writer.abort()
            seat.writer = None

    def _drop(self, seat: Seat, error: JournalError) -> None:
        writer, seat.writer, seat.fault = seat.writer, None, error
        if writer is not None:
            writer.abort()
        _LOG.error("%s is dropped: %s", seat.location, error)
        if self._on_failure is not None:
            self._on_failure(seat.member, error)
