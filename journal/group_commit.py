"""Group commit without I/O: written and durable transactions, and the turn to flush (FSEditLog.logSync).

There is one turn: free, or claimed by one thread. The log has failed, or it has not.

    claim    free -> claimed. A thread that needs durability or space claims a free turn; the others wait.
    take     returns the records written so far to the thread with the turn; `flushed` marks them as durable.
    Repeatable.
    release  claimed -> free. All waiting threads check again.
    fail     final, whichever thread has the turn. Only transactions that were durable before stay so.

Because there is one turn, one thread flushes at a time and in the order of txids. No thread waits forever: a waiting
thread has seen the turn claimed, and the thread that claimed it always releases it.
"""

from __future__ import annotations

from enum import Enum

from journal.commit_metrics import CommitMetrics
from journal.double_buffer import DoubleBuffer
from journal.errors import JournalError
from journal.journal import RecordBatch


class CommitStep(Enum):
    """The next step of a caller."""

    DONE = "done"
    FLUSH = "flush for all that wait"
    WAIT = "wait for the thread that flushes"


class GroupCommit:
    """State of an edit log; the owner's lock is held around every method.

    A thread that flushes calls `claim`, gets batches from `take`, writes them without the lock, calls `flushed` for
    each
    and then `release`. After `fail` nothing becomes durable any more.

    Args:
        next_txid: of the first transaction.
        capacity: bytes in the filling half at which the buffer is full.
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
        """The error that stopped the log; None while it works."""
        return self._failure

    @property
    def claimed(self) -> bool:
        """Whether a thread has the turn."""
        return self._claimed

    @property
    def pending(self) -> int:
        """Number of transactions that the next `take` returns."""
        return self._buffer.count

    @property
    def patience(self) -> float:
        """Seconds that a flush may wait for more writers: half of the time of the flush before.

        0 if there seems to be one writer only, with at most one transaction in this batch and in the one before.
        """
        return self._last_sync / 2 if max(self._last, self._buffer.count) > 1 else 0.0

    def add(self, record: bytes) -> int:
        """Buffer the record of the next transaction; returns its txid."""
        return self._buffer.append(record)

    def turn_to_write(self) -> CommitStep:
        """Return the step before `add`: DONE if the buffer has space.

        Raises:
            JournalError: the log has failed.
        """
        if self._failure is not None:
            raise self._failure
        if self._buffer.size < self._capacity:
            return CommitStep.DONE
        return CommitStep.WAIT if self._claimed else CommitStep.FLUSH

    def turn_to_sync(self, txid: int) -> CommitStep:
        """Return the step before `txid` is durable.

        Raises:
            JournalError: the log failed earlier.
            ValueError: this txid is not assigned yet.
        """
        if txid > self.last_txid:
            raise ValueError(f"txid {txid} is not written yet, the last written txid is {self.last_txid}")
        if txid <= self.durable_txid:
            return CommitStep.DONE
        if self._failure is not None:
            raise self._failure
        return CommitStep.WAIT if self._claimed else CommitStep.FLUSH

    def claim(self) -> None:
        """Take the turn.

        Raises:
            RuntimeError: another thread has it.
        """
        if self._claimed:
            raise RuntimeError("the turn to flush is claimed twice")
        self._claimed = True

    def take(self) -> RecordBatch | None:
        """Return the records to write now, for the thread with the turn; the filling half is empty afterwards."""
        return self._buffer.swap()

    def flushed(self, batch: RecordBatch, seconds: float) -> None:
        """Mark `batch` as durable, after a flush of `seconds`."""
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
        """Release the turn."""
        self._claimed = False

    def fail(self, error: JournalError) -> None:
        """Stop the log: nothing becomes durable any more. The first error stays."""
        if self._failure is None:
            self._failure = error

    def waited(self, seconds: float) -> None:
        """Count a caller's wait for durability."""
        self._waits += 1
        self._wait_seconds += seconds

    def waited_for_room(self, seconds: float) -> None:
        """Count a writer's wait for space."""
        self._full_waits += 1
        self._full_wait_seconds += seconds

    def read(self, from_txid: int, *, durable_only: bool = True) -> list[RecordBatch] | None:
        """See `DoubleBuffer.read`."""
        return self._buffer.read(from_txid, durable_only=durable_only)

    def metrics(self) -> CommitMetrics:
        """Return the current counts."""
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
