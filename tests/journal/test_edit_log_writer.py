"""The edit log's writer on journals of files: group commit, back-pressure, rolls, crashes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hadoop_common.names import SegmentName, inprogress_name, segment_name
from journal import segment_stream
from journal.binary_codec import encode_op
from journal.edit_log_writer import DEFAULT_CAPACITY, EditLogWriter
from journal.errors import JournalStorageError, OpEncodingError, UnsupportedEditsLayoutError
from journal.file_journal import FileJournal
from journal.journal_set import JournalMember, JournalSet
from journal.operation import INVALID_TXID
from journal.ops import DeleteOp
from journal.recovery import recover_in_progress
from journal.segment_file import SegmentTransactions, list_segments, read_ops, select_segments
from journal.segment_format import scan_segment
from tests.journal.journal_support import NEWEST
from tests.journal.wal_support import INFO, Reports, delete, file_journal, names

OpenLog = Callable[..., EditLogWriter]
OpenSet = Callable[[list[Path]], tuple[JournalSet, Reports]]


def paths_in(root: Path, from_txid: int = 1) -> dict[int, str]:
    """Return the path of each delete in the finalized segments by txid."""
    chosen = select_segments(list_segments(root / "current"), from_txid)
    return {op.txid: op.path for op in SegmentTransactions(chosen, from_txid) if isinstance(op, DeleteOp)}


@pytest.fixture
def opened_set() -> Iterator[OpenSet]:
    """Opener that recovers a set of directories; the earlier writer has released them, as after a crash."""
    journals: list[JournalSet] = []

    def opened(roots: list[Path]) -> tuple[JournalSet, Reports]:
        for earlier in journals:
            earlier.close()
        reports = Reports()
        members = [JournalMember(FileJournal(root / "current")) for root in roots]
        journals.append(JournalSet(members, restore=False, on_failure=reports.note))
        journals[-1].recover(INFO)
        return journals[-1], reports

    yield opened
    for each in journals:
        each.close()


@pytest.fixture
def open_log(opened_set: OpenSet) -> OpenLog:
    """A log in formatted directories."""

    def opened(
        roots: list[Path], layout_version: int, first_txid: int, *, capacity: int = DEFAULT_CAPACITY
    ) -> EditLogWriter:
        for root in roots:
            file_journal(root)
        return EditLogWriter(opened_set(roots)[0], layout_version, first_txid, capacity=capacity)

    return opened


def active(journals: JournalSet) -> list[str]:
    return [member.journal.location.rpartition("/")[2] for member in journals.active]


class Fsync:
    """Replacement of os.fsync for segment files, which counts calls and can block or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.error: BaseException | None = None
        self.only_in: Path | None = None
        self._fsync = os.fsync
        monkeypatch.setattr(segment_stream.os, "fsync", self)

    def __call__(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            return self._fsync(descriptor)
        self.calls += 1
        self.entered.release()
        self.gate.wait()
        if self.error is not None and self.only_in in (None, path.parent):
            raise self.error
        return self._fsync(descriptor)


@pytest.fixture
def fsync(monkeypatch):
    return Fsync(monkeypatch)


def test_a_segment_is_written_rolled_and_closed(tmp_path, open_log):
    with open_log([tmp_path], -63, 1) as writer:
        assert (writer.last_txid, writer.durable_txid, writer.segment_first_txid) == (1, 1, 1)
        op = delete(2)
        assert writer.write(op) == op.txid == 2
        assert writer.durable_txid == 1
        writer.sync(2)
        assert writer.durable_txid == 2
        content = (tmp_path / "current" / inprogress_name(1)).read_bytes()
        assert scan_segment(content)[:4] == (-63, 1, 2, len(content))
        assert writer.roll() == SegmentName(1, 3)
        assert (writer.last_txid, writer.durable_txid, writer.segment_first_txid) == (4, 4, 4)
        writer.write(delete(5))
    assert names(tmp_path) == [segment_name(1, 3), segment_name(4, 6)]
    ops = [op for segment in list_segments(tmp_path / "current") for op in read_ops(segment)]
    assert [op.name for op in ops] == ["OP_START_LOG_SEGMENT", "OP_DELETE", "OP_END_LOG_SEGMENT"] * 2
    writer.close()


def test_log_continues_after_a_restart(tmp_path, open_log):
    with open_log([tmp_path], NEWEST, 1) as writer:
        writer.write(delete(2))
    last = list_segments(tmp_path / "current")[-1].last
    with open_log([tmp_path], NEWEST, last + 1) as writer:
        writer.write(delete(5))
    assert paths_in(tmp_path) == {2: "/000002", 5: "/000005"}


def test_unencodable_operation_consumes_no_txid(tmp_path, open_log):
    with open_log([tmp_path], NEWEST, 1) as writer:
        op = DeleteOp(path="x" * 70000, timestamp=0)
        with pytest.raises(OpEncodingError):
            writer.write(op)
        assert op.txid == INVALID_TXID
        assert writer.write(delete(2)) == 2
        with pytest.raises(ValueError, match="txid 3 is not written yet"):
            writer.sync(3)


def test_closed_writer_refuses_calls(tmp_path, open_log):
    writer = open_log([tmp_path], NEWEST, 1)
    writer.close()
    for call in (lambda: writer.write(delete(1)), writer.roll):
        with pytest.raises(JournalStorageError, match="closed"):
            call()
    writer.sync(writer.last_txid)


def test_an_unknown_layout_creates_nothing(tmp_path, open_log):
    with pytest.raises(UnsupportedEditsLayoutError):
        open_log([tmp_path], -70, 1)
    assert names(tmp_path) == []


def test_one_flush_serves_all_waiting_callers(tmp_path, open_log, fsync):
    writer = open_log([tmp_path], NEWEST, 1)
    before = fsync.calls
    fsync.gate.clear()
    while fsync.entered.acquire(blocking=False):
        pass
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(writer.sync, writer.write(delete(0)))
        fsync.entered.acquire()  # the first caller is in its fsync
        others = [pool.submit(writer.sync, writer.write(delete(number))) for number in range(1, 9)]
        writer.sync(1)  # already durable, so it returns while the flush is stuck
        fsync.gate.set()
        for waiting in [first, *others]:
            waiting.result()
    assert fsync.calls - before == 2
    assert writer.durable_txid == writer.last_txid == 10
    writer.close()


def test_the_buffer_is_bounded(tmp_path, open_log, monkeypatch):
    sizes = []
    append = segment_stream.SegmentStream.append
    monkeypatch.setattr(
        segment_stream.SegmentStream, "append", lambda self, data: (sizes.append(len(data)), append(self, data))
    )
    size = len(encode_op(delete(1), NEWEST))
    with open_log([tmp_path], NEWEST, 1, capacity=10 * size) as writer, ThreadPoolExecutor(4) as pool:
        for result in [pool.submit(lambda: [writer.write(delete(n)) for n in range(100)]) for _ in range(4)]:
            result.result()
    assert max(sizes) < 11 * size
    assert len(paths_in(tmp_path)) == 400


def test_failed_fsync_stops_the_writer_permanently(tmp_path, opened_set, fsync):
    file_journal(tmp_path)
    journals, reports = opened_set([tmp_path])
    writer = EditLogWriter(journals, NEWEST, 1)
    writer.write(delete(2))
    writer.sync(2)
    fsync.error = OSError(5, "I/O error")
    writer.write(delete(3))
    with pytest.raises(JournalStorageError, match="I/O error") as first:
        writer.sync(3)
    assert first.value.exit_code == 6
    assert reports.roots == [tmp_path.name]
    assert reports[0][1].__cause__ is fsync.error
    fsync.error = None
    for call in (lambda: writer.write(delete(4)), lambda: writer.sync(3), writer.flush, writer.roll, writer.close):
        with pytest.raises(JournalStorageError) as again:
            call()
        assert again.value is first.value
    writer.sync(2)  # durable transactions stay acknowledged
    assert writer.durable_txid == 2
    writer.close()
    recover_in_progress(tmp_path / "current")
    assert paths_in(tmp_path)[2] == "/000002"


def test_waiting_callers_receive_the_failure(tmp_path, open_log, fsync):
    writer = open_log([tmp_path], NEWEST, 1)
    fsync.gate.clear()
    while fsync.entered.acquire(blocking=False):
        pass
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(writer.sync, writer.write(delete(0)))]
        fsync.entered.acquire()
        waiting += [pool.submit(writer.sync, writer.write(delete(number))) for number in range(1, 5)]
        fsync.error = OSError(28, "No space left on device")
        fsync.gate.set()
        errors = {id(future.exception()) for future in waiting}
    assert len(errors) == 1
    assert isinstance(waiting[0].exception(), JournalStorageError)


