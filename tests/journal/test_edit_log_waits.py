"""Waits of callers of the edit log, its metrics, and its window in memory."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from journal.binary_codec import encode_op
from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalStorageError
from journal.journal import RecordBatch
from journal.ops import DeleteOp, EndLogSegmentOp, StartLogSegmentOp
from journal.segment_format import SegmentCursor, encode_header
from tests.journal.wal_support import LAYOUT, delete

DEADLINE = 600.0
SIZE = len(encode_op(delete(1), LAYOUT))


class Gate:
    """A step that can be blocked; `entered` is set when a thread is in the step."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def close(self) -> None:
        self.entered.clear()
        self.open.clear()

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(DEADLINE)


class MemoryJournal:
    """A journal in memory that has only the methods that a writer calls; `log` records the calls."""

    location = "memory:"

    def __init__(self) -> None:
        self.appending, self.starting = Gate(), Gate()
        self.batches: list[RecordBatch] = []
        self.log: list[tuple[str, int]] = []
        self.failure: BaseException | None = None
        self.first_txid = 0

    def start_segment(self, first_txid: int, layout_version: int) -> MemoryJournal:
        self.starting()
        self.first_txid = first_txid
        self.log.append(("start", first_txid))
        return self

    def append(self, batch: RecordBatch) -> None:
        self.appending()
        if self.failure is not None:
            raise self.failure
        self.batches.append(RecordBatch(batch.first, batch.last, bytes(batch.records)))
        self.log.append(("append", batch.last))

    def finalize(self, last_txid: int) -> None:
        self.log.append(("finalize", last_txid))

    def abort(self) -> None:
        self.log.append(("abort", self.first_txid))

    @property
    def names(self) -> list[str]:
        return [op.name for batch in self.batches for op in ops_of(batch)]


def ops_of(batch: RecordBatch) -> list[object]:
    return list(
        SegmentCursor(encode_header(LAYOUT) + bytes(batch.records), first_txid=batch.first, last_txid=batch.last)
    )


def open_log(journal: MemoryJournal, **options: object) -> EditLogWriter:
    return EditLogWriter(journal, LAYOUT, 1, **options)  # type: ignore[arg-type]


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class CountingClock:
    """A clock that never advances; `readings` counts its readings, one at the beginning and one at the end of a
    wait.
    """

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        return 0.0


def test_a_writer_waits_while_the_buffer_is_full() -> None:
    journal, clock = MemoryJournal(), CountingClock()
    writer = open_log(journal, capacity=2 * SIZE, clock=clock)
    journal.appending.close()
    with ThreadPoolExecutor(4) as pool:
        flushing = pool.submit(writer.sync, writer.write(delete(2)))
        assert journal.appending.entered.wait(DEADLINE)
        for number in (3, 4):
            writer.write(delete(number))
        before = clock.readings
        waiting = [pool.submit(writer.write, delete(number)) for number in (5, 6)]
        until(lambda: clock.readings == before + 2)
        assert not any(future.done() for future in waiting)
        assert writer.metrics().pending == 2
        journal.appending.open.set()
        assert {future.result() for future in [*waiting]} == {5, 6}
        flushing.result()
    assert writer.metrics().full_waits == 2
    writer.close()
    assert [batch.count for batch in journal.batches][:2] == [1, 1]
    assert max(len(batch.records) for batch in journal.batches) <= 3 * SIZE


def test_failure_wakes_the_writers_that_wait_for_space() -> None:
    journal, clock = MemoryJournal(), CountingClock()
    writer = open_log(journal, capacity=SIZE, clock=clock)
    journal.appending.close()
    with ThreadPoolExecutor(4) as pool:
        flushing = pool.submit(writer.sync, writer.write(delete(2)))
        assert journal.appending.entered.wait(DEADLINE)
        writer.write(delete(3))
        before = clock.readings
        waiting = [pool.submit(writer.write, delete(number)) for number in (4, 5)]
        until(lambda: clock.readings == before + 2)
        journal.failure = JournalStorageError("disk")
        journal.appending.open.set()
        assert {id(future.exception()) for future in [flushing, *waiting]} == {id(journal.failure)}


