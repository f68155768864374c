"""Copies of a journal's edits as segment files, and an archive of these files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import pytest

from archive.archive import Archive, open_archive
from archive.catalogue import MAIN
from archive.moments import missing_edits, newest_moment, view_of
from checkpointer.archiving.journal_spool import JournalSpool
from checkpointer.archiving.messages import ArchiveSource
from checkpointer.archiving.worker import Rounds
from checkpointer.roles.standby.edit_source import EditsView
from hadoop_common.names import image_name, inprogress_name, segment_name
from journal.errors import TransactionGapError
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from journal.segment_file import list_segments, read_ops
from site_config.archive_settings import ArchiveSettings
from tests.archive.storage import storage
from tests.engine.image_builder import BASE_TXID, HADOOP3, numbered
from tests.engine.op_makers import mkdir


@dataclass(frozen=True)
class _Stream:
    """Operations as returned by the caches of JournalNodes, across the ends of segments."""

    ops: Sequence[EditOp]
    in_progress: bool = True
    name: str = "cache"

    @property
    def first(self) -> int:
        return self.ops[0].txid

    @property
    def last(self) -> int:
        return self.ops[-1].txid

    def read(self, from_txid: int) -> Iterator[EditOp]:
        return (op for op in self.ops if op.txid >= from_txid)


@dataclass
class FakeJournal:
    """A journal from which `purged` transactions were removed; a call returns at most three transactions."""

    ops: list[EditOp] = field(default_factory=list)
    purged: int = BASE_TXID
    location = "journal"

    def log(self, *segments: Sequence[EditOp], open_segment: Sequence[EditOp] | None = None) -> int:
        for each in segments:
            self.ops += [StartLogSegmentOp(txid=0), *each, EndLogSegmentOp(txid=0)]
        if open_segment is not None:
            self.ops += [StartLogSegmentOp(txid=0), *open_segment]
        numbered(self.ops, BASE_TXID)
        return self.ops[-1].txid

    def view(self, from_txid: int, *, in_progress: bool) -> EditsView:
        begin = max(from_txid, self.purged + 1)
        if begin > from_txid and self.ops:
            raise TransactionGapError(from_txid, begin, file="journal")
        left = [op for op in self.ops if op.txid >= begin]
        tail = _Stream(left[:3]) if left else None
        return EditsView((), tail, tail.last if tail else from_txid - 1, more=len(left) > 3)

    def update_finalized(self, from_txid: int) -> None:
        """Do nothing, because `finalized_txid` needs no update."""

    def finalized_txid(self) -> int:
        return max((op.txid for op in self.ops if isinstance(op, EndLogSegmentOp)), default=-1)


@pytest.fixture
def journal() -> FakeJournal:
    return FakeJournal()


@pytest.fixture
def spool(journal: FakeJournal, tmp_path: Path) -> JournalSpool:
    (tmp_path / "spool").mkdir()
    return JournalSpool(journal, tmp_path / "spool")  # type: ignore[arg-type]


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(str(tmp_path / "archive")) as opened:
        yield opened


def names(spool: JournalSpool) -> list[str]:
    return sorted(path.name for path in spool.folder.iterdir())


def source(tmp_path: Path) -> ArchiveSource:
    current = tmp_path / "nn" / "current"
    if not current.exists():
        storage(tmp_path / "nn")
    return ArchiveSource((current,), (), BASE_TXID, current / image_name(BASE_TXID))


def lost(txid: int, at: int = 5000) -> EditOp:
    return mkdir(f"/d{txid}", 16385 + txid, at)


def test_spooled_files_match_the_segments(journal: FakeJournal, spool: JournalSpool) -> None:
    last = journal.log([lost(1), lost(2)], [lost(3)], open_segment=[lost(4)])
    spool.begin(BASE_TXID + 1)
    spool.update(HADOOP3)
    first, second = BASE_TXID + 1, BASE_TXID + 5
    third = inprogress_name(second + 3)
    assert names(spool) == [
        segment_name(first, first + 3),
        segment_name(second, second + 2),
        inprogress_name(second + 3),
    ]
    ops = [op.txid for each in list_segments(spool.folder) for op in read_ops(each)]
    assert ops == list(range(first, last + 1))
    # the newest segment is kept, because it identifies the history
    spool.archived(last)
    assert names(spool) == [segment_name(second, second + 2), third]


def test_archive_of_a_journal_continues_after_a_restart(
    journal: FakeJournal, spool: JournalSpool, archive: Archive, tmp_path: Path
) -> None:
    journal.log([lost(1)], open_segment=[lost(2)])
    rounds = Rounds(archive, ArchiveSettings(), spool)
    for number in range(3, 6):
        last = journal.log() if number == 3 else journal.ops[-1].txid
        position = rounds.make(source(tmp_path))
        assert position is not None
        assert (position.branch, position.restorable_txid) == (MAIN, last)
        journal.ops += [lost(number), EndLogSegmentOp(txid=0), StartLogSegmentOp(txid=0)]
        numbered(journal.ops, BASE_TXID)
    (tmp_path / "again").mkdir()
    again = JournalSpool(journal, tmp_path / "again")  # type: ignore[arg-type]
    position = Rounds(archive, ArchiveSettings(), again).make(source(tmp_path))
    assert position is not None
    assert (position.branch, position.restorable_txid) == (MAIN, journal.ops[-1].txid)
    assert missing_edits(archive.catalogue(), MAIN) == []


@pytest.mark.parametrize("rolled", [False, True])
def test_histories_are_not_spliced_after_a_set_back_between_two_rounds(
    rolled: bool, journal: FakeJournal, spool: JournalSpool, archive: Archive, tmp_path: Path
) -> None:
    """Within the same open segment, the new history already exceeds the last transaction that was read from the lost
    history.
    """
    journal.log([lost(1)], open_segment=[lost(2), lost(3), lost(4)])
    rounds = Rounds(archive, ArchiveSettings(), spool)
    before = rounds.make(source(tmp_path))
    assert before is not None
    del journal.ops[-3:]
    new = [lost(number, 7000) for number in range(2, 6)]
    journal.ops += [*new, *([EndLogSegmentOp(txid=0), StartLogSegmentOp(txid=0), lost(9, 7000)] if rolled else [])]
    numbered(journal.ops, BASE_TXID)
    position = rounds.make(source(tmp_path))
    assert position is not None
    assert (position.branch != MAIN, position.last_txid) == (True, journal.ops[-1].txid)
    assert view_of(archive.catalogue(), MAIN).last_txid == before.last_txid
    ops = [op for each in list_segments(spool.folder) for op in read_ops(each)]
    assert ops == journal.ops[-len(ops) :]


def test_full_disk_leaves_no_partial_operation(journal: FakeJournal, spool: JournalSpool) -> None:
    journal.log([lost(1), lost(2)])
    spool.begin(BASE_TXID + 1)
    full = mock.patch("checkpointer.archiving.journal_spool.encode_op", side_effect=OSError(28, "full"))
    with full, pytest.raises(OSError, match="full"):
        spool.update(HADOOP3)
    # the next round starts from the beginning
    assert spool.next_txid is None


def test_edits_purged_from_the_journal_are_missing(
    journal: FakeJournal, spool: JournalSpool, archive: Archive, tmp_path: Path
) -> None:
    last = journal.log([lost(1)])
    rounds = Rounds(archive, ArchiveSettings(), spool)
    rounds.make(source(tmp_path))
    purged = journal.log([lost(2)])
    journal.purged = purged
    journal.log([lost(3)])
    position = rounds.make(source(tmp_path))
    assert position is not None
    assert (position.branch, position.missing, position.restorable_txid) == (MAIN, purged - last, last)


def test_journal_that_was_set_back_creates_a_branch(
    journal: FakeJournal, spool: JournalSpool, archive: Archive, tmp_path: Path
) -> None:
    shared = journal.log([lost(1)])
    last = journal.log([lost(2, 6000)], open_segment=[])
    Rounds(archive, ArchiveSettings(), spool).make(source(tmp_path))
    del journal.ops[shared - BASE_TXID :]
    newest = journal.log([lost(2, 7000), lost(3, 7000), lost(4, 7000)])
    (tmp_path / "again").mkdir()
    again = JournalSpool(journal, tmp_path / "again")  # type: ignore[arg-type]
    position = Rounds(archive, ArchiveSettings(), again).make(source(tmp_path))
    assert position is not None
    catalogue = archive.catalogue()
    assert (catalogue.branches[position.branch].fork, position.restorable_txid) == (shared, newest)
    assert newest_moment(view_of(catalogue, MAIN)) == last


def test_journal_with_the_same_txids_is_compared_after_a_start_over(
    journal: FakeJournal, spool: JournalSpool, archive: Archive, tmp_path: Path
) -> None:
    """The NameNode was set back and has written as many transactions as it lost, so no txid shows the event."""
    shared = journal.log([lost(1)])
    last = journal.log([lost(2, 6000)])
    rounds = Rounds(archive, ArchiveSettings(), spool)
    rounds.make(source(tmp_path))
    del journal.ops[shared - BASE_TXID :]
    assert journal.log([lost(2, 7000)]) == last
    position = rounds.make(source(tmp_path))
    assert position is not None
    assert position.branch == MAIN
    position = rounds.make(replace(source(tmp_path), started_over=1.0))
    assert position is not None
    assert (archive.catalogue().branches[position.branch].fork, position.restorable_txid) == (shared, last)