def test_an_interrupted_flush_stops_the_writer(tmp_path, open_log, fsync):
    writer = open_log([tmp_path], NEWEST, 1)
    writer.write(delete(2))
    fsync.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        writer.flush()
    with pytest.raises(JournalStorageError, match="KeyboardInterrupt"):
        writer.write(delete(3))
    with pytest.raises(JournalStorageError):
        writer.close()


def test_log_is_recoverable_after_a_failed_write(tmp_path, open_log, monkeypatch):
    class Full(segment_stream.FileIO):
        room = 60

        def write(self, data):
            taken = min(len(data), Full.room)
            if not taken:
                raise OSError(28, "No space left on device")
            Full.room -= taken
            return super().write(data[:taken])

    monkeypatch.setattr(segment_stream, "FileIO", Full)
    writer = open_log([tmp_path], NEWEST, 1)
    writer.write(delete(2))
    with pytest.raises(JournalStorageError, match="No space"):
        writer.flush()
    assert writer.durable_txid == 1
    recover_in_progress(tmp_path / "current")
    assert names(tmp_path) == [segment_name(1, 1)]


def test_failed_directory_is_dropped_and_the_others_continue(tmp_path, opened_set, fsync):
    good, bad, worse = (tmp_path / name for name in ("good", "bad", "worse"))
    for root in (worse, bad, good):
        file_journal(root)
    shutil.rmtree(worse)
    journals, reports = opened_set([worse, bad, good])
    writer = EditLogWriter(journals, NEWEST, 1)
    assert active(journals) == ["bad", "good"]
    fsync.error, fsync.only_in = OSError(5, "I/O error"), bad / "current"
    writer.write(delete(2))
    writer.flush()
    assert reports.roots == ["worse", "bad"]
    assert active(journals) == ["good"]
    fsync.error = None
    writer.roll()
    writer.write(delete(5))
    writer.close()
    assert names(bad) == [inprogress_name(1)]
    assert paths_in(good) == {2: "/000002", 5: "/000005"}


