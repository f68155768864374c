"""Sets of journals: written and dropped members, reads, and segments that restored members lack."""

from __future__ import annotations

import dataclasses
import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hadoop_common.names import inprogress_name, segment_name
from hadoop_common.storage_info import StorageInfo
from journal.edit_log_writer import EditLogWriter
from journal.errors import (
    CorruptOpError,
    JournalError,
    JournalExistsError,
    JournalInUseError,
    JournalStorageError,
    TransactionGapError,
    UnsupportedEditsLayoutError,
)
from journal.file_journal import FileJournal
from journal.journal import Journal, SegmentWriter
from journal.journal_set import JournalMember, JournalSet
from journal.recovery import recover_in_progress
from journal.segment_copies import SegmentCopies
from journal.segment_file import list_segments
from tests.journal.wal_support import (
    INFO,
    LAYOUT,
    Disks,
    Reports,
    contents,
    delete,
    file_journal,
    names,
    paths_of,
    read_all,
)

OpenSet = Callable[..., JournalSet]


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(monkeypatch)


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("a", "b", "c")]
    for root in made:
        file_journal(root)
    return made


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def open_set(reports: Reports) -> Iterator[OpenSet]:
    """Recovers a set of directories, the first of them required; one that was open before is closed."""
    opened: list[JournalSet] = []

    def make(roots: list[Path], *, required: int = 0, **options: object) -> JournalSet:
        for each in opened:
            each.close()
        journals = [FileJournal(root / "current") for root in roots]
        members = [JournalMember(journal, required=number < required) for number, journal in enumerate(journals)]
        opened.append(JournalSet(members, on_failure=reports.note, **options))  # type: ignore[arg-type]
        opened[-1].recover(INFO)
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def write(log: EditLogWriter, count: int = 1) -> None:
    """Write acknowledged operations; each contains its txid."""
    for _ in range(count):
        txid = log.last_txid + 1
        log.sync(log.write(delete(txid)))


def damage(root: Path, name: str, place: float) -> None:
    """Change a byte of a segment; `place` is 0 for the first and 1 for the last."""
    path = root / "current" / name
    content = bytearray(path.read_bytes())
    content[int((len(content) - 1) * place)] ^= 0xFF
    path.write_bytes(content)


def active(journals: JournalSet) -> list[str]:
    return [member.journal.location.rpartition("/")[2] for member in journals.active]


def told(txids: range | list[int]) -> dict[int, str]:
    return {txid: f"/{txid:06d}" for txid in txids}


# ---- error scenarios of a write-ahead log on several media -----------------------------------------------------


def test_all_members_get_the_same_bytes(roots: list[Path], open_set: OpenSet) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 3)
        log.roll()
        write(log, 2)
        assert read_all(journals, in_progress=True) == told([2, 3, 4, 7, 8])
    assert contents(roots[0]) == contents(roots[1]) == contents(roots[2])
    assert names(roots[0]) == [segment_name(1, 5), segment_name(6, 9)]
    assert (journals.count(1), journals.count(4), journals.count(10)) == (9, 6, 0)


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
    assert read_all(journals) == told([2, 3, 4, 7])


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
def test_a_member_that_cannot_begin_a_segment_is_dropped(
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
def test_a_member_that_fails_on_read_is_read_around(
    roots: list[Path], open_set: OpenSet, disks: Disks, step: str
) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 3)
        disks.fail(roots[0], step)
        disks.fail(roots[1], step)
        assert read_all(journals, in_progress=True) == told([2, 3, 4])
        disks.fail(roots[2], step)
        with pytest.raises(JournalStorageError):
            read_all(journals, in_progress=True)
        disks.repair()


def test_a_reader_goes_on_with_another_copy_at_the_right_txid(roots: list[Path], open_set: OpenSet) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 8)
    damage(roots[0], segment_name(1, 10), 0.3)
    damage(roots[1], segment_name(1, 10), 0.6)
    assert read_all(journals) == told(range(2, 10))
    damage(roots[2], segment_name(1, 10), 0.8)
    (segment,) = journals.segments(1)
    seen = []
    with pytest.raises(CorruptOpError):
        for op in segment.read(1):
            seen.append(op.txid)
    assert seen == list(range(1, 8))  # as far as the best of them goes


