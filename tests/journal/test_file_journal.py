"""A journal in one storage directory: its files, its states, its only writer, and its readers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from hadoop_common.names import inprogress_name, segment_name
from hadoop_common.storage_info import parse_version
from journal.binary_codec import encode_op
from journal.errors import (
    CorruptOpError,
    JournalError,
    JournalExistsError,
    JournalInUseError,
    JournalStorageError,
    TransactionGapError,
)
from journal.file_journal import FileJournal
from journal.journal import RecordBatch
from journal.open_journal import open_journal
from journal.segment_format import encode_header
from tests.hadoop_common.lock_support import held_elsewhere
from tests.journal.journal_support import count_of
from tests.journal.wal_support import INFO, LAYOUT, delete, file_journal

ROOT = Path(__file__).parents[2]


def batch(first: int, last: int) -> RecordBatch:
    ops = [delete(txid) for txid in range(first, last + 1)]
    for txid, op in enumerate(ops, first):
        op.txid = txid
    return RecordBatch(first, last, b"".join(encode_op(op, LAYOUT) for op in ops))


def segment(first: int, last: int, layout: int = LAYOUT) -> bytes:
    return encode_header(layout) + bytes(batch(first, last).records)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[FileJournal]:
    made = file_journal(tmp_path)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path, journal: FileJournal) -> Path:
    return tmp_path / "current"


# ---- format ------------------------------------------------------------------------------------------------


def test_a_formatted_journal_has_version_and_no_transactions(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "new" / "current")
    journal.format(INFO)
    folder = tmp_path / "new" / "current"
    assert parse_version((folder / "VERSION").read_bytes(), "") == INFO
    assert (folder / "seen_txid").read_text() == "0\n"
    assert (journal.segments(1), count_of(journal, 1)) == ([], 0)
    assert not (tmp_path / "new" / "in_use.lock").exists()


def test_an_existing_journal_is_refused_unless_forced(journal: FileJournal, folder: Path) -> None:
    (folder / segment_name(1, 2)).write_bytes(segment(1, 2))
    (folder / "fsimage_0000000000000000000").write_bytes(b"image")
    (folder / (inprogress_name(3) + ".empty")).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = dataclasses.replace(INFO, cluster_id="CID-other")
    with pytest.raises(JournalExistsError) as caught:
        journal.format(other)
    assert caught.value.hint
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    journal.format(other, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["VERSION", "fsimage_0000000000000000000", "seen_txid"]
    assert parse_version((folder / "VERSION").read_bytes(), "") == other


def test_interrupted_format_leaves_the_journal_unformatted(
    journal: FileJournal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / segment_name(1, 2)).write_bytes(segment(1, 2))

    def killed(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("journal.file_journal.write_atomically", killed)
        with pytest.raises(JournalStorageError, match="No space"):
            journal.format(INFO, force=True)
    assert not journal.is_formatted()
    with pytest.raises(JournalError, match="not formatted"):
        journal.recover(INFO)
    journal.format(INFO)
    journal.recover(INFO)


# ---- states ------------------------------------------------------------------------------------------------


def test_damaged_version_is_reported(journal: FileJournal, folder: Path) -> None:
    (folder / "VERSION").write_text("nonsense\n")
    with pytest.raises(JournalError, match="VERSION"):
        journal.recover(INFO)


def test_a_damaged_segment_is_not_recovered(journal: FileJournal, folder: Path) -> None:
    content = bytearray(segment(1, 5))
    content[40] ^= 0xFF
    path = folder / inprogress_name(1)
    path.write_bytes(content)
    with pytest.raises(CorruptOpError, match="intact operations"):
        journal.recover(INFO)
    assert path.read_bytes() == content
    with pytest.raises(CorruptOpError, match="intact operations"):
        journal.segments(1, in_progress=True)


# ---- one writer --------------------------------------------------------------------------------------------


def test_writer_in_a_second_process_is_refused(journal: FileJournal, tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        with pytest.raises(JournalInUseError, match=f"held by {other.pid}@"):
            journal.recover(INFO)
        assert journal.segments(1) == []  # readers need no lock
    journal.recover(INFO)


# ---- reading -----------------------------------------------------------------------------------------------


def test_reader_continues_in_a_growing_open_segment(journal: FileJournal, folder: Path) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    reader = FileJournal(folder)
    assert reader.segments(1, in_progress=True) == []
    for last in (3, 4, 9):
        writer.append(batch(writer.last_txid + 1, last))
        (seen,) = reader.segments(1, in_progress=True)
        assert seen.last == last
        assert [op.txid for op in seen.read(2)] == list(range(2, last + 1))
    path = folder / inprogress_name(1)
    with path.open("ab") as out:
        out.write(bytes(batch(10, 10).records)[:20])  # the writer has appended only a part of an operation
    assert count_of(reader, 1, in_progress=True) == 9
    with path.open("ab") as out:
        out.write(bytes(batch(10, 10).records)[20:] + b"\xff" * 100)
    assert count_of(reader, 1, in_progress=True) == 10


def test_reader_of_a_segment_that_is_finalized_and_then_purged(journal: FileJournal, folder: Path) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(batch(1, 4))
    (seen,) = FileJournal(folder).segments(1, in_progress=True)
    writer.append(batch(5, 6))
    writer.finalize(6)
    assert [op.txid for op in seen.read(2)] == [2, 3, 4]
    journal.purge(7)
    with pytest.raises(JournalStorageError, match="cannot be read"):
        list(seen.read(1))


@pytest.mark.parametrize("content", [b"", b"\xff\xff", segment(1, 0)])
def test_open_segment_without_transactions_is_not_listed(journal: FileJournal, folder: Path, content: bytes) -> None:
    (folder / inprogress_name(1)).write_bytes(content)
    assert journal.segments(1, in_progress=True) == []


def test_txids_out_of_order_in_the_open_segment_are_reported(journal: FileJournal, folder: Path) -> None:
    (folder / inprogress_name(1)).write_bytes(segment(1, 2) + bytes(batch(4, 4).records))
    with pytest.raises(TransactionGapError):
        journal.segments(1, in_progress=True)


def test_missing_directory_is_reported(journal: FileJournal, folder: Path) -> None:
    folder.rename(folder.with_name("gone"))
    for call in (lambda: journal.segments(1), lambda: journal.purge(1), lambda: journal.recover(INFO)):
        with pytest.raises(JournalStorageError) as caught:
            call()
        assert caught.value.hint


# ---- purge and URIs ----------------------------------------------------------------------------------------


def test_purge_removes_only_older_segments(journal: FileJournal, folder: Path) -> None:
    kept = [segment_name(4, 6), inprogress_name(1), inprogress_name(7), inprogress_name(8) + ".empty", "VERSION"]
    gone = [segment_name(1, 3), segment_name(1, 2) + ".trash", inprogress_name(2) + ".corrupt"]
    for name in (*kept[:4], *gone):
        (folder / name).write_bytes(b"")
    journal.purge(5)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*kept, "seen_txid"])


@pytest.mark.parametrize("survived", [0, 1, 2])
def test_kill_during_a_purge_leaves_no_gap(
    journal: FileJournal, folder: Path, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    for first in (5, 1, 3, 7):
        (folder / segment_name(first, first + 1)).write_bytes(segment(first, first + 1))
    real, left = Path.unlink, [survived]

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(KeyboardInterrupt):
        journal.purge(7)
    assert count_of(journal, 1 + 2 * survived) == 8 - 2 * survived


def test_purge_continues_after_a_failed_deletion(journal: FileJournal, folder: Path) -> None:
    (folder / segment_name(1, 2)).mkdir()
    (folder / segment_name(3, 4)).write_bytes(b"")
    with pytest.raises(JournalStorageError, match="1 of 2 old segments"):
        journal.purge(9)
    assert not (folder / segment_name(3, 4)).exists()


def test_journals_by_uri(tmp_path: Path) -> None:
    for uri in (tmp_path.as_uri(), str(tmp_path), f"file://localhost{tmp_path}"):
        journal = open_journal(uri)
        assert isinstance(journal, FileJournal)
        assert journal.folder == tmp_path / "current"
        assert journal.location == tmp_path.as_uri()
    named = open_journal(f"{tmp_path.as_uri()}/a%20b", "ns1")
    assert isinstance(named, FileJournal)
    assert named.folder == tmp_path / "a b" / "ns1" / "current"
    plain = open_journal(f"{tmp_path}/%20#a?b")
    assert isinstance(plain, FileJournal)
    assert plain.folder == tmp_path / "%20#a?b" / "current"
    for wrong in ("cassandra://zk/ledgers", "file://host/dir", "relative/dir", "json://[x/dir", "json:///a%00b"):
        with pytest.raises(JournalError) as caught:
            open_journal(wrong)
        assert caught.value.hint


def test_directory_that_cannot_be_locked_is_reported(tmp_path: Path) -> None:
    journal = file_journal(tmp_path)
    (tmp_path / "in_use.lock").mkdir()
    with pytest.raises(JournalStorageError, match="cannot be locked"):
        journal.recover(INFO)
    (tmp_path / "in_use.lock").rmdir()
    journal.recover(INFO)
    journal.close()
