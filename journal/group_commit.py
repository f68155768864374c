"""Group commit without I/O: written and durable transactions, and the turn to flush (FSEditLog.logSync).

The turn is free, or one thread has claimed it. A failure of the log is final.

    claim    free -> claimed. A thread that needs durability or space claims a free turn; all other threads wait.
    take     returns the records written so far to the thread with the turn; `flushed` marks these records as durable.
             The thread may repeat both calls.
    release  claimed -> free. All waiting threads check again.
    fail     stops the log permanently, whichever thread has the turn. No further transaction becomes durable.

Because there is only one turn, one thread flushes at a time, in the order of txids. A thread waits only while another
thread has the turn, and that thread always releases the turn, so no thread waits forever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from journal.double_buffer import DoubleBuffer
from journal.errors import JournalError
from journal.journal import RecordBatch


class CommitStep(Enum):
    DONE = "done"
    FLUSH = "flush for all waiting threads"
    WAIT = "wait for the thread that flushes"


@dataclass(slots=True)
class CommitMetrics:
    """Counts since the log was opened; times in seconds.

    Attributes:
        transactions, transaction_bytes: number and bytes of durable transactions.
        syncs: number of batches made durable.
        sync_seconds, longest_sync_seconds: duration of the syncs.
        last_batch, largest_batch: transactions in the newest and in the largest batch.
        last_batch_bytes, largest_batch_bytes: bytes of these batches.
        waits, wait_seconds: waits of callers for durability, including the caller that flushed.
        full_waits, full_wait_seconds: waits of writers for space in the buffer.
        pending, pending_bytes: transactions that wait for the next flush.
    """

    transactions: int = 0
    transaction_bytes: int = 0
    syncs: int = 0
    sync_seconds: float = 0.0
    longest_sync_seconds: float = 0.0
    last_batch: int = 0
    largest_batch: int = 0
    last_batch_bytes: int = 0
    largest_batch_bytes: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    full_waits: int = 0
    full_wait_seconds: float = 0.0
    pending: int = 0
    pending_bytes: int = 0


class GroupCommit:
    """State of an edit log; the owner holds its lock around every call.

    A thread that flushes calls `claim`, obtains batches from `take`, writes them without the lock, calls `flushed` for
    each batch, and then calls `release`. After `fail`, no further transaction becomes durable.

    Args:
        next_txid: txid of the first transaction.
        capacity: the buffer counts as full if the filling half has at least this number of bytes.
    """

    def __init__(self, next_txid: int, *, capacity: int) -> None:
        self._buffer = DoubleBuffer(next_txid)
        self._capacity = capacity
        self._claimed = False
        self._failure: JournalError | None = None
        self._metrics = CommitMetrics()
        self._last_sync = 0.0

    @property
    def last_txid(self) -> int:
        """Newest transaction, durable or not."""
        return self._buffer.next_txid - 1

    @property
    def durable_txid(self) -> int:
        return self._buffer.durable_txid

    @property
    def failure(self) -> JournalError | None:
        """The error that stopped the log; None if the log has not failed."""
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
        """Maximum wait of a flush for more writers, in seconds: half of the duration of the previous flush.

        The value is 0 if this batch and the previous batch have at most one transaction, so that probably only one
        thread writes.
        """
        return self._last_sync / 2 if max(self._metrics.last_batch, self._buffer.count) > 1 else 0.0

    def add(self, record: bytes) -> int:
        """Buffer the record of the next transaction, and return its txid."""
        return self._buffer.append(record)

    def turn_to_write(self) -> CommitStep:
        """Return the caller's next step before `add`; DONE if the buffer has space.

        Raises:
            JournalError: the log has failed.
        """
        if self._failure is not None:
            raise self._failure
        if self._buffer.size < self._capacity:
            return CommitStep.DONE
        return CommitStep.WAIT if self._claimed else CommitStep.FLUSH

    def turn_to_sync(self, txid: int) -> CommitStep:
        """Return the caller's next step towards a durable `txid`; DONE if it is durable.

        Raises:
            JournalError: the log failed earlier.
            ValueError: the txid has not been assigned yet.
        """
        if txid > self.last_txid:
            raise ValueError(f"txid {txid} is not written yet; the last written txid is {self.last_txid}")
        if txid <= self.durable_txid:
            return CommitStep.DONE
        if self._failure is not None:
            raise self._failure
        return CommitStep.WAIT if self._claimed else CommitStep.FLUSH

    def claim(self) -> None:
        """Claim the turn.

        Raises:
            RuntimeError: another thread has claimed the turn.
        """
        if self._claimed:
            raise RuntimeError("the turn to flush is claimed twice")
        self._claimed = True

    def take(self) -> RecordBatch | None:
        """Return the records that the thread with the turn has to write now; the filling half is empty afterwards."""
        return self._buffer.swap()

    def flushed(self, batch: RecordBatch, seconds: float) -> None:
        """Mark `batch` as durable after a flush that took `seconds`."""
        self._buffer.flushed()
        self._last_sync = seconds
        size, metrics = len(batch.records), self._metrics
        metrics.transactions += batch.count
        metrics.transaction_bytes += size
        metrics.syncs += 1
        metrics.sync_seconds += seconds
        metrics.longest_sync_seconds = max(metrics.longest_sync_seconds, seconds)
        metrics.last_batch, metrics.last_batch_bytes = batch.count, size
        metrics.largest_batch = max(metrics.largest_batch, batch.count)
        metrics.largest_batch_bytes = max(metrics.largest_batch_bytes, size)

    def release(self) -> None:
        self._claimed = False

    def fail(self, error: JournalError) -> None:
        """Stop the log, so that no further transaction becomes durable. Only the first error is recorded."""
        if self._failure is None:
            self._failure = error

    def waited(self, seconds: float) -> None:
        """Count a caller's wait for durability."""
        self._metrics.waits += 1
        self._metrics.wait_seconds += seconds

    def waited_for_room(self, seconds: float) -> None:
        """Count a writer's wait for space."""
        self._metrics.full_waits += 1
        self._metrics.full_wait_seconds += seconds

    def metrics(self) -> CommitMetrics:
        return replace(self._metrics, pending=self._buffer.count, pending_bytes=self._buffer.size)