def test_a_full_disk_drops_its_member_and_keeps_what_was_acknowledged(
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
        assert read_all(journals, in_progress=True) == told([2, 5])


def test_a_restored_member_is_written_again_and_gets_what_it_missed(
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
        assert read_all(journals, in_progress=True) == told([2, 3, 6, 9, 12])
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


def test_when_all_members_fail_the_log_does(
    roots: list[Path], open_set: OpenSet, disks: Disks, reports: Reports
) -> None:
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
    with EditLogWriter(journals, LAYOUT, journals.count(1) + 1) as log:
        write(log)
    assert contents(roots[0]) == contents(roots[1]) == contents(roots[2])


@pytest.mark.parametrize("step", ["write", "rename", "open"])
def test_a_required_member_takes_the_set_with_it(roots: list[Path], open_set: OpenSet, disks: Disks, step: str) -> None:
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
    assert read_all(journals) == told([2])


def test_fewer_members_than_have_to_work_fail_the_set(roots: list[Path], open_set: OpenSet, disks: Disks) -> None:
    journals = open_set(roots, minimum=2)
    log = EditLogWriter(journals, LAYOUT, 1)
    disks.fail(roots[0], "write")
    write(log)
    disks.fail(roots[1], "write")
    with pytest.raises(JournalStorageError, match="1 of 3 redundant journals work, 2 are required"):
        write(log)


def test_one_redundant_member_has_to_work_beside_the_required_ones(
    roots: list[Path], open_set: OpenSet, disks: Disks
) -> None:
    for minimum, works in ((1, False), (0, True)):
        journals = open_set(roots[:2], required=1, minimum=minimum)
        log = EditLogWriter(journals, LAYOUT, journals.count(1) + 1)
        disks.fail(roots[1], "write")
        if works:
            write(log)
            log.close()
        else:
            with pytest.raises(JournalStorageError, match="0 of 1 redundant"):
                write(log)
        disks.repair()
    with EditLogWriter(open_set(roots[:1], required=1), LAYOUT, journals.count(1) + 1) as log:
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
    for root in roots[:2]:  # they have nothing that a standby did not see
        (recovered,) = recover_in_progress(root / "current")
        assert recovered.last == 1


# ---- reading -------------------------------------------------------------------------------------------------


def test_of_the_open_segment_a_reader_gets_what_all_members_have(
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
    write(log)  # the first two members have it already
    assert seen == [[2]]
    assert [segment.last for segment in journals.segments(1, in_progress=True)] == [3]
    log.close()


def test_what_one_member_lacks_another_one_has(roots: list[Path], open_set: OpenSet, disks: Disks) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        for _ in range(3):
            write(log)
            log.roll()
    journals.close()
    (roots[0] / "current" / segment_name(4, 6)).unlink()
    (roots[1] / "current" / segment_name(1, 3)).unlink()
    reader = JournalSet([JournalMember(FileJournal(root / "current")) for root in roots[:2]])
    assert read_all(reader) == told([2, 5, 8])
    (roots[1] / "current" / segment_name(4, 6)).unlink()
    with pytest.raises(TransactionGapError, match="txids 4 to 6"):
        reader.segments(1)
    with pytest.raises(TransactionGapError, match="txids 4 to 6"):
        reader.count(2)


# ---- recovery and missing segments ----------------------------------------------------------------------------


def crashed(roots: list[Path], open_set: OpenSet, ends: list[int]) -> None:
    """Leave segment 1 in progress in each directory, truncated after the transaction in `ends`."""
    journals = open_set(roots)
    log = EditLogWriter(journals, LAYOUT, 1)
    write(log, max(ends) - 1)
    journals.close()
    for root, end in zip(roots, ends, strict=True):
        path = root / "current" / inprogress_name(1)
        size = (path.stat().st_size - 8 - 17) // (max(ends) - 1)
        with path.open("r+b") as file:
            file.truncate(8 + 17 + size * (end - 1))


def test_recovery_brings_all_up_to_the_longest(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [4, 9, 6])
    journals = open_set(roots)
    assert read_all(journals) == told(range(2, 10))
    assert names(roots[0]) == [segment_name(1, 9)]
    assert contents(roots[0]) == contents(roots[1]) == contents(roots[2])


def test_a_kill_while_segments_are_copied_is_made_up_for(
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


def test_a_damaged_copy_is_not_spread(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [9, 9, 4])
    for root in roots[:2]:
        recover_in_progress(root / "current")
    damage(roots[0], segment_name(1, 9), 0.3)
    journals = open_set(roots)
    assert contents(roots[2]) == contents(roots[1])
    assert read_all(journals) == told(range(2, 10))


def test_a_segment_that_is_damaged_everywhere_is_left_to_the_reader(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [9, 9, 4])
    for root in roots[:2]:
        recover_in_progress(root / "current")
        damage(root, segment_name(1, 9), 0.8)
    journals = open_set(roots)
    assert names(roots[2]) == [segment_name(1, 4)]
    with pytest.raises(CorruptOpError):
        read_all(journals)


def test_what_a_writer_left_that_was_taken_over_is_moved_aside(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [4, 4, 9])
    journals = open_set(roots[:2])  # the third disk is not there
    with EditLogWriter(journals, LAYOUT, 5) as log:
        write(log, 7)
    journals = open_set(roots)
    assert read_all(journals) == told([2, 3, 4, *range(6, 13)])
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


def test_copying_segments_fails_without_harm_while_the_log_is_written(
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


def test_members_that_are_gone_are_dropped_and_required_ones_are_not(
    roots: list[Path], open_set: OpenSet, reports: Reports
) -> None:
    (roots[1] / "current").rename(roots[1] / "elsewhere")
    open_set(roots)
    assert reports.roots == ["b"]
    with pytest.raises(JournalStorageError, match="required journal"):
        open_set([roots[1], roots[0]], required=1)


def test_recovery_ends_where_a_member_may_hold_what_no_other_has(roots: list[Path], open_set: OpenSet) -> None:
    crashed(roots, open_set, [9, 4, 4])
    damage(roots[0], inprogress_name(1), 0.8)
    with pytest.raises(CorruptOpError, match="intact operations"):
        open_set(roots)


def test_recovery_ends_where_another_writes(roots: list[Path], open_set: OpenSet) -> None:
    other = FileJournal(roots[1] / "current")
    other.recover(INFO)
    with pytest.raises(JournalInUseError):
        open_set(roots)
    other.close()


def test_a_member_of_another_namespace_ends_recovery(roots: list[Path], open_set: OpenSet) -> None:
    FileJournal(roots[1] / "current").format(dataclasses.replace(INFO, namespace_id=43), force=True)
    with pytest.raises(JournalError, match="namespace_id is 43"):
        open_set(roots)


# ---- states ----------------------------------------------------------------------------------------------------


def test_one_segment_at_a_time(roots: list[Path], open_set: OpenSet) -> None:
    journals = open_set(roots)
    with pytest.raises(UnsupportedEditsLayoutError):
        journals.start_segment(1, -70)
    writer = journals.start_segment(1, LAYOUT)
    for call in (lambda: journals.start_segment(2, LAYOUT), lambda: journals.recover(INFO)):
        with pytest.raises(JournalInUseError, match="segment 1 is being written"):
            call()
    writer.abort()
    writer.abort()
    with pytest.raises(JournalError, match="abandoned"):
        writer.finalize(1)
    with pytest.raises(JournalError, match="not recovered"):
        journals.start_segment(1, LAYOUT)
    journals.recover(INFO)
    journals.start_segment(1, LAYOUT)
    journals.close()
    with pytest.raises(ValueError, match="needs a member"):
        JournalSet([])


def test_format_touches_none_where_one_exists(tmp_path: Path) -> None:
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


def test_purge_reaches_all_and_tells_of_those_that_fail(roots: list[Path], open_set: OpenSet, disks: Disks) -> None:
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
        assert journals.copy_missing() == 0  # what was purged does not come back
        assert names(roots[0])[0] == segment_name(7, 9)


# ---- members of other kinds --------------------------------------------------------------------------------------


class Elsewhere:
    """A journal that is not a directory: it has the finalized segments of `behind`, and is not written."""

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


def test_a_directory_gets_what_it_lacks_from_a_journal_of_another_kind(roots: list[Path], open_set: OpenSet) -> None:
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
    # a writer does not wait until everything is fetched
    assert journals.lagging
    assert contents(roots[1]) == {}
    with EditLogWriter(journals, LAYOUT, 12):
        assert journals.copy_missing() == 3
        assert not journals.lagging
        whole = {name: data for name, data in contents(roots[1]).items() if "inprogress" not in name}
        assert whole == contents(roots[0])
    journals.close()


def test_copying_segments_may_be_left_for_later(roots: list[Path], open_set: OpenSet) -> None:
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


def test_what_a_directory_has_is_read_there(roots: list[Path], open_set: OpenSet) -> None:
    with EditLogWriter(open_set(roots[:1]), LAYOUT, 1) as log:
        write(log)
    other: Journal = Elsewhere(FileJournal(roots[0] / "current"))  # type: ignore[assignment]
    journals = JournalSet(
        [JournalMember(other, required=True, shared=True), JournalMember(FileJournal(roots[0] / "current"))]
    )
    (segment,) = journals.segments(1)
    assert [isinstance(copy, SegmentCopies) for copy in segment.copies] == [False, True]
    assert [journals.reach(member) for member in journals.members] == [3, 3]


def test_a_required_member_that_cannot_be_listed_is_missed(roots: list[Path], open_set: OpenSet) -> None:
    """The member may be the only one with the newest transactions; of the others the best is chosen."""
    journals = open_set(roots, required=1)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log)
    shutil.rmtree(roots[1] / "current")
    assert journals.count(1) == 3
    shutil.rmtree(roots[0] / "current")
    with pytest.raises(JournalError, match="cannot be listed"):
        journals.count(1)


def test_what_is_read_is_what_was_written(roots: list[Path], open_set: OpenSet) -> None:
    journals = open_set(roots)
    with EditLogWriter(journals, LAYOUT, 1) as log:
        write(log, 4)
    (segment,) = journals.segments(3)
    assert paths_of(segment.read(3)) == told([3, 4, 5])
    assert [each.path.name for each in list_segments(roots[0] / "current")] == [segment_name(1, 6)]
