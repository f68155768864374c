"""Segments that are written from bytes are durable in several directories, despite any failure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.names import SegmentName
from journal.binary_codec import encode_op
from journal.errors import JournalStorageError
from journal.raw_segment_writer import RawSegmentWriter
from journal.recovery import recover_in_progress
from journal.segment_file import list_segments, read_ops
from journal.segment_stream import SegmentStream
from journal.system_ops import StartLogSegmentOp

LAYOUT = -63


def record(txid: int) -> bytes:
    return encode_op(StartLogSegmentOp(txid=txid), LAYOUT)


class Failures(list[Path]):
    """List of the folders whose failure the writer reported."""

    def note(self, folder: Path, error: OSError) -> None:
        self.append(folder)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("a", "b")]
    for each in made:
        each.mkdir()
    return made


def writer(folders: list[Path], failures: Failures, first: int = 7) -> RawSegmentWriter:
    return RawSegmentWriter(folders, first, LAYOUT, on_directory_failure=failures.note)


def txids(folder: Path) -> list[int]:
    return [op.txid for segment in list_segments(folder) for op in read_ops(segment)]


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_batches_become_one_segment(sizes: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("edits")
    written = writer([folder], Failures(), first=1)
    last = 0
    for size in sizes:
        written.append(b"".join(record(txid) for txid in range(last + 1, last + size + 1)), last + size)
        last += size
        assert written.last_txid == last
    assert written.finish() == SegmentName(1, last)
    assert txids(folder) == list(range(1, last + 1))
    shutil.rmtree(folder)


def test_a_segment_without_operations_is_removed(folders: list[Path]) -> None:
    assert writer(folders, Failures()).finish() is None
    assert [list_segments(folder) for folder in folders] == [[], []]


def test_abandoned_segment_is_recoverable(folders: list[Path]) -> None:
    written = writer(folders, Failures())
    written.append(record(7) + record(8), 8)
    written.abandon()
    assert written.finish() is None
    for folder in folders:
        assert [(each.first, each.last) for each in recover_in_progress(folder)] == [(7, 8)]


@pytest.mark.parametrize("step", ["append", "finalize"])
def test_failed_directory_is_dropped(step: str, folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    failures = Failures()
    written = writer(folders, failures)
    written.append(record(7), 7)
    good = getattr(SegmentStream, step)

    def failing(stream: SegmentStream, *arguments: object) -> object:
        if stream.directory == folders[0]:
            raise OSError(28, "No space left on device")
        return good(stream, *arguments)

    monkeypatch.setattr(SegmentStream, step, failing)
    written.append(record(8), 8)
    assert written.finish() == SegmentName(7, 8)
    assert failures == [folders[0]]
    assert txids(folders[1]) == [7, 8]
    monkeypatch.undo()
    assert recover_in_progress(folders[0])[0].first == 7


def test_nothing_is_acknowledged_without_a_working_directory(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = Failures()
    written = writer(folders, failures)
    written.append(record(7), 7)

    def half(stream: SegmentStream, data: bytes) -> None:
        with (stream.path).open("ab") as file:
            file.write(data[:5])
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(SegmentStream, "append", half)
    with pytest.raises(JournalStorageError, match="Input/output error"):
        written.append(record(8), 8)
    assert (written.last_txid, failures) == (7, folders)
    assert written.finish() is None
    for folder in folders:
        assert [(each.first, each.last) for each in recover_in_progress(folder)] == [(7, 7)]


def test_existing_segment_is_not_overwritten(folders: list[Path]) -> None:
    failures = Failures()
    first = writer(folders[:1], failures)
    first.append(record(7), 7)
    first.abandon()
    second = writer(folders, failures)
    assert (second.path.parent, failures) == (folders[1], folders[:1])
    with pytest.raises(JournalStorageError):
        writer(folders, failures)
    assert txids(folders[0]) == [7]
