"""Copies of journals: from binary to JSON and back byte for byte, ranges, layouts, and refused copies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hadoop_common.storage_info import parse_version
from journal import json_folder
from journal.binary_codec import encode_op
from journal.errors import (
    CorruptOpError,
    JournalError,
    JournalExistsError,
    JournalStorageError,
    OpEncodingError,
    SegmentError,
    TransactionGapError,
    UnsupportedEditsLayoutError,
)
from journal.file_journal import FileJournal
from journal.journal import Journal, RecordBatch
from journal.journal_copy import CopyRange, copy_journal, select_range
from journal.json_journal import JsonJournal
from journal.operation import EditOp
from journal.ops import CreateSnapshotOp, EndLogSegmentOp, SetStoragePolicyOp, StartLogSegmentOp
from tests.journal.journal_support import case_id, count_of, numbered, recorded_segments
from tests.journal.wal_support import INFO, LAYOUT, contents, delete, read_all


def copy(
    source: Journal, target: Journal, wanted: CopyRange | None = None, *, force: bool = False, **options: Any
) -> int:
    settings = {"layout_version": None, "default_layout": LAYOUT} | options
    return copy_journal(select_range(source, wanted or CopyRange(), **settings), target, INFO, force=force)[1]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[FileJournal]:
    """Segments 11-13 and 14-16, and 17-18 in progress."""
    journal = FileJournal(tmp_path / "source" / "current")
    journal.format(INFO)
    journal.recover(INFO)
    for first in (11, 14, 17):
        ops: list[EditOp] = [StartLogSegmentOp(), delete(first + 1), EndLogSegmentOp()]
        records = [encode_op(op, LAYOUT) for op in numbered(ops, first)]
        writer = journal.start_segment(first, LAYOUT)
        count = 2 if first == 17 else 3
        writer.append(RecordBatch(first, first + count - 1, b"".join(records[:count])))
        if first < 17:
            writer.finalize(first + 2)
    yield journal
    journal.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[JsonJournal]:
    journal = JsonJournal(tmp_path / "target")
    yield journal
    journal.close()


def bounds(journal: Journal, from_txid: int) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in journal.segments(from_txid)]


# ---- byte for byte -----------------------------------------------------------------------------------------


@pytest.mark.recorded
@pytest.mark.parametrize("case", sorted({path.parent for path in recorded_segments()}), ids=case_id)
def test_recorded_edits_round_trip_through_json_byte_for_byte(tmp_path: Path, case: Path) -> None:
    shutil.copytree(case, tmp_path / "a" / "current")
    namespace = parse_version((case / "VERSION").read_bytes(), "")
    journals = [FileJournal(tmp_path / "a" / "current"), JsonJournal(tmp_path / "b")]
    journals.append(FileJournal(tmp_path / "c" / "current"))
    for source, target in pairwise(journals):
        parts = select_range(source, CopyRange(), layout_version=None, default_layout=namespace.layout_version)
        assert copy_journal(parts, target, namespace)[1] == count_of(target, parts[0].first) > 0
        target.close()
    before, after = contents(tmp_path / "a"), contents(tmp_path / "c")
    assert before.keys() == after.keys()
    for name, content in before.items():
        # only padding follows the operations
        assert content.startswith(after[name])
        assert not content[len(after[name]) :].strip(b"\xff")


# ---- ranges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "copied"),
    [
        (CopyRange(), [(11, 13), (14, 16)]),
        (CopyRange(in_progress=True), [(11, 13), (14, 16), (17, 18)]),
        (CopyRange(11, 18, in_progress=True), [(11, 13), (14, 16), (17, 18)]),
        (CopyRange(12), [(12, 13), (14, 16)]),
        (CopyRange(last=15), [(11, 13), (14, 15)]),
        (CopyRange(12, 12), [(12, 12)]),
        (CopyRange(14, 16), [(14, 16)]),
    ],
)
def test_range_is_copied_by_segments(
    source: FileJournal, target: JsonJournal, tmp_path: Path, wanted: CopyRange, copied: list[tuple[int, int]]
) -> None:
    first, last = copied[0][0], copied[-1][1]
    assert copy(source, target, wanted) == last - first + 1
    assert bounds(target, first) == copied
    assert target.namespace() == INFO
    back = FileJournal(tmp_path / "back" / "current")
    copy(target, back)
    assert bounds(back, first) == copied
    assert read_all(back, first) == {
        txid: path for txid, path in read_all(source, 11, in_progress=True).items() if first <= txid <= last
    }
    back.close()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (CopyRange(19), 19),
        (CopyRange(17), 17),
        (CopyRange(last=10), 0),
        (CopyRange(5), 5),
        (CopyRange(12, 17), 17),
        (CopyRange(12, 99, in_progress=True), 19),
    ],
)
def test_missing_transactions_are_reported(
    source: FileJournal, target: JsonJournal, wanted: CopyRange, expected: int
) -> None:
    with pytest.raises(TransactionGapError) as caught:
        copy(source, target, wanted)
    assert caught.value.expected == expected
    assert not target.is_formatted()


def test_gap_is_reported(source: FileJournal, target: JsonJournal) -> None:
    (source.folder / "edits_0000000000000000014-0000000000000000016").unlink()
    with pytest.raises(TransactionGapError, match="txids 14 to 16 are missing"):
        copy(source, target, CopyRange(in_progress=True))
    assert not target.is_formatted()


# ---- layouts -----------------------------------------------------------------------------------------------


def test_copy_keeps_the_layout_unless_another_is_requested(source: FileJournal, tmp_path: Path) -> None:
    json_form, again = JsonJournal(tmp_path / "json"), FileJournal(tmp_path / "again" / "current")
    copy(source, json_form, layout_version=-63)
    copy(json_form, again)
    assert [content[:4] for content in contents(tmp_path / "again").values()] == [
        (-63).to_bytes(4, "big", signed=True)
    ] * 2
    assert read_all(again, 11) == read_all(source, 11)
    for journal in (json_form, again):
        journal.close()


def test_handwritten_records_get_the_default_layout(tmp_path: Path) -> None:
    source = JsonJournal(tmp_path / "hand")
    source.folder.mkdir()
    (source.folder / "edits_1-1.json").write_text('{"OP":"MKDIR","PATH":"/a","txid":1}')
    (part,) = select_range(source, CopyRange(), layout_version=None, default_layout=-60)
    assert part.layout_version == -60


def test_values_that_the_layout_cannot_store_are_refused(tmp_path: Path, target: JsonJournal) -> None:
    source = JsonJournal(tmp_path / "hand")
    source.folder.mkdir()
    (source.folder / "edits_1-1.json").write_text(
        '{"OP":"CREATE_SNAPSHOT","SNAPSHOTROOT":"/","SNAPSHOTNAME":"s","MTIME":5,"txid":1}'
    )
    with pytest.raises(OpEncodingError, match="-63 has no mtime"):
        copy(source, target, layout_version=-63)
    with pytest.raises(UnsupportedEditsLayoutError):
        copy(source, target, layout_version=-12)
    copy(source, target, layout_version=-66, force=True)
    (op,) = target.segments(1)[0].read(1)
    assert isinstance(op, CreateSnapshotOp)
    assert op.mtime == 5


def test_storage_policies_of_a_vendor_are_copied(tmp_path: Path, target: JsonJournal) -> None:
    source = FileJournal(tmp_path / "vendor" / "current")
    source.format(INFO)
    source.recover(INFO)
    policy = SetStoragePolicyOp(path="/d", policy_id=3)
    ops = numbered([StartLogSegmentOp(), policy, EndLogSegmentOp()], 1)
    writer = source.start_segment(1, LAYOUT)
    writer.append(RecordBatch(1, 3, b"".join(encode_op(op, LAYOUT) for op in ops)))
    writer.finalize(3)
    source.close()
    copy(source, target)
    assert next(iter(target.segments(1)[0].read(2))) == policy


# ---- targets -----------------------------------------------------------------------------------------------


def test_existing_target_is_refused_unless_forced(source: FileJournal, target: JsonJournal) -> None:
    copy(source, target, CopyRange(11, 13))
    with pytest.raises(JournalExistsError) as caught:
        copy(source, target)
    assert "--force" in caught.value.hint
    assert count_of(target, 11) == 3
    target.close()
    copy(source, target, force=True)
    assert count_of(target, 11) == 6


def test_damaged_source_does_not_change_the_target(source: FileJournal, target: JsonJournal) -> None:
    copy(source, target, CopyRange(11, 13))
    target.close()
    path = source.folder / "edits_0000000000000000014-0000000000000000016"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptOpError):
        copy(source, target, force=True)
    assert count_of(target, 11) == 3


def test_failed_copy_can_be_repeated_with_force(
    source: FileJournal, target: JsonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def failing(folder: json_folder.JsonFolder, *arguments: Any) -> Any:
        written.append(arguments[1])
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return write_ops(folder, *arguments)

    write_ops = json_folder.JsonFolder.write_ops
    monkeypatch.setattr(json_folder.JsonFolder, "write_ops", failing)
    with pytest.raises(JournalStorageError, match="No space"):
        copy(source, target)
    assert count_of(target, 11) == 3
    with pytest.raises(JournalExistsError):
        copy(source, target)
    assert copy(source, target, force=True) == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace('"/000012"', '"/000099"'), "differ from the written transactions"),
        (lambda text: "\n".join(text.splitlines()[:-1]), "ends before txid 13"),
    ],
)
def test_written_copy_is_compared_with_the_source(
    source: FileJournal, target: JsonJournal, monkeypatch: pytest.MonkeyPatch, change: Any, words: str
) -> None:
    def lying(folder: json_folder.JsonFolder, *arguments: Any) -> Any:
        written = write_ops(folder, *arguments)
        written.path.write_text(change(written.path.read_text()))
        return written

    write_ops = json_folder.JsonFolder.write_ops
    monkeypatch.setattr(json_folder.JsonFolder, "write_ops", lying)
    with pytest.raises(JournalError, match=words):
        copy(source, target)


def test_segments_missing_from_the_copy_are_reported(
    source: FileJournal, target: JsonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = JsonJournal.segments
    monkeypatch.setattr(JsonJournal, "segments", lambda journal, first, **options: segments(journal, first)[:1])
    with pytest.raises(SegmentError, match=r"wrote 6 transactions \(11 to 16\), but 3 can be read"):
        copy(source, target)


def test_large_segments_are_written_in_batches(
    source: FileJournal, target: JsonJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journal.journal_copy._BATCH", 20)
    copy(source, target)
    names = sorted(path.name for path in target.folder.glob("edits*"))
    assert len(names) == 4
    assert bounds(target, 11) == [(11, 13), (14, 16)]
