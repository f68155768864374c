"""Recovery of a set of journals, and segments that its members lack."""

from __future__ import annotations

import dataclasses
import errno
import shutil
from pathlib import Path

import pytest

from hadoop_common.names import inprogress_name, segment_name
from hadoop_common.storage_info import StorageInfo
from journal.edit_log_writer import EditLogWriter
from journal.errors import CorruptOpError, JournalError, JournalInUseError, JournalStorageError, TransactionGapError
from journal.file_journal import FileJournal
from journal.journal import Journal, SegmentWriter
from journal.journal_set import JournalMember, JournalSet
from journal.recovery import recover_in_progress
from journal.segment_copies import SegmentCopies
from tests.journal.journal_support import count_of
from tests.journal.set_support import OpenSet, active, crashed, damage, disks, open_set, reported, reports, roots, write
from tests.journal.wal_support import INFO, LAYOUT, Disks, Reports, contents, file_journal, names, read_all

__all__ = ["disks", "open_set", "reports", "roots"]


# ---- recovery and missing segments -------------------------------------------------------------------------


def test_recovery_copies_the_longest_segment_to_all_members(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [4, 9, 6])
    journals = open_set(roots)
    assert read_all(journals) == reported(range(2, 10))
    assert names(roots[0]) == [segment_name(1, 9)]
    assert contents(roots[0]) == contents(roots[1]) == contents(roots[2])


