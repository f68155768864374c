"""Group commit without I/O: what is written, what is durable, and whose turn it is to flush (FSEditLog.logSync).

There is one turn. It is free, or one thread has it; the log has failed, or it has not.

    claim    free -> taken. Whoever needs durability or room and finds the turn free takes it; the others wait.
    take     the one with the turn gets what was written so far; `flushed` says that it is durable. Both, as often as
             need be.
    release  taken -> free, and all that wait look again.
    fail     for good, whoever has the turn. Only what was durable before counts.

One thread flushes at a time, and in the order of txids, because there is one turn. Nobody waits for ever: whoever
waits has seen the turn taken, and the one that has it releases it whatever happens.
"""

from __future__ import annotations

from enum import Enum

from journal.commit_metrics import CommitMetrics
from journal.double_buffer import DoubleBuffer
from journal.errors import JournalError
from journal.journal import RecordBatch


class Turn(Enum):
    """What a caller has to do next."""

    DONE = "done"
    FLUSH = "flush for all that wait"
    WAIT = "wait for the one that flushes"


class GroupCommit:
    """The state of an edit log; the owner's lock is held around every method.

    Whoever gets the turn to flush `claim`s it, takes batches with `take`, writes them out without the lock, says
    `flushed` of each, and `release`s the turn. After `fail` nothing becomes durable any more.

    Args:
        next_txid: of the first transaction.
        capacity: bytes in the filling half from which on it is full.
        window: see `DoubleBuffer`.
    """

    def __init__(self, next_txid: int, *, capacity: int, window: int = 0) -> None:
        self._buffer = DoubleBuffer(next_txid, window=window)
        self._capacity = capacity
        self._claimed = False
        self._failure: JournalError | None = None
        self._transactions = self._bytes = self._syncs = 0
        self._last = self._last_bytes = self._largest = self._largest_bytes = 0
        self._sync_seconds = self._longest_sync = self._last_sync = 0.0
        self._waits = self._full_waits = 0
        self._wait_seconds = self._full_wait_seconds = 0.0

    @property
    def last_txid(self) -> int:
        """Newest transaction, durable or not."""
        return self._buffer.next_txid - 1

    @property
    def durable_txid(self) -> int:
        """Newest durable transaction."""
        return self._buffer.durable_txid

    @property
    def failure(self) -> JournalError | None:
        """Why nothing becomes durable any more."""
        return self._failure

    @property
    def claimed(self) -> bool:
        """Whether somebody has the turn."""
        return self._claimed

    @property
    def pending(self) -> int:
        """Transactions that the next `take` gives."""
        return self._buffer.count

    @property
    def patience(self) -> float:
        """Seconds that a flush may wait for others to come along, half of what the one before took.

        0 where there seems to be one writer only: nobody else is in this batch, or was in the one before.
        """
        return self._last_sync / 2 if max(self._last, self._buffer.count) > 1 else 0.0

    def add(self, record: bytes) -> int:
        """Take the record of the next transaction; returns its txid."""
        return self._buffer.append(record)

    def turn_to_write(self) -> Turn:
        """What stands between a writer and `add`: DONE where there is room.

        Raises:
            JournalError: the log has failed.
        """
        if self._failure is not None:
            raise self._failure
        if self._buffer.size < self._capacity:
            return Turn.DONE
        return Turn.WAIT if self._claimed else Turn.FLUSH

    def turn_to_sync(self, txid: int) -> Turn:
        """What stands between a caller and the durability of `txid`.

        Raises:
            JournalError: the log failed before that.
            ValueError: no transaction has this txid yet.
        """
        if txid > self.last_txid:
            raise ValueError(f"txid {txid} is not written yet, the last one is {self.last_txid}")
        if txid <= self.durable_txid:
            return Turn.DONE
        if self._failure is not None:
            raise self._failure
        return Turn.WAIT if self._claimed else Turn.FLUSH

    def claim(self) -> None:
        """Take the turn.

        Raises:
            RuntimeError: somebody has it.
        """
        if self._claimed:
            raise RuntimeError("the turn to flush is taken twice")
        self._claimed = True

    def take(self) -> RecordBatch | None:
        """What is to be written out now; the filling half is empty then. For the one with the turn."""
        return self._buffer.swap()

    def flushed(self, batch: RecordBatch, seconds: float) -> None:
        """`batch` is durable, which took so long."""
        self._buffer.flushed()
        size = len(batch.records)
        self._transactions += batch.count
        self._bytes += size
        self._syncs += 1
        self._sync_seconds += seconds
        self._last_sync = seconds
        self._longest_sync = max(self._longest_sync, seconds)
        self._last, self._last_bytes = batch.count, size
        self._largest, self._largest_bytes = max(self._largest, batch.count), max(self._largest_bytes, size)

    def release(self) -> None:
        """Give the turn back."""
        self._claimed = False

    def fail(self, error: JournalError) -> None:
        """Nothing becomes durable any more; the first reason stays."""
        if self._failure is None:
            self._failure = error

    def waited(self, seconds: float) -> None:
        """A caller waited so long for its transaction to be durable."""
        self._waits += 1
        self._wait_seconds += seconds

    def waited_for_room(self, seconds: float) -> None:
        """A writer waited so long for room."""
        self._full_waits += 1
        self._full_wait_seconds += seconds

    def read(self, from_txid: int, *, durable_only: bool = True) -> list[RecordBatch] | None:
        """See `DoubleBuffer.read`."""
        return self._buffer.read(from_txid, durable_only=durable_only)

    def metrics(self) -> CommitMetrics:
        """The counts as they are now."""
        return CommitMetrics(
            transactions=self._transactions,
            transaction_bytes=self._bytes,
            syncs=self._syncs,
            sync_seconds=self._sync_seconds,
            longest_sync_seconds=self._longest_sync,
            last_batch=self._last,
            largest_batch=self._largest,
            last_batch_bytes=self._last_bytes,
            largest_batch_bytes=self._largest_bytes,
            waits=self._waits,
            wait_seconds=self._wait_seconds,
            full_waits=self._full_waits,
            full_wait_seconds=self._full_wait_seconds,
            pending=self._buffer.count,
            pending_bytes=self._buffer.size,
        )