def test_writes_and_syncs_continue_during_a_roll() -> None:
    journal = MemoryJournal()
    writer = open_log(journal)
    journal.starting.close()
    with ThreadPoolExecutor(2) as pool:
        before = writer.write(delete(2))
        rolling = pool.submit(writer.roll)
        assert journal.starting.entered.wait(DEADLINE)
        writer.sync(before)
        assert (writer.durable_txid, writer.segment_first_txid) == (3, 1)
        assert writer.write(delete(5)) == 5
        synced = pool.submit(writer.sync, 5)
        assert not synced.done()
        journal.starting.open.set()
        assert (rolling.result().first, rolling.result().last) == (1, 3)
        synced.result()
    assert writer.segment_first_txid == 4
    writer.close()
    start, end = StartLogSegmentOp.name, EndLogSegmentOp.name
    assert journal.names == [start, DeleteOp.name, end, start, DeleteOp.name, end]
    finalized = [step for step in journal.log if step[0] != "append"]
    assert finalized == [("start", 1), ("finalize", 3), ("start", 4), ("finalize", 6)]


def test_failed_roll_stops_the_log() -> None:
    journal = MemoryJournal()
    writer = open_log(journal)
    journal.failure = OSError("unforeseen")
    with pytest.raises(OSError, match="unforeseen"):
        writer.roll()
    with pytest.raises(JournalStorageError, match="interrupted"):
        writer.write(delete(2))
    with pytest.raises(JournalStorageError, match="interrupted"):
        writer.close()
    assert journal.log[-1] == ("abort", 1)


def test_failed_first_append_aborts_the_segment() -> None:
    journal = MemoryJournal()
    journal.failure = JournalStorageError("disk")
    with pytest.raises(JournalStorageError, match="disk"):
        open_log(journal)
    assert journal.log == [("start", 1), ("abort", 1)]


def test_metrics_of_writes_and_syncs() -> None:
    ticks = itertools.count(0, 2)
    writer = open_log(MemoryJournal(), clock=lambda: float(next(ticks)))
    begun = writer.metrics()
    assert (begun.transactions, begun.syncs) == (1, 1)
    for number in range(2, 6):
        writer.write(delete(number))
    waiting = writer.metrics()
    assert (waiting.pending, waiting.pending_bytes) == (4, 4 * SIZE)
    writer.flush()
    synced = writer.metrics()
    assert (synced.transactions, synced.syncs, synced.pending) == (5, 2, 0)
    assert (synced.last_batch, synced.last_batch_bytes) == (4, 4 * SIZE)
    assert (synced.largest_batch, synced.largest_batch_bytes) == (4, 4 * SIZE)
    assert (synced.sync_seconds, synced.longest_sync_seconds) == (4.0, 2.0)
    writer.close()


# ---- callers that share a flush ----


class SlowJournal(MemoryJournal):
    """A journal whose appends each take 10 seconds of an otherwise stopped clock."""

    now = 0.0

    def append(self, batch: RecordBatch) -> None:
        super().append(batch)
        self.now += 10.0


def test_flush_waits_for_callers_released_by_the_previous_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = SlowJournal()
    log = open_log(journal, clock=lambda: journal.now)
    late = iter(range(10, 15))

    def let_another_one_write(seconds: float) -> None:
        assert seconds == 0
        if (number := next(late, None)) is not None:
            log.write(delete(number))

    monkeypatch.setattr(time, "sleep", let_another_one_write)
    log.write(delete(1))
    log.sync(log.write(delete(2)))
    assert [(each.first, each.last) for each in journal.batches] == [(1, 1), (2, 8)]
    assert log.durable_txid == log.last_txid == 8
    # the previous batch had several callers, so more callers are expected although none has arrived yet
    late = iter([20])
    log.sync(log.write(delete(3)))
    assert journal.batches[-1].count == 2


def test_flush_of_a_single_writer_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = SlowJournal()
    log = open_log(journal, clock=lambda: journal.now)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("the flush let others run"))
    for number in range(3):
        log.sync(log.write(delete(number)))
    assert [each.count for each in journal.batches] == [1, 1, 1, 1]


def test_flush_waits_at_most_half_the_previous_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit applies even if callers never stop writing."""
    journal = SlowJournal()
    log = open_log(journal, clock=lambda: journal.now)

    def let_another_one_write(_: float) -> None:
        journal.now += 1.0
        log.write(delete(1))

    monkeypatch.setattr(time, "sleep", let_another_one_write)
    log.write(delete(1))
    log.sync(log.write(delete(1)))
    assert [each.count for each in journal.batches] == [1, 7]
    assert log.durable_txid == log.last_txid
