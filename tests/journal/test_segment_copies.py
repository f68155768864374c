"""Selection of segment copies for the log, and a reader's change from one copy to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import CorruptOpError, SegmentError, TransactionGapError
from journal.operation import EditOp
from journal.quorum.errors import SegmentFetchError
from journal.segment_copies import SegmentCopies, chain_segments, group_copies
from tests.journal.wal_support import delete


@dataclass
class Copy:
    """Transactions `first` to `last` as written by `writer`, damaged from `breaks_at` on."""

    first: int
    last: int
    in_progress: bool = False
    writer: int = 0
    breaks_at: int = 1 << 62
    reads: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.writer}/{self.first}-{self.last}"

    def read(self, from_txid: int) -> Iterator[EditOp]:
        self.reads.append(from_txid)
        for txid in range(max(from_txid, self.first), self.last + 1):
            if txid >= self.breaks_at:
                raise CorruptOpError("damaged", file=self.name, txid=txid)
            op = delete(self.writer)
            op.txid = txid
            yield op


def spans(chain: list[SegmentCopies]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in chain]


def txids(segment: SegmentCopies, from_txid: int) -> list[int]:
    return [op.txid for op in segment.read(from_txid)]


def test_longest_copy_is_read_and_others_continue_at_its_fault() -> None:
    good, torn, short = Copy(1, 9), Copy(1, 9, breaks_at=5), Copy(1, 3)
    (segment,) = chain_segments([short, torn, good], 1)
    assert [copy.last for copy in segment.copies] == [9, 9, 3]
    segment = SegmentCopies([torn, short, good], 9)
    assert txids(segment, 2) == list(range(2, 10))
    assert (torn.reads, short.reads, good.reads) == ([2], [5], [5])


def test_damaged_copy_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A standby reads the last segments again in each poll."""
    for writer in (101, 101, 102):
        assert txids(SegmentCopies([Copy(1, 9, writer=writer, breaks_at=5), Copy(1, 9)], 9), 1) == list(range(1, 10))
    assert [record.message.split()[0] for record in caplog.records] == ["101/1-9", "102/1-9"]


def test_two_damaged_copies_are_combined() -> None:
    class Hole(Copy):
        """A copy that is damaged up to `breaks_at`: reading fails unless it starts after that transaction."""

        def read(self, from_txid: int) -> Iterator[EditOp]:
            if from_txid <= self.breaks_at:
                raise CorruptOpError("damaged", file=self.name, txid=from_txid)
            return Copy.read(Copy(self.first, self.last), from_txid)

    assert txids(SegmentCopies([Copy(1, 9, breaks_at=6), Hole(1, 9, breaks_at=3)], 9), 1) == list(range(1, 10))


def test_first_failure_is_reported_without_an_intact_copy() -> None:
    segment = SegmentCopies([Copy(1, 9, writer=1, breaks_at=5), Copy(1, 9, writer=2, breaks_at=7)], 9)
    read = segment.read(1)
    assert [next(read).txid for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(CorruptOpError, match="1/1-9"):
        next(read)
    with pytest.raises(SegmentError, match="no copy continues to txid 9"):
        list(SegmentCopies([Copy(1, 3)], 9).read(1))


def test_finalized_copy_is_preferred_to_a_longer_open_one() -> None:
    (segment,) = chain_segments([Copy(1, 60, in_progress=True), Copy(1, 50)], 1)
    assert (segment.last, segment.in_progress) == (50, False)


def test_copy_of_a_superseded_writer_is_ignored() -> None:
    left, kept, newer = Copy(1, 60, writer=1), Copy(1, 50, writer=2), Copy(51, 99, writer=2)
    for orphan in (left, Copy(1, 60, in_progress=True, writer=1)):
        chain = chain_segments([orphan, newer, kept], 1)
        assert spans(chain) == [(1, 50), (51, 99)]
        read = [op for segment in chain for op in segment.read(1)]
        assert [op.txid for op in read] == list(range(1, 100))
        assert {op.timestamp for op in read if op.txid > 50} == {2}


def test_open_copy_that_reaches_the_next_segment_is_used() -> None:
    chain = chain_segments([Copy(1, 60, in_progress=True), Copy(1, 50), Copy(61, 70)], 1)
    assert spans(chain) == [(1, 60), (61, 70)]


def test_gap_error_starts_at_the_requested_txid() -> None:
    copies = [Copy(1, 3), Copy(7, 9)]
    for asked, missing in ((1, 4), (4, 4), (6, 6)):
        with pytest.raises(TransactionGapError) as caught:
            chain_segments(copies, asked)
        assert (caught.value.expected, caught.value.found) == (missing, 7)
    assert spans(chain_segments(copies, 8)) == [(7, 9)]
    assert chain_segments(copies, 10) == []
    assert spans(group_copies(copies)) == [(1, 3), (7, 9)]


@st.composite
def members(draw: st.DrawFn) -> tuple[int, list[Copy]]:
    """Draw a log in segments with copies in several members; at least one member has a complete copy of each
    segment.
    """
    ends = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=6)))
    copies = []
    first = 1
    for end in ends:
        copies.append(Copy(first, end))
        for _ in range(draw(st.integers(0, 2))):
            last = draw(st.integers(first, end))
            copies.append(Copy(first, last, in_progress=draw(st.booleans()), breaks_at=draw(st.integers(first, 41))))
        first = end + 1
    return ends[-1], draw(st.permutations(copies))


@given(members(), st.integers(1, 45))
def test_every_transaction_is_read_once_and_in_order(log: tuple[int, list[Copy]], from_txid: int) -> None:
    last, copies = log
    chain = chain_segments(copies, from_txid)
    assert [txid for segment in chain for txid in txids(segment, from_txid)] == list(range(from_txid, last + 1))


def test_unreachable_copy_is_reported_instead_of_a_damaged_copy() -> None:
    """The unreachable copy may be intact, so the segment need not be damaged."""

    class Unreachable(Copy):
        def read(self, from_txid: int) -> Iterator[EditOp]:
            raise SegmentFetchError("connection refused", file=self.name)

    copies = [Copy(1, 9, breaks_at=4), Unreachable(1, 9, writer=1), Copy(1, 9, writer=2, breaks_at=2)]
    with pytest.raises(SegmentFetchError, match="connection refused") as raised:
        txids(SegmentCopies(copies, 9), 1)
    assert raised.value.hint.endswith("can be reached. This copy is needed, because 0/1-9 is damaged.")
