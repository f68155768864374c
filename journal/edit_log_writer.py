"""Writing the edit log: txids in order, group commit, segments in one or several directories (FSEditLog)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from hadoop_common.names import SegmentName
from journal.binary_codec import encode_op
from journal.double_buffer import DoubleBuffer
from journal.errors import JournalStorageError
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from journal.segment_stream import SegmentStream

__all__ = ["DEFAULT_CAPACITY", "EditLogWriter"]

DEFAULT_CAPACITY = 512 * 1024  # bytes; Hadoop's output buffer of the edit log


class EditLogWriter:
    """An open edit log; every method may be called from any thread.

    A directory that fails is dropped, with its segment left in progress, and reported. When none is left
    the writer fails and stays failed: later calls raise the same error, and nothing is acknowledged again.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        layout_version: int,
        first_txid: int,
        *,
        capacity: int = DEFAULT_CAPACITY,
        on_directory_failure: Callable[[Path, OSError], None] | None = None,
    ) -> None:
        """Start the segment of `first_txid` in each of `directories`; START_LOG_SEGMENT is durable after.

        Args:
            directories: existing directories, without segments in progress (see `recover_in_progress`).
            layout_version: layout of the segments.
            first_txid: txid of the first operation.
            capacity: bytes that may wait for a flush before `write` waits too.
            on_directory_failure: told of every dropped directory; must not call the writer.

        Raises:
            JournalStorageError: no directory could be written.
            UnsupportedLayoutError: the layout is unknown.
        """
        self._directories = list(directories)
        self._layout_version = layout_version
        self._capacity = capacity
        self._on_directory_failure = on_directory_failure
        self._condition = threading.Condition()
        self._buffer = DoubleBuffer()
        self._streams: list[SegmentStream] = []
        self._flushing = False
        self._closed = False
        self._failure: JournalStorageError | None = None
        self._segment_first = first_txid
        self._last_txid = first_txid - 1
        self._durable_txid = first_txid - 1
        with self._condition, self._fail_stop():
            self._start_segment()

    @property
    def last_txid(self) -> int:
        """Txid of the newest operation written, durable or not."""
        with self._condition:
            return self._last_txid

    @property
    def durable_txid(self) -> int:
        """Every operation up to this txid survives a crash."""
        with self._condition:
            return self._durable_txid

    @property
    def segment_first_txid(self) -> int:
        """First txid of the segment in progress."""
        with self._condition:
            return self._segment_first

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories that are still written."""
        with self._condition:
            return tuple(stream.directory for stream in self._streams)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, op: EditOp) -> int:
        """Give `op` the next txid and put it in the buffer; returns the txid. Durable only after `sync`.

        Raises:
            OpEncodingError: a value of `op` does not fit; no txid is used up.
            JournalStorageError: the writer has failed or is closed.
        """
        while True:
            with self._condition:
                self._check_open()
                if self._buffer.size < self._capacity:
                    return self._append(op)
                pending = self._last_txid
            self.sync(pending)

    def sync(self, txid: int) -> None:
        """Return once `txid` is durable; one caller flushes for all that wait.

        Raises:
            JournalStorageError: the writer failed before that.
            ValueError: no operation has this txid yet.
        """
        if not self._claim_flush(txid):
            return
        try:
            durable = self._buffer.flush(self._write_everywhere)
        except BaseException as error:
            self._release_flush(None, self._failure_of(error))
            raise
        self._release_flush(durable, None)

    def flush(self) -> None:
        """Make everything written so far durable.

        Raises:
            JournalStorageError: the writer has failed.
        """
        self.sync(self.last_txid)

    def roll(self) -> SegmentName:
        """Finalize the segment and start the next one; returns the finalized one.

        Raises:
            JournalStorageError: no directory is left, or the writer is closed.
        """
        with self._condition:
            self._await_flusher()
            self._check_open()
            with self._fail_stop():
                finalized = self._end_segment()
                self._start_segment()
            return finalized

    def close(self) -> None:
        """Make everything durable, finalize the segment and release the files. A second call does nothing.

        Raises:
            JournalStorageError: operations that were written are not durable.
        """
        with self._condition, self._fail_stop():
            self._await_flusher()
            if self._closed:
                return
            self._closed = True
            if self._failure is None:
                self._end_segment()
                return
            for stream in self._streams:
                stream.abort()
            if self._durable_txid < self._last_txid:
                raise self._failure

    # ---- below: callers hold the lock, but for the methods of a flush ----

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise JournalStorageError("the edit log is closed", txid=self._last_txid, hint="Open a new writer.")

    def _await_flusher(self) -> None:
        while self._flushing:
            self._condition.wait()

    def _append(self, op: EditOp) -> int:
        txid = self._last_txid + 1
        previous, op.txid = op.txid, txid
        try:
            data = encode_op(op, self._layout_version)
        except BaseException:
            op.txid = previous
            raise
        self._buffer.append(data, txid)
        self._last_txid = txid
        return txid

    def _claim_flush(self, txid: int) -> bool:
        """True when the caller now owns the swapped buffer; False when `txid` is durable."""
        with self._condition:
            if txid > self._last_txid:
                raise ValueError(f"txid {txid} is not written yet, the last one is {self._last_txid}")
            while self._durable_txid < txid:
                self._check_open()
                if not self._flushing:
                    self._flushing = True
                    self._buffer.swap()
                    return True
                self._condition.wait()
            return False

    def _release_flush(self, durable: int | None, failure: JournalStorageError | None) -> None:
        with self._condition:
            self._flushing = False
            self._failure = failure
            if durable is not None:
                self._durable_txid = durable
            self._condition.notify_all()

    def _failure_of(self, error: BaseException) -> JournalStorageError:
        if isinstance(error, JournalStorageError):
            return error
        failure = JournalStorageError(f"a flush was broken off: {error!r}", txid=self._durable_txid)
        failure.__cause__ = error
        return failure

    @contextmanager
    def _fail_stop(self) -> Iterator[None]:
        try:
            yield
        except JournalStorageError as error:
            self._failure = error
            self._condition.notify_all()
            raise

    def _write_everywhere(self, data: bytearray) -> None:
        self._on_each(lambda stream: stream.append(data))

    def _on_each(self, action: Callable[[SegmentStream], object]) -> None:
        """Apply `action` to every stream and drop those that fail.

        Raises:
            JournalStorageError: none is left.
        """
        kept = []
        last_error: OSError | None = None
        for stream in self._streams:
            try:
                action(stream)
                kept.append(stream)
            except OSError as error:
                stream.abort()
                last_error = error
                self._report(stream.directory, error)
        self._streams = kept
        self._require_streams(last_error)

    def _report(self, directory: Path, error: OSError) -> None:
        if self._on_directory_failure is not None:
            self._on_directory_failure(directory, error)

    def _require_streams(self, last_error: OSError | None) -> None:
        if not self._streams:
            problem = f"no edits directory is left to write to: {last_error}"
            raise JournalStorageError(problem, txid=self._durable_txid) from last_error

    def _flush_locked(self) -> None:
        self._buffer.swap()
        self._buffer.flush(self._write_everywhere)
        self._durable_txid = self._last_txid
        self._condition.notify_all()

    def _start_segment(self) -> None:
        first = self._last_txid + 1
        last_error: OSError | None = None
        for directory in self._directories:
            try:
                self._streams.append(SegmentStream.create(directory, first, self._layout_version))
            except OSError as error:
                last_error = error
                self._report(directory, error)
        self._require_streams(last_error)
        self._segment_first = first
        self._append(StartLogSegmentOp())
        self._flush_locked()

    def _end_segment(self) -> SegmentName:
        self._append(EndLogSegmentOp())
        self._flush_locked()
        last = self._last_txid
        self._on_each(lambda stream: stream.finalize(last))
        self._directories = [stream.directory for stream in self._streams]
        self._streams = []
        return SegmentName(self._segment_first, last)
