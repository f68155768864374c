"""Writes and reads of journal sets, which drop failed members and later use them again."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from hadoop_common.names import inprogress_name, segment_name
from journal.edit_log_writer import EditLogWriter
from journal.errors import CorruptOpError, JournalError, JournalExistsError, JournalStorageError, TransactionGapError
from journal.file_journal import FileJournal
from journal.journal_set import JournalMember, JournalSet
from journal.recovery import recover_in_progress
from tests.journal.journal_support import count_of
from tests.journal.set_support import OpenSet, active, damage, disks, open_set, reported, reports, roots, write
from tests.journal.wal_support import INFO, LAYOUT, Disks, Reports, contents, delete, file_journal, names, read_all

__all__ = ["disks", "open_set", "reports", "roots"]


def test_all_members_receive_the_same_bytes(roots: list[Path], open_set: OpenSet) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 3)
        log.roll()
        write(log, 2)
        assert read_all(journals, in_progress=True) == reported([2, 3, 4, 7, 8])
    assert contents(roots[0]) == contents(roots[1]) == contents(roots[2])
    assert names(roots[0]) == [segment_name(1, 5), segment_name(6, 9)]
    assert (count_of(journals, 1), count_of(journals, 4), count_of(journals, 10)) == (9, 6, 0)


@pytest.mark.parametrize("step", ["write", "sync"])
def test_a_member_that_fails_on_write_or_sync_is_dropped(
    roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports, step: str
) -> None:
    journals = open_set(roots, restore=False)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log)
        disks.fail(roots[1], step)
        write(log, 2)
        assert (reports.roots, active(journals)) == (["b"], ["a", "c"])
        assert list(journals.faults) == [roots[1].as_uri()]
        disks.repair()
        log.roll()
        write(log)
    assert names(roots[0]) == names(roots[2]) == [segment_name(1, 5), segment_name(6, 8)]
    assert names(roots[1]) == [inprogress_name(1)]
    assert read_all(journals) == reported([2, 3, 4, 7])


def test_a_member_that_cannot_be_finalized_is_dropped(
    roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports
) -> None:
    journals = open_set(roots, restore=False)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log)
        disks.fail(roots[0], "rename")
        log.roll()
        write(log)
    assert reports.roots == ["a"]
    assert names(roots[0]) == [inprogress_name(1)]
    assert names(roots[1]) == [segment_name(1, 3), segment_name(4, 6)]


@pytest.mark.parametrize("step", ["open", "sync"])
def test_member_that_cannot_start_a_segment_is_dropped(
    roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports, step: str
) -> None:
    journals = open_set(roots, restore=False)
    disks.fail(roots[2], step)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log)
    assert reports.roots == ["c"]
    assert names(roots[2]) == []
    assert names(roots[0]) == [segment_name(1, 3)]


@pytest.mark.parametrize("step", ["list", "read"])
def test_reader_uses_other_members_if_one_fails(roots: list[Path], open_set: OpenSet, disks: Disks, step: str) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 3)
        disks.fail(roots[0], step)
        disks.fail(roots[1], step)
        assert read_all(journals, in_progress=True) == reported([2, 3, 4])
        disks.fail(roots[2], step)
        with pytest.raises(JournalStorageError):
            read_all(journals, in_progress=True)
        disks.repair()


def test_reader_continues_with_another_copy_at_the_same_txid(roots: list[Path], open_set: OpenSet) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 8)
    damage(roots[0], segment_name(1, 10), 0.3)
    damage(roots[1], segment_name(1, 10), 0.6)
    assert read_all(journals) == reported(range(2, 10))
    damage(roots[2], segment_name(1, 10), 0.8)
    (segment,) = journals.segments(1)
    seen = []
    with pytest.raises(CorruptOpError):
        for op in segment.read(1):
            seen.append(op.txid)
    assert seen == list(range(1, 8))  # up to the end of the best copy


def test_full_disk_drops_its_member_and_keeps_acknowledged_transactions(
    roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports
) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 2)
        disks.fail(roots[0], "write", code=errno.ENOSPC)
        write(log, 2)
        assert "No space left" in reports[0][1].message
        assert reports[0][1].hint
        disks.repair()
    (recovered,) = recover_in_progress(roots[0] / "current")
    assert (recovered.first, recovered.last) == (1, 3)


def test_lost_permission_drops_its_member(roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log)
        disks.fail(roots[1], "open", "rename", "list", "read", "remove", code=errno.EACCES)
        log.roll()
        write(log)
        assert reports.roots == ["b"]
        assert "Permission denied" in reports[0][1].message
        with pytest.raises(JournalStorageError, match="Permission denied"):
            JournalSet([JournalMember(file) for file in [FileJournal(roots[1] / "current")]]).segments(1)
        assert read_all(journals, in_progress=True) == reported([2, 5])


def test_restored_member_is_written_again_and_receives_missed_segments(
    roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports
) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log)
        disks.fail(roots[1], "write", "open", "list")
        write(log)
        log.roll()  # 1-4
        write(log)
        log.roll()  # 5-7
        assert (active(journals), journals.lagging) == (["a", "c"], False)
        disks.repair()
        write(log)
        log.roll()  # 8-10
        assert (active(journals), journals.lagging, journals.faults) == (["a", "b", "c"], True, {})
        assert names(roots[1]) == [segment_name(1, 2), inprogress_name(11)]
        write(log)
        assert read_all(journals, in_progress=True) == reported([2, 3, 6, 9, 12])
        assert journals.copy_missing() == 3
        assert not journals.lagging
        assert contents(roots[1]) == contents(roots[0])
    assert contents(roots[1]) == contents(roots[0]) == contents(roots[2])
    assert journals.copy_missing() == 0
    assert reports.roots == ["b"]


def test_a_member_that_is_still_broken_stays_dropped_and_is_reported_once(
    roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports
) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        disks.fail(roots[1], "open")
        for _ in range(3):
            log.roll()
        disks.repair()
    assert reports.roots == ["b"]
    journals.recover(INFO)
    assert contents(roots[1]) == contents(roots[0])


def test_log_fails_when_all_members_fail(roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports) -> None:
    journals = open_set(roots)
    log = EditLogWriter(journals, LAYOUT, 1)
    write(log)
    for root in roots:
        disks.fail(root, "sync")
    with pytest.raises(JournalStorageError, match="0 of 3 redundant journals work") as caught:
        write(log)
    assert caught.value.exit_code == 6
    assert reports.roots == ["a", "b", "c"]
    with pytest.raises(JournalStorageError):
        log.write(delete(9))
    with pytest.raises(JournalStorageError):
        log.close()
    with pytest.raises(JournalError, match="not recovered"):
        journals.start_segment(4, LAYOUT)
    disks.repair()
    journals.recover(INFO)
    assert read_all(journals)[2] == "/000002"
    with EditLogWriter(journals, LAYOUT, count_of(journals, 1) + 1) as log:
        write(log)
    assert contents(roots[0]) == contents(roots[1]) == contents(roots[2])


@pytest.mark.parametrize("step", ["write", "rename", "open"])
def test_failure_of_a_required_member_fails_the_set(
    roots: list[Path], open_set: OpenSet, disks: Disks, step: str
) -> None:
    journals = open_set(roots, required=1)
    log = EditLogWriter(journals, LAYOUT, 1)
    write(log)
    disks.fail(roots[0], step)
    with pytest.raises(JournalStorageError, match="the required journal"):
        log.roll()
    assert journals.active == ()
    with pytest.raises(JournalStorageError):
        log.close()
    disks.repair()
    journals.recover(INFO)
    assert read_all(journals) == reported([2])


def test_fewer_working_members_than_the_minimum_fail_the_set(
    roots: list[Path], open_set: OpenSet, disks: Disks
) -> None:
    journals = open_set(roots, minimum=2)
    log = EditLogWriter(journals, LAYOUT, 1)
    disks.fail(roots[0], "write")
    write(log)
    disks.fail(roots[1], "write")
    with pytest.raises(JournalStorageError, match="1 of 3 redundant journals work, but 2 are required"):
        write(log)


def test_minimum_redundant_members_besides_required_ones(roots: list[Path], open_set: OpenSet, disks: Disks) -> None:
    for minimum, works in ((1, False), (0, True)):
        journals = open_set(roots[:2], required=1, minimum=minimum)
        log = EditLogWriter(journals, LAYOUT, count_of(journals, 1) + 1)
        disks.fail(roots[1], "write")
        if works:
            write(log)
            log.close()
        else:
            with pytest.raises(JournalStorageError, match="0 of 1 redundant"):
                write(log)
        disks.repair()
    with EditLogWriter(open_set(roots[:1], required=1), LAYOUT, count_of(journals, 1) + 1) as log:
        write(log)


def test_the_shared_member_is_written_first(roots: list[Path], open_set: OpenSet, disks: Disks) -> None:
    members = [
        JournalMember(FileJournal(root / "current"), required=root == roots[2], shared=root == roots[2])
        for root in roots
    ]
    with_shared = JournalSet(members)
    with_shared.recover(INFO)
    log = EditLogWriter(with_shared, LAYOUT, 1)
    disks.fail(roots[2], "write")
    with pytest.raises(JournalStorageError):
        write(log)
    with_shared.close()
    for root in roots[:2]:  # these directories contain only what a standby has seen
        (recovered,) = recover_in_progress(root / "current")
        assert recovered.last == 1


# ---- reading -----------------------------------------------------------------------------------------------


def test_reader_gets_transactions_that_all_members_have(
    roots: list[Path], open_set: OpenSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = open_set(roots)
    log = EditLogWriter(journals, LAYOUT, 1)
    write(log)
    seen = []
    inner = next(member.journal for member in journals.active if member.journal.location.endswith("/c"))
    writer = inner._lifecycle.writer  # type: ignore[attr-defined]
    append = writer.append

    def looked_at(batch: object) -> None:
        seen.append([segment.last for segment in journals.segments(1, in_progress=True)])
        append(batch)

    monkeypatch.setattr(writer, "append", looked_at)
    write(log)  # the first two members already have the batch
    assert seen == [[2]]
    assert [segment.last for segment in journals.segments(1, in_progress=True)] == [3]
    log.close()


def test_segments_missing_from_one_member_are_read_from_another(
    roots: list[Path], open_set: OpenSet, disks: Disks
) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        for _ in range(3):
            write(log)
            log.roll()
    journals.close()
    (roots[0] / "current" / segment_name(4, 6)).unlink()
    (roots[1] / "current" / segment_name(1, 3)).unlink()
    reader = JournalSet([JournalMember(FileJournal(root / "current")) for root in roots[:2]])
    assert read_all(reader) == reported([2, 5, 8])
    (roots[1] / "current" / segment_name(4, 6)).unlink()
    with pytest.raises(TransactionGapError, match="txids 4 to 6"):
        reader.segments(1)
    with pytest.raises(TransactionGapError, match="txids 4 to 6"):
        count_of(reader, 2)


def test_set_requires_a_member() -> None:
    with pytest.raises(ValueError, match="needs at least one member"):
        JournalSet([])


def test_format_changes_no_member_if_one_is_formatted(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in ("a", "b")]
    journals = JournalSet([JournalMember(FileJournal(root / "current")) for root in roots])
    assert not journals.is_formatted()
    file_journal(roots[1])
    assert journals.is_formatted()
    with pytest.raises(JournalExistsError, match="/b"):
        journals.format(INFO)
    assert not roots[0].exists()
    journals.format(INFO, force=True)
    journals.recover(INFO)
    assert journals.location == f"{roots[0].as_uri()},{roots[1].as_uri()}"
    journals.close()


def test_purge_reaches_all_members_and_reports_failures(roots: list[Path], open_set: OpenSet, disks: Disks) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        for _ in range(3):
            write(log)
            log.roll()
        journals.purge(4)
        for root in roots:
            assert names(root)[0] == segment_name(4, 6)
        disks.fail(roots[1], "remove")
        with pytest.raises(JournalStorageError, match="old segments remain"):
            journals.purge(7)
        disks.repair()
        assert names(roots[0])[0] == names(roots[2])[0] == segment_name(7, 9)
        assert journals.copy_missing() == 0  # purged segments do not return
        assert names(roots[0])[0] == segment_name(7, 9)
