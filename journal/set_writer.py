"""The open segment of a journal set, in every written member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from journal.errors import JournalError
from journal.journal import RecordBatch
from journal.set_members import MemberStates


class SetWriter:
    """`SegmentWriter` of a set; takes each step in all members, and ends the segment when too many fail.

    Args:
        members: each with its open segment.
        first_txid: first transaction of these segments.
        ended: called at the end, with whether the segment is complete and finalized.

    Attributes:
        last_txid: newest transaction that all written members have.
    """

    def __init__(self, members: MemberStates, first_txid: int, ended: Callable[[bool], None]) -> None:
        self._members = members
        self._ended = ended
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
        self._ended(True)

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._members.abort()
            self._ended(False)

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
