"""Writer of the edit log: assigns txids, buffers records, commits them in groups, and rolls segments (FSEditLog).

The log is open, failed, or closed. `GroupCommit` decides which thread flushes; this module waits and does the I/O.

    write   with the lock: assigns a txid and buffers the record. If the buffer is full, flushes or waits for a flush.
    sync    with the lock: returns if the txid is durable; otherwise claims the turn.
            without the lock: flushes all written records.
    roll    with the lock: writes END_LOG_SEGMENT, swaps the buffers, writes START_LOG_SEGMENT.
            without the lock: flushes, finalizes the segment, starts the next segment, flushes again.
    close   claims the turn for the last flush; later calls raise an error.

Faults that cannot occur, with the reasons:

    A repeated txid, or a gap: txids are assigned under the lock, and a record that cannot be encoded receives no txid.
    A record in the wrong segment: a roll swaps the buffers between END and START, and the lock excludes other records.
    An acknowledgement of a record that is not durable: `sync` returns only after `durable_txid` has reached its txid.
    An acknowledgement after a failure: an error in a turn fails the log before the turn is released.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hadoop_common.lifetimes import Closeable
from hadoop_common.names import SegmentName
from journal.binary_codec import encode_op
from journal.errors import JournalError, JournalStorageError
from journal.group_commit import CommitMetrics, CommitStep, GroupCommit
from journal.journal import Journal, RecordBatch
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp

DEFAULT_CAPACITY = 512 * 1024  # bytes; Hadoop's output buffer of the edit log


class EditLogWriter(Closeable):
    """An open edit log; thread-safe.

    When the journal fails, the writer fails permanently: later calls raise the same error, and nothing is acknowledged.
    A flush or a roll does not hold the lock while it writes to the journal.
    """

    def __init__(
        self,
        journal: Journal,
        layout_version: int,
        first_txid: int,
        *,
        capacity: int = DEFAULT_CAPACITY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the segment of `first_txid`; its START_LOG_SEGMENT is durable on return.

        Args:
            journal: journal that the caller has recovered and later closes.
            layout_version: layout of the segments.
            first_txid: txid of the first operation.
            capacity: bytes that may wait for a flush before `write` also waits.
            clock: returns seconds for the metrics.

        Raises:
            JournalError: the segment could not be started.
        """
        self._journal = journal
        self._layout_version = layout_version
        self._clock = clock
        self._lock = threading.Lock()
        self._flushed = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._commit = GroupCommit(first_txid, capacity=capacity)
        self._closed = False
        self._segment_first = first_txid
        self._segment = journal.start_segment(first_txid, layout_version)
        try:
            self._append(StartLogSegmentOp())
            self._write_out(self._commit.take())
        except BaseException:
            self._segment.abort()
            raise

    @property
    def last_txid(self) -> int:
        """Txid of the newest written operation, durable or not."""
        with self._lock:
            return self._commit.last_txid

    @property
    def durable_txid(self) -> int:
        """Newest durable txid; all operations up to this txid survive a crash."""
        with self._lock:
            return self._commit.durable_txid

    @property
    def segment_first_txid(self) -> int:
        """First txid of the segment in progress."""
        with self._lock:
            return self._segment_first

    def metrics(self) -> CommitMetrics:
        """Return counts of batches, syncs and waits since the log was opened."""
        with self._lock:
            return self._commit.metrics()

    def write(self, op: EditOp) -> int:
        """Assign the next txid to `op`, buffer the operation and return its txid; only `sync` makes it durable.

        The call waits while the buffer is full.

        Raises:
            OpEncodingError: a value of `op` does not fit; no txid is assigned.
            JournalError: the writer has failed or is closed.
        """
        while True:
            with self._lock:
                if self._await_room():
                    return self._append(op)
                batch = self._claim()
            with self._turn():
                self._write_out(batch)

    def sync(self, txid: int) -> None:
        """Wait until `txid` is durable; one caller flushes for all waiting callers.

        Raises:
            JournalError: the writer failed earlier.
            ValueError: the txid has not been assigned yet.
        """
        with self._lock:
            if self._await_durable(txid):
                return
            self._commit.claim()
            patience = self._commit.patience
        with self._turn():
            if patience > 0:
                self._gather(patience)
            with self._lock:
                batch = self._take()
            self._write_out(batch)

    def flush(self) -> None:
        """Make all written operations durable.

        Raises:
            JournalError: the writer has failed.
        """
        self.sync(self.last_txid)

    def roll(self) -> SegmentName:
        """Finalize the segment, start the next segment, and return the finalized one; other threads can still write.

        Raises:
            JournalError: the journal failed, or the writer is closed.
        """
        with self._lock:
            self._await_turn()
            self._check_open()
            last = self._append(EndLogSegmentOp())
            batch = self._claim()
            self._append(StartLogSegmentOp())
            finalized = SegmentName(self._segment_first, last)
        with self._turn():
            self._write_out(batch)
            self._segment.finalize(last)
            self._segment = self._journal.start_segment(last + 1, self._layout_version)
            with self._lock:
                batch = self._take()
            self._write_out(batch)
            with self._lock:
                self._segment_first = last + 1
        return finalized

    def close(self) -> None:
        """Make everything durable and finalize the segment. A second call does nothing.

        Raises:
            JournalError: some written operations are not durable.
        """
        with self._lock:
            self._await_turn()
            if self._closed:
                return
            self._closed = True
            failure = self._commit.failure
            lost = self._commit.durable_txid < self._commit.last_txid
            if failure is None:
                last = self._append(EndLogSegmentOp())
                batch = self._claim()
        if failure is None:
            with self._turn():
                self._write_out(batch)
                self._segment.finalize(last)
            return
        self._segment.abort()
        if lost:
            raise failure

    # ---- the caller holds the lock ----

    def _check_open(self) -> None:
        if self._commit.failure is not None:
            raise self._commit.failure
        if self._closed:
            problem, hint = "the edit log is closed", "Open a new writer."
            raise JournalStorageError(problem, txid=self._commit.last_txid, hint=hint)

    def _await_turn(self) -> None:
        while self._commit.claimed:
            self._flushed.wait()

    def _await_room(self) -> bool:
        """Wait until the buffer has space and return True, or return False if the caller has to flush the buffer."""
        self._check_open()
        turn = self._commit.turn_to_write()
        if turn is CommitStep.WAIT:
            started = self._clock()
            while turn is CommitStep.WAIT:
                self._room.wait()
                self._check_open()
                turn = self._commit.turn_to_write()
            self._commit.waited_for_room(self._clock() - started)
        return turn is CommitStep.DONE

    def _await_durable(self, txid: int) -> bool:
        """Wait until `txid` is durable and return True, or return False if the caller has to flush."""
        turn = self._commit.turn_to_sync(txid)
        if turn is CommitStep.WAIT:
            started = self._clock()
            while turn is CommitStep.WAIT:
                self._flushed.wait()
                turn = self._commit.turn_to_sync(txid)
            self._commit.waited(self._clock() - started)
        return turn is CommitStep.DONE

    def _append(self, op: EditOp) -> int:
        previous, op.txid = op.txid, self._commit.last_txid + 1
        try:
            record = encode_op(op, self._layout_version)
        except BaseException:
            op.txid = previous
            raise
        return self._commit.add(record)

    def _claim(self) -> RecordBatch | None:
        """Claim the turn, and return the records to write."""
        self._commit.claim()
        return self._take()

    def _take(self) -> RecordBatch | None:
        batch = self._commit.take()
        self._room.notify_all()
        return batch

    # ---- the caller has the turn, but not the lock ----

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Release the turn at the end of the context; an error in the context fails the log."""
        try:
            yield
        except BaseException as error:
            with self._lock:
                self._commit.fail(self._failure_of(error))
            raise
        finally:
            with self._lock:
                self._commit.release()
                self._flushed.notify_all()
                self._room.notify_all()

    def _gather(self, seconds: float) -> None:
        """Wait until the writers that the last flush released add no more records."""
        ends = self._clock() + seconds
        before, pending = -1, 0
        while pending > before and self._clock() < ends:
            time.sleep(0)
            with self._lock:
                before, pending = pending, self._commit.pending

    def _write_out(self, batch: RecordBatch | None) -> None:
        if batch is None:
            return
        started = self._clock()
        self._segment.append(batch)
        seconds = self._clock() - started
        with self._lock:
            self._commit.flushed(batch, seconds)
            self._flushed.notify_all()

    def _failure_of(self, error: BaseException) -> JournalError:
        if isinstance(error, JournalError):
            return error
        failure = JournalStorageError(f"a flush was interrupted: {error!r}", txid=self._commit.durable_txid)
        failure.__cause__ = error
        return failure
