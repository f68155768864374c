"""The double buffer and group commit, compared with a plain model: a list of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from journal.double_buffer import DoubleBuffer
from journal.errors import JournalStorageError
from journal.group_commit import CommitStep, GroupCommit
from journal.journal import RecordBatch

records = st.binary(max_size=12)


class BufferMachine(RuleBasedStateMachine):
    """Model in which `records[i]` belongs to txid `first + i`; records up to `durable` were flushed, and records up to
    `swapped` were swapped.
    """

    @initialize(first=st.integers(0, 5))
    def begin(self, first: int) -> None:
        self.first = first
        self.buffer = DoubleBuffer(first)
        self.records: list[bytes] = []
        self.durable = self.swapped = first - 1
        self.pending: RecordBatch | None = None

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1

    def joined(self, first: int, last: int) -> bytes:
        return b"".join(self.records[first - self.first : last - self.first + 1])

    @rule(record=records)
    def append(self, record: bytes) -> None:
        self.records.append(record)
        assert self.buffer.append(record) == self.last

    @precondition(lambda self: self.pending is None)
    @rule()
    def swap(self) -> None:
        batch = self.buffer.swap()
        if self.swapped == self.last:
            assert batch is None
            return
        assert batch is not None
        assert (batch.first, batch.last, batch.count) == (self.swapped + 1, self.last, self.last - self.swapped)
        assert batch.records == self.joined(batch.first, batch.last)
        self.pending, self.swapped = batch, self.last

    @precondition(lambda self: self.pending is not None)
    @rule()
    def flushed(self) -> None:
        with pytest.raises(RuntimeError, match="`swap` called before"):
            self.buffer.swap()
        self.buffer.flushed()
        assert self.pending is not None
        self.durable, self.pending = self.pending.last, None

    @precondition(lambda self: self.pending is None)
    @rule()
    def nothing_to_flush(self) -> None:
        with pytest.raises(RuntimeError, match="flushed without a swap"):
            self.buffer.flushed()

    @invariant()
    def sizes_and_txids_match_the_model(self) -> None:
        filling = self.joined(self.swapped + 1, self.last)
        assert (self.buffer.size, self.buffer.count) == (len(filling), self.last - self.swapped)
        assert (self.buffer.next_txid, self.buffer.durable_txid) == (self.last + 1, self.durable)


TestBuffer = BufferMachine.TestCase


class CommitMachine(RuleBasedStateMachine):
    """Callers of one log: only flushed transactions are durable, and only one caller at a time flushes."""

    @initialize()
    def begin(self) -> None:
        self.commit = GroupCommit(1, capacity=20)
        self.sizes: list[int] = []
        self.durable = 0
        self.batch: RecordBatch | None = None
        self.claimed = False
        self.failure: JournalStorageError | None = None
        self.flushes: list[RecordBatch] = []

    @rule(record=records)
    def write(self, record: bytes) -> None:
        if self.failure is not None:
            with pytest.raises(JournalStorageError):
                self.commit.turn_to_write()
            return
        taken = self.batch.last if self.batch is not None else self.durable
        full = sum(self.sizes[taken:]) >= 20
        expected = (CommitStep.WAIT if self.claimed else CommitStep.FLUSH) if full else CommitStep.DONE
        assert self.commit.turn_to_write() is expected
        if not full:
            self.sizes.append(len(record))
            assert self.commit.add(record) == len(self.sizes)

    @rule(back=st.integers(-1, 6))
    def sync(self, back: int) -> None:
        txid = len(self.sizes) - back
        if txid > len(self.sizes):
            with pytest.raises(ValueError, match="not written yet"):
                self.commit.turn_to_sync(txid)
        elif txid <= self.durable:
            assert self.commit.turn_to_sync(txid) is CommitStep.DONE
        elif self.failure is not None:
            with pytest.raises(JournalStorageError):
                self.commit.turn_to_sync(txid)
        else:
            assert self.commit.turn_to_sync(txid) is (CommitStep.WAIT if self.claimed else CommitStep.FLUSH)

    @precondition(lambda self: not self.claimed and self.failure is None)
    @rule()
    def claim(self) -> None:
        self.commit.claim()
        self.claimed = True
        with pytest.raises(RuntimeError, match="twice"):
            self.commit.claim()
        self.batch = self.commit.take()

    @precondition(lambda self: self.claimed)
    @rule(fails=st.integers(0, 5).map(lambda number: not number), seconds=st.sampled_from([0.25, 0.5]))
    def release(self, fails: bool, seconds: float) -> None:
        if fails:
            self.failure = JournalStorageError("disk")
            self.commit.fail(self.failure)
            self.commit.fail(JournalStorageError("another"))
        elif self.batch is not None:
            self.commit.flushed(self.batch, seconds)
            self.durable = self.batch.last
            self.flushes.append(self.batch)
        self.batch, self.claimed = None, False
        self.commit.release()

    @invariant()
    def state_matches_the_model(self) -> None:
        assert (self.commit.last_txid, self.commit.durable_txid) == (len(self.sizes), self.durable)
        assert self.commit.failure is self.failure
        assert self.commit.claimed is self.claimed

    @invariant()
    def metrics_match_the_model(self) -> None:
        metrics = self.commit.metrics()
        assert (metrics.transactions, metrics.transaction_bytes) == (self.durable, sum(self.sizes[: self.durable]))
        assert metrics.syncs == len(self.flushes)
        assert metrics.largest_batch == max((batch.count for batch in self.flushes), default=0)
        assert metrics.largest_batch_bytes == max((len(batch.records) for batch in self.flushes), default=0)
        assert metrics.last_batch == (self.flushes[-1].count if self.flushes else 0)
        if self.failure is None:
            taken = self.batch.last if self.batch is not None else self.durable
            assert (metrics.pending, metrics.pending_bytes) == (len(self.sizes) - taken, sum(self.sizes[taken:]))


TestCommit = CommitMachine.TestCase


@given(seconds=st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=5))
def test_sync_times_are_summed(seconds: list[float]) -> None:
    commit = GroupCommit(1, capacity=100)
    for each in seconds:
        commit.add(b"x")
        commit.claim()
        batch = commit.take()
        assert batch is not None
        commit.flushed(batch, each)
        commit.release()
        commit.waited(each)
        commit.waited_for_room(each)
    metrics = commit.metrics()
    assert metrics.sync_seconds == metrics.wait_seconds == metrics.full_wait_seconds == pytest.approx(sum(seconds))
    assert metrics.longest_sync_seconds == max(seconds)
    assert metrics.syncs == metrics.waits == metrics.full_waits == len(seconds)
