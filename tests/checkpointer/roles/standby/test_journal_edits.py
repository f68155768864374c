"""Shared edits in a journal: the view of segments, gaps, and the check of the namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from checkpointer.roles.standby import open_edit_source
from checkpointer.roles.standby.journal_edits import SharedJournalEdits
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from journal.errors import JournalError, TransactionGapError
from journal.operation import EditOp
from journal.quorum.address import QuorumAddress
from journal.quorum.node_answers import NodeAnswer

INFO = StorageInfo(-63, 7, 1000, "CID-a", "BP-1")


@dataclass(frozen=True)
class Segment:
    first: int
    last: int
    in_progress: bool = False
    name: str = "segment"

    def read(self, from_txid: int) -> Iterator[EditOp]:
        raise AssertionError("nobody reads here")


@dataclass
class FakeJournal:
    """A journal of finalized segments and an open segment; its next `gaps` queries fail with a gap."""

    finalized: list[Segment] = field(default_factory=list)
    opened: Segment | None = None
    open_fault: JournalError | None = None
    gaps: int = 0
    asked: list[tuple[int, bool]] = field(default_factory=list)
    closed: int = 0

    def segments(self, from_txid: int, *, in_progress: bool = False) -> Sequence[Segment]:
        self.asked.append((from_txid, in_progress))
        if self.gaps:
            self.gaps -= 1
            raise TransactionGapError(from_txid, from_txid + 1)
        if in_progress and self.open_fault is not None:
            raise self.open_fault
        found = [*self.finalized, *([self.opened] if in_progress and self.opened is not None else [])]
        held = [each for each in found if each.last >= from_txid]
        if held and held[0].first > from_txid:
            raise TransactionGapError(from_txid, held[0].first)
        return held

    def close(self) -> None:
        self.closed += 1


def edits(journal: FakeJournal, *, batch: int | None = None) -> SharedJournalEdits:
    source = SharedJournalEdits("kind://place", lambda namespace: journal, batch=batch)
    source.open(INFO)
    return source


# ---- a journal ---------------------------------------------------------------------------------------------


def test_view_of_finalized_and_open_segments() -> None:
    journal = FakeJournal([Segment(1, 5), Segment(6, 9)], Segment(10, 12, in_progress=True))
    source = edits(journal)
    assert source.finalized_txid() == -1
    view = source.view(4, in_progress=False)
    assert ([each.last for each in view.segments], view.tail, view.last_txid, view.more) == ([5, 9], None, 9, False)
    assert source.finalized_txid() == 9
    view = source.view(10, in_progress=True)
    assert (view.segments, view.tail, view.last_txid) == ((), journal.opened, 12)
    assert source.view(13, in_progress=True).last_txid == 12
    assert source.files() == []
    assert source.version() is None
    assert source.journal_nodes() is None


@pytest.mark.parametrize(("batch", "more"), [(None, False), (5, False), (4, True), (3, True)])
def test_view_of_a_full_batch_has_more(batch: int | None, more: bool) -> None:
    source = edits(FakeJournal(opened=Segment(10, 12, in_progress=True)), batch=batch)
    assert source.view(10, in_progress=True).more is more


def test_view_with_an_unreadable_open_segment() -> None:
    journal = FakeJournal([Segment(1, 5)], open_fault=JournalError("damaged"))
    view = edits(journal).view(1, in_progress=True)
    assert ([each.last for each in view.segments], view.tail, view.open_fault) == ([5], None, "damaged")


def test_finalized_segments_missing_in_the_caches_are_read() -> None:
    class Lagging(FakeJournal):
        def segments(self, from_txid: int, *, in_progress: bool = False) -> Sequence[Segment]:
            return [] if in_progress else super().segments(from_txid)

    assert edits(Lagging([Segment(1, 5)])).view(1, in_progress=True).last_txid == 5


@pytest.mark.parametrize("in_progress", [False, True])
def test_gap_is_confirmed_by_a_second_read(in_progress: bool) -> None:
    journal = FakeJournal([Segment(1, 5)], gaps=1)
    assert edits(journal).view(1, in_progress=in_progress).last_txid == 5
    journal.gaps = 2
    with pytest.raises(TransactionGapError):
        edits(journal).view(1, in_progress=in_progress)


def test_finalized_txid_behind_a_gap() -> None:
    journal = FakeJournal([Segment(11, 15), Segment(16, 20)])
    source = edits(journal)
    source.update_finalized(5)
    assert source.finalized_txid() == 20
    journal.finalized = []
    source.update_finalized(5)
    assert source.finalized_txid() == -1
    journal.segments = lambda *_, **__: (_ for _ in ()).throw(TransactionGapError(5, None))  # type: ignore[assignment]
    with pytest.raises(TransactionGapError):
        source.update_finalized(5)


def test_source_can_be_closed_and_opened_again() -> None:
    journal = FakeJournal([Segment(1, 5)])
    source = edits(journal)
    source.close()
    source.close()
    assert journal.closed == 1
    with pytest.raises(JournalError, match="not open"):
        source.view(1, in_progress=False)
    source.open(INFO)
    assert source.view(1, in_progress=False).last_txid == 5


def test_namespace_is_checked_until_it_is_confirmed() -> None:
    says: list[bool | Exception] = [False, False, StorageError("another namespace", hint=""), True]
    asked = []

    def confirm(namespace: StorageInfo) -> bool:
        asked.append(namespace)
        answer = says.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    journal = FakeJournal([Segment(1, 5)])
    source = SharedJournalEdits("kind://place", lambda namespace: journal, confirm=confirm)
    source.open(INFO)
    source.update_finalized(1)
    with pytest.raises(StorageError, match="another namespace"):
        source.view(1, in_progress=False)
    for _ in range(3):
        source.view(1, in_progress=False)
    assert asked == [INFO] * 4


@pytest.mark.parametrize(
    ("journal", "wanted", "found"),
    [
        (FakeJournal(), (1, 5), []),
        (FakeJournal([Segment(1, 5), Segment(6, 9)]), (3, 9), [(1, 5), (6, 9)]),
        # the remaining segments show what was purged
        (FakeJournal([Segment(8, 9)]), (5, 9), [(8, 9)]),
        # the open segment is read only if it may contain transactions
        (FakeJournal([Segment(1, 5)], Segment(6, 9, in_progress=True)), (1, 5), [(1, 5)]),
        (FakeJournal([Segment(1, 5)], Segment(6, 9, in_progress=True)), (1, 8), [(1, 5), (6, 9)]),
    ],
)
def test_present_segments(journal: FakeJournal, wanted: tuple[int, int], found: list[tuple[int, int]]) -> None:
    assert [(each.first, each.last) for each in edits(journal).present(*wanted)] == found


def test_majority_with_another_namespace_is_an_error() -> None:
    address = QuorumAddress.parse("qjournal://a;b;c/ns")

    def answers(*says: bool | None) -> list[NodeAnswer]:
        return [NodeAnswer(str(node), same_namespace=each) for node, each in zip(address.nodes, says, strict=True)]

    assert open_edit_source._belongs_to(address, answers(True, None, None), INFO)
    assert open_edit_source._belongs_to(address, answers(True, False, True), INFO)
    assert not open_edit_source._belongs_to(address, answers(None, None, False), INFO)
    with pytest.raises(StorageError, match="according to b:8485, c:8485"):
        open_edit_source._belongs_to(address, answers(True, False, False), INFO)
