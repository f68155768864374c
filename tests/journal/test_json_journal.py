"""The files of a JSON journal: names, segments, damage, URIs and locks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import (
    CorruptOpError,
    EditsTextError,
    JournalError,
    JournalStorageError,
    SegmentError,
    TransactionGapError,
    UnsupportedEditsLayoutError,
)
from journal.file_journal import FileJournal
from journal.journal import RecordBatch
from journal.journal_set import JournalMember, JournalSet
from journal.json_folder import JsonManifest, decode_manifest, encode_manifest
from journal.json_journal import JsonJournal
from journal.json_segments import JsonFile, group_files, json_file_name
from journal.open_journal import open_journal
from journal.ops import EndLogSegmentOp, MkdirOp, StartLogSegmentOp
from tests.journal.journal_support import count_of
from tests.journal.json_support import Steps, batch, deletes, edits, ends, folder, journal, rm, write_lines
from tests.journal.wal_support import INFO, LAYOUT, delete, read_all

__all__ = ["folder", "journal"]


# ---- files and segments ------------------------------------------------------------------------------------


def test_each_batch_is_a_file_with_one_object_per_transaction(journal: JsonJournal, folder: Path) -> None:
    writer = journal.start_segment(1, -63)
    writer.append(batch(1, StartLogSegmentOp(), delete(2), layout_version=-63))
    writer.append(batch(3, delete(3), EndLogSegmentOp(), layout_version=-63))
    assert edits(folder) == [
        "edits_0000000000000000001-0000000000000000002.json",
        "edits_0000000000000000003-0000000000000000004.json",
    ]
    lines = (folder / edits(folder)[0]).read_text().splitlines()
    assert lines[0] == '{"OP":"START_LOG_SEGMENT","txid":1,"layoutVersion":-63}'
    assert json.loads(lines[1]) == {
        "OP": "DELETE",
        "txid": 2,
        "PATH": "/000002",
        "TIMESTAMP": 2,
        "RPC_CLIENT_ID": "",
        "RPC_CALL_ID": -2,
    }
    (segment,) = journal.segments(1)
    assert (segment.first, segment.last, segment.in_progress) == (1, 4, False)
    assert segment.name == f"{folder}/{edits(folder)[0]} .. {edits(folder)[1]}"
    writer.finalize(4)
    assert ends(folder) == []


def test_end_of_a_segment_without_end_operation_is_recorded(journal: JsonJournal, folder: Path) -> None:
    for first in (1, 4):
        writer = journal.start_segment(first, LAYOUT)
        writer.append(deletes(first, first + 2))
        writer.finalize(first + 2)
    assert ends(folder) == [3, 6]
    journal.start_segment(7, LAYOUT).finalize(6)
    assert [(each.first, each.last) for each in JsonJournal(folder).segments(1)] == [(1, 3), (4, 6)]
    journal.purge(4)
    journal.recover(INFO)
    assert ends(folder) == [6]


def test_manifest_contains_the_namespace(journal: JsonJournal, folder: Path) -> None:
    content = json.loads((folder / "journal.json").read_text())
    assert content["version"] == 1
    assert content["namespace"]["namespaceID"] == 42
    assert journal.namespace() == INFO
    assert JsonJournal(folder / "none").namespace() is None


@given(st.frozensets(st.integers(0, (1 << 63) - 1)))
def test_manifest_round_trips(ends: frozenset[int]) -> None:
    manifest = JsonManifest(INFO, ends)
    assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"namespace": None}, "does not describe"),
        ({"namespace": {}}, "layoutVersion"),
        ({"ends": [-1]}, "'-1' is not a transaction id"),
        ({"ends": [True]}, "not a transaction id"),
        ({"ends": 3}, "does not describe"),
        ({"version": 2}, "unknown version 2 of a JSON journal"),
        ({"version": None}, "version None"),
    ],
)
def test_damaged_manifest_is_reported(
    journal: JsonJournal, folder: Path, change: dict[str, object], words: str
) -> None:
    path = folder / "journal.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    for call in (lambda: journal.recover(INFO), lambda: journal.segments(1), journal.is_formatted):
        with pytest.raises(JournalError, match=words) as caught:
            call()
        assert str(path) in str(caught.value)
        assert caught.value.hint
    path.write_text(path.read_text()[:20])
    with pytest.raises(JournalError, match="does not describe a JSON journal"):
        journal.segments(1)


def file_of(first: int, last: int, marks: str = "") -> JsonFile:
    return JsonFile(first, last, Path(json_file_name(first, last)), "s" in marks, "e" in marks)


@pytest.mark.parametrize(
    ("files", "ends", "runs"),
    [
        ([], [], []),
        ([file_of(1, 3, "s"), file_of(4, 6, "e")], [], [(1, 6, False)]),
        ([file_of(4, 6), file_of(1, 3, "s")], [], [(1, 6, True)]),
        ([file_of(1, 3, "s"), file_of(4, 6)], [6], [(1, 6, False)]),
        ([file_of(1, 3, "s"), file_of(4, 6)], [3], [(1, 3, False), (4, 6, True)]),
        ([file_of(1, 3), file_of(4, 4, "s"), file_of(5, 5, "e")], [], [(1, 3, False), (4, 5, False)]),
        ([file_of(1, 3, "se"), file_of(4, 6, "se"), file_of(7, 7)], [], [(1, 3, False), (4, 6, False), (7, 7, True)]),
        ([file_of(1, 3), file_of(7, 9)], [], [(1, 3, False), (7, 9, True)]),
    ],
)
def test_files_are_grouped_into_segments(
    files: list[JsonFile], ends: list[int], runs: list[tuple[int, int, bool]]
) -> None:
    assert [(run.first, run.last, run.in_progress) for run in group_files(files, set(ends))] == runs


# ---- by hand -----------------------------------------------------------------------------------------------


def test_handwritten_journal_is_read(folder: Path) -> None:
    folder.mkdir()
    (folder / "README").write_text("not of the journal")
    write_lines(folder, 0, 0, "", rm(1), "  ", '{"op": "MKDIR", "path": "/d", "txid": 2}', name="edits_1-2.json")
    write_lines(folder, 3, 3, rm(3)).write_text("\n\n" + rm(3))
    journal = open_journal(f"json:{folder}")
    assert journal.is_formatted()
    assert count_of(journal, 1) == count_of(journal, 1, in_progress=True) == 3
    assert read_all(journal) == {1: "/000001", 3: "/000003"}
    (first,) = (op for op in journal.segments(1)[0].read(2) if isinstance(op, MkdirOp))
    assert (first.path, first.inode_id) == ("/d", 16387)
    with pytest.raises(JournalError, match="not formatted") as caught:
        journal.recover(INFO)
    assert "edits convert" in caught.value.hint
    journal.close()


# ---- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        ([rm(4), rm(5)[:-3], rm(6)], EditsTextError, "line 2, txid 5: not a transaction"),
        ([rm(4), "", rm(5), '{"OP":"RM","txid":6}'], EditsTextError, "line 4, txid 6: .* needs PATH"),
        ([rm(4), rm(5), rm(6)[:10]], EditsTextError, "line 3, txid 6"),
        ([rm(4), rm(5)], SegmentError, "txid 6: the file ends before txid 6; according to its name, it ends"),
        ([], SegmentError, "ends before txid 4"),
        ([rm(4), rm(6)], TransactionGapError, "line 2, txid 6: gap in the edit log: expected txid 5, found 6"),
        ([rm(4), rm(5), rm(5)], TransactionGapError, "line 3, txid 5: out of order"),
        ([rm(3), rm(4), rm(5)], TransactionGapError, "line 1, txid 3: out of order: expected txid 4"),
        ([rm(4), rm(5), rm(6), rm(7)], SegmentError, "line 4, txid 7: the file continues after txid 6"),
        ([rm(4)[:-1] + ',"layoutVersion":-99}', rm(5), rm(6)], UnsupportedEditsLayoutError, "line 1.*-99"),
        ([rm(4), rm(5)[:-1] + ',"layoutVersion":-63}', rm(6)], SegmentError, "line 2: a later transaction names"),
    ],
)
def test_damaged_file_is_reported_with_line_and_txid(
    journal: JsonJournal, folder: Path, lines: list[str], error: type[JournalError], words: str
) -> None:
    write_lines(folder, 1, 3, rm(1), rm(2), rm(3))
    path = write_lines(folder, 4, 6, *lines)
    (segment,) = journal.segments(1, in_progress=True)
    for call in (lambda: list(segment.copies[0].read(1)), lambda: journal.recover(INFO)):
        with pytest.raises(error, match=words) as caught:
            call()
        assert str(caught.value).startswith(str(path))
        assert caught.value.hint


def test_invalid_utf8_is_reported(journal: JsonJournal, folder: Path) -> None:
    write_lines(folder, 1, 2, rm(1)).write_bytes(rm(1).encode() + b"\n\xff\xfe\n")
    with pytest.raises(EditsTextError, match="line 2, txid 2: not UTF-8"):
        journal.recover(INFO)


def test_too_long_line_is_reported(journal: JsonJournal, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.json_reading._MAX_LINE", 100)
    write_lines(folder, 1, 1, rm(1) + " " * 100)
    with pytest.raises(EditsTextError, match="line 1, txid 1: the line is longer"):
        journal.recover(INFO)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("edits_0000000000000000001-0000000000000000003", "foreign"),
        ("edits_inprogress_0000000000000000001", "foreign"),
        ("edits_inprogress_0000000000000000001.json", "foreign"),
        ("edits_0000000000000000001.json", "foreign"),
        ("edits_1-3.json.bak", "foreign"),
        ("table.json", "foreign"),
        ("edits_3-1.json", "ends with txid 1, before its first"),
    ],
)
def test_foreign_file_is_reported(journal: JsonJournal, folder: Path, name: str, words: str) -> None:
    (folder / name).write_text("precious")
    calls: tuple[Callable[[], object], ...] = (
        lambda: journal.segments(1),
        lambda: journal.purge(9),
        lambda: journal.recover(INFO),
        lambda: journal.start_segment(1, LAYOUT),
        lambda: journal.format(INFO, force=True),
    )
    for call in calls:
        with pytest.raises(JournalError, match=words) as caught:
            call()
        assert str(folder / name) in str(caught.value)
    assert (folder / name).read_text() == "precious"


@pytest.mark.parametrize("overlapping", [(2, 4), (3, 3), (1, 3), (1, 2)])
def test_transaction_in_two_files_is_reported(journal: JsonJournal, folder: Path, overlapping: tuple[int, int]) -> None:
    write_lines(folder, 1, 3)
    first, last = overlapping
    write_lines(folder, first, last, name=f"edits_{first}-{last}.json")
    for call in (lambda: journal.segments(1), lambda: journal.recover(INFO)):
        with pytest.raises(SegmentError, match=f"txids {first} to {min(3, last)} are also in edits_") as caught:
            call()
        assert "move away the file" in caught.value.hint


def test_segment_without_its_beginning_is_not_recovered(journal: JsonJournal, folder: Path) -> None:
    write_lines(folder, 1, 1, '{"OP":"START_LOG_SEGMENT","txid":1}')
    missing = write_lines(folder, 2, 2, rm(2))
    write_lines(folder, 3, 3, rm(3))
    missing.unlink()
    for call in (lambda: journal.recover(INFO), lambda: journal.segments(1, in_progress=True)):
        with pytest.raises(TransactionGapError, match="txid 3: gap in the edit log"):
            call()
    # a restored member of a set also begins a segment after a gap
    write_lines(folder, 3, 3, '{"OP":"START_LOG_SEGMENT","txid":3}')
    journal.close()
    journal = JsonJournal(folder)
    journal.recover(INFO)
    assert count_of(journal, 3) == 1
    journal.close()


def test_reader_of_a_purged_file_fails(journal: JsonJournal, folder: Path) -> None:
    writer = journal.start_segment(1, LAYOUT)
    writer.append(batch(1, StartLogSegmentOp(), EndLogSegmentOp()))
    writer.finalize(2)
    (segment,) = JsonJournal(folder).segments(1)
    journal.purge(3)
    with pytest.raises(JournalStorageError, match="cannot be read"):
        list(segment.read(1))


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", SegmentError),
        (bytes(deletes(1, 1).records), SegmentError),
        (bytes(deletes(1, 3).records), SegmentError),
        (bytes(deletes(2, 3).records), TransactionGapError),
        (bytes(deletes(1, 2).records)[:-1], CorruptOpError),
    ],
)
def test_records_that_do_not_match_their_batch_are_refused(
    journal: JsonJournal, folder: Path, records: bytes, error: type[JournalError]
) -> None:
    writer = journal.start_segment(1, LAYOUT)
    with pytest.raises(error, match="segment 1"):
        writer.append(RecordBatch(1, 2, records))
    assert edits(folder) == []
    with pytest.raises(JournalError, match="abandoned"):
        writer.finalize(0)


# ---- URIs, locks and directories ---------------------------------------------------------------------------


def test_journals_by_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for uri in (f"json://{tmp_path}/a%20b", "json:a b", f"json:{tmp_path}/a%20b", f"json://localhost{tmp_path}/a%20b"):
        journal = open_journal(uri)
        assert isinstance(journal, JsonJournal)
        assert journal.folder == tmp_path / "a b"
        assert journal.location == f"json://{tmp_path}/a%20b"
    named = open_journal(f"json://{tmp_path}", "ns1")
    assert isinstance(named, JsonJournal)
    assert named.folder == tmp_path / "ns1"
    for wrong in ("json://host/dir", "json:", "json://"):
        with pytest.raises(JournalError) as caught:
            open_journal(wrong)
        assert caught.value.hint


def test_missing_or_unlockable_directory_is_reported(journal: JsonJournal, folder: Path) -> None:
    journal.close()
    (folder / "in_use.lock").mkdir()
    with pytest.raises(JournalStorageError, match="cannot be locked"):
        journal.recover(INFO)
    shutil.rmtree(folder)
    for call in (lambda: journal.segments(1), lambda: journal.purge(1), lambda: journal.recover(INFO)):
        with pytest.raises(JournalStorageError) as caught:
            call()
        assert caught.value.hint
    assert not journal.is_formatted()


def test_failed_json_member_of_a_set_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [JournalMember(FileJournal(tmp_path / "a" / "current")), JournalMember(JsonJournal(tmp_path / "b"))]
    journals = JournalSet(members)
    journals.format(INFO)
    journals.recover(INFO)
    writer = journals.start_segment(1, LAYOUT)
    writer.append(deletes(1, 2))
    steps = Steps(monkeypatch, tmp_path / "b")
    steps.fail(1)
    writer.append(deletes(3, 4))
    steps.fail(0)
    writer.finalize(4)
    assert list(journals.faults) == [f"json://{tmp_path}/b"]
    assert read_all(journals) == {txid: f"/{txid:06d}" for txid in range(1, 5)}
    assert count_of(JsonJournal(tmp_path / "b"), 1, in_progress=True) == 2
    journals.close()