def test_recovery_completes_a_copy_interrupted_by_a_kill(
    roots: list[Path], open_set: OpenSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(roots, open_set, [4, 9, 6])
    with monkeypatch.context() as patch:
        patch.setattr("journal.missing_segments.Path.unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            open_set(roots)
    assert names(roots[0]) == [segment_name(1, 4), segment_name(1, 9)]
    open_set(roots)
    assert contents(roots[0]) == contents(roots[1]) == contents(roots[2])


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_damaged_copy_is_not_copied_to_other_members(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [9, 9, 4])
    for root in roots[:2]:
        recover_in_progress(root / "current")
    damage(roots[0], segment_name(1, 9), 0.3)
    journals = open_set(roots)
    assert contents(roots[2]) == contents(roots[1])
    assert read_all(journals) == reported(range(2, 10))


def test_segment_damaged_in_all_copies_fails_at_the_reader(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [9, 9, 4])
    for root in roots[:2]:
        recover_in_progress(root / "current")
        damage(root, segment_name(1, 9), 0.8)
    journals = open_set(roots)
    assert names(roots[2]) == [segment_name(1, 4)]
    with pytest.raises(CorruptOpError):
        read_all(journals)


def test_segment_of_a_superseded_writer_is_moved_aside(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [4, 4, 9])
    journals = open_set(roots[:2])  # the third disk is missing
    with EditLogWriter(journals, LAYOUT, 5) as log:
        write(log, 7)
    journals = open_set(roots)
    assert read_all(journals) == reported([2, 3, 4, *range(6, 13)])
    assert names(roots[2]) == [segment_name(1, 4), segment_name(1, 9) + ".trash", segment_name(5, 13)]
    assert contents(roots[0]) == contents(roots[2])


def test_a_disk_too_full_for_missing_segments_is_dropped(
    roots: list[Path], open_set: OpenSet, reports: Reports, disks: Disks
) -> None:
    crashed(roots, open_set, [4, 9, 9])
    disks.fail(roots[0] / "current" / (segment_name(1, 9) + ".tmp"), "sync", code=errno.ENOSPC)
    journals = open_set(roots, restore=False)
    assert reports.roots == ["a"]
    with EditLogWriter(journals, LAYOUT, 10) as log:
        write(log)
        assert active(journals) == ["b", "c"]


def test_failed_copy_of_segments_does_not_disturb_the_writer(
    roots: list[Path], open_set: OpenSet, disks: Disks
) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        disks.fail(roots[1], "write")
        write(log)
        disks.repair()
        log.roll()
        disks.fail(roots[1] / "current" / (segment_name(1, 3) + ".tmp"), "sync", code=errno.ENOSPC)
        assert journals.copy_missing() == 0
        disks.repair()
        write(log)
        assert (active(journals), journals.lagging) == (["a", "b", "c"], False)
        log.roll()
        assert journals.lagging
        assert (journals.copy_missing(), journals.lagging) == (1, False)
        log.roll()
        assert not journals.lagging


def test_missing_members_are_dropped_unless_required(roots: list[Path], open_set: OpenSet, reports: Reports) -> None:
    (roots[1] / "current").rename(roots[1] / "elsewhere")
    open_set(roots)
    assert reports.roots == ["b"]
    with pytest.raises(JournalStorageError, match="required journal"):
        open_set([roots[1], roots[0]], required=1)


def test_recovery_fails_if_a_damaged_copy_may_be_the_newest(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [9, 4, 4])
    damage(roots[0], inprogress_name(1), 0.8)
    with pytest.raises(CorruptOpError, match="intact operations"):
        open_set(roots)


def test_recovery_fails_if_another_writer_holds_a_member(roots: list[Path], open_set: OpenSet) -> None:
    other = FileJournal(roots[1] / "current")
    other.recover(INFO)
    with pytest.raises(JournalInUseError):
        open_set(roots)
    other.close()


def test_recovery_fails_for_a_member_of_another_namespace(roots: list[Path], open_set: OpenSet) -> None:
    FileJournal(roots[1] / "current").format(dataclasses.replace(INFO, namespace_id=43), force=True)
    with pytest.raises(JournalError, match="namespace_id is 43"):
        open_set(roots)


# ---- members of other kinds --------------------------------------------------------------------------------


class Elsewhere:
    """A journal that is not a directory: it has the finalized segments of `behind` and is never written."""

    location = "elsewhere:"

    def __init__(self, behind: FileJournal) -> None:
        self._behind = behind
        self.recovered: list[StorageInfo] = []

    def is_formatted(self) -> bool:
        return True

    def recover(self, namespace: StorageInfo) -> None:
        self.recovered.append(namespace)

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        return self._behind.segments(from_txid, in_progress=in_progress)

    def start_segment(self, first_txid: int, layout_version: int) -> SegmentWriter:
        raise JournalStorageError("it is not written")

    def close(self) -> None:
        """Do nothing."""


def test_directory_gets_missing_segments_from_a_journal_of_another_kind(roots: list[Path], open_set: OpenSet) -> None:
    with EditLogWriter(open_set(roots[:1]), LAYOUT, 1) as log:
        for _ in range(3):
            write(log)
            log.roll()
    (roots[0] / "current" / segment_name(1, 3)).unlink()
    other: Journal = Elsewhere(FileJournal(roots[0] / "current"))  # type: ignore[assignment]
    file_journal(roots[1])
    journals = JournalSet([JournalMember(other), JournalMember(FileJournal(roots[1] / "current"))])
    with pytest.raises(TransactionGapError, match="txids 1 to 3"):
        journals.segments(1)
    assert [(each.first, each.last) for each in journals.finalized(5)] == [(4, 6), (7, 9), (10, 11)]
    journals.recover(INFO)
    # a writer does not wait until all missing segments are fetched
    assert journals.lagging
    assert contents(roots[1]) == {}
    with EditLogWriter(journals, LAYOUT, 12):
        assert journals.copy_missing() == 3
        assert not journals.lagging
        whole = {name: data for name, data in contents(roots[1]).items() if "inprogress" not in name}
        assert whole == contents(roots[0])
    journals.close()


def test_copying_of_segments_can_be_deferred(roots: list[Path], open_set: OpenSet) -> None:
    with EditLogWriter(open_set(roots[:2]), LAYOUT, 1) as log:
        for _ in range(3):
            write(log)
            log.roll()
    journals = open_set(roots)
    for path in (roots[2] / "current").glob("edits_*"):
        path.unlink()
    with EditLogWriter(journals, LAYOUT, 12):
        assert journals.copy_missing(lambda: segment_name(1, 3) in names(roots[2])) == 1
        assert names(roots[2]) == [segment_name(1, 3), inprogress_name(12)]
        assert journals.lagging
        assert (journals.copy_missing(), journals.lagging) == (3, False)
        assert contents(roots[2]) == contents(roots[0])


def test_segments_are_read_from_a_local_directory_first(roots: list[Path], open_set: OpenSet) -> None:
    with EditLogWriter(open_set(roots[:1]), LAYOUT, 1) as log:
        write(log)
    other: Journal = Elsewhere(FileJournal(roots[0] / "current"))  # type: ignore[assignment]
    journals = JournalSet(
        [JournalMember(other, required=True, shared=True), JournalMember(FileJournal(roots[0] / "current"))]
    )
    (segment,) = journals.segments(1)
    assert [isinstance(copy, SegmentCopies) for copy in segment.copies] == [False, True]
    assert [journals.reach(member) for member in journals.members] == [3, 3]


def test_unlistable_required_member_is_an_error(roots: list[Path], open_set: OpenSet) -> None:
    """The required member may be the only member with the newest transactions. If another member cannot be listed, the
    remaining members are read.
    """
    journals = open_set(roots, required=1)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log)
    shutil.rmtree(roots[1] / "current")
    assert count_of(journals, 1) == 3
    shutil.rmtree(roots[0] / "current")
    with pytest.raises(JournalError, match="cannot be listed"):
        count_of(journals, 1)