def test_log_without_a_usable_directory_is_an_error(tmp_path):
    journals = JournalSet([JournalMember(FileJournal(tmp_path / "nowhere" / "current"))])
    with pytest.raises(JournalStorageError, match="nowhere"):
        journals.recover(INFO)


def test_an_unrecovered_segment_is_not_overwritten(tmp_path, opened_set):
    file_journal(tmp_path)
    journals, _ = opened_set([tmp_path])
    path = tmp_path / "current" / inprogress_name(1)
    path.write_bytes(b"precious")
    with pytest.raises(JournalStorageError, match="exists"):
        EditLogWriter(journals, NEWEST, 1)
    assert path.read_bytes() == b"precious"


def test_a_finalized_segment_is_not_overwritten(tmp_path, open_log):
    writer = open_log([tmp_path], NEWEST, 1)
    path = tmp_path / "current" / segment_name(1, 2)
    path.write_bytes(b"precious")
    with pytest.raises(JournalStorageError, match="exists"):
        writer.roll()
    assert path.read_bytes() == b"precious"
    assert writer.durable_txid == 2


def test_a_segment_that_cannot_be_created_leaves_no_file(tmp_path, opened_set, fsync):
    file_journal(tmp_path)
    journals, _ = opened_set([tmp_path])
    fsync.error = OSError(5, "I/O error")
    with pytest.raises(JournalStorageError):
        EditLogWriter(journals, NEWEST, 1)
    fsync.error = None
    assert names(tmp_path) == []


class Crashes:
    """Copies of the directory before and after every write, fsync, rename and directory sync.

    There are two copies of each moment: one with everything written so far, and one without unsynced bytes.
    """

    def __init__(self, directory: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.target = directory, target
        self.copies: list[tuple[Path, int]] = []
        self.synced: dict[int, int] = {}
        self._durable = 0
        crashes, fsync = self, os.fsync

        class Watched(segment_stream.FileIO):
            def write(self, data):
                crashes.take()
                written = super().write(data[: max(1, len(data) // 2)])
                crashes.take()
                return written

        def watched_fsync(descriptor: int) -> None:
            crashes.take()
            fsync(descriptor)
            status = os.fstat(descriptor)
            crashes.synced[status.st_ino] = status.st_size
            crashes.take()

        monkeypatch.setattr(segment_stream, "FileIO", Watched)
        monkeypatch.setattr(segment_stream.os, "fsync", watched_fsync)

    def acknowledge(self, txid: int) -> None:
        self._durable = txid

    def take(self) -> None:
        for lost in (False, True):
            root = self.target / str(len(self.copies))
            copy = root / "current"
            copy.mkdir(parents=True)
            for path in (self.directory / "current").iterdir():
                shutil.copy(path, copy)
                if lost and path.name.startswith("edits_"):
                    os.truncate(copy / path.name, self.synced.get(path.stat().st_ino, 0))
            self.copies.append((root, self._durable))


def test_crash_at_any_step_keeps_acknowledged_transactions(tmp_path, open_log, monkeypatch):
    directory, target = tmp_path / "live", tmp_path / "copies"
    target.mkdir()
    file_journal(directory)
    crashes = Crashes(directory, target, monkeypatch)
    with open_log([directory], NEWEST, 1) as writer:
        for _ in range(3):
            for _ in range(3):
                writer.write(delete(writer.last_txid + 1))
            txid = writer.write(delete(writer.last_txid + 1))
            writer.sync(txid)
            crashes.acknowledge(txid)
            writer.roll()
    written = paths_in(directory)
    monkeypatch.undo()
    assert len(crashes.copies) > 100
    for copy, acknowledged in crashes.copies:
        recover_in_progress(copy / "current")
        kept = paths_in(copy)
        assert kept.items() <= written.items()
        assert set(kept) == {txid for txid in written if txid <= max(kept, default=0)}
        assert max(kept, default=0) >= acknowledged
        last = max((segment.last for segment in list_segments(copy / "current")), default=0)
        with open_log([copy], NEWEST, last + 1) as writer:
            writer.write(delete(7))
        assert max(paths_in(copy)) == last + 2
