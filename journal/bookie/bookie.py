"""The store of a bookie: it performs requests, commits their records in groups, and sends the responses.

Requests change the index under the lock and queue their records. One thread, the writer, takes the queued records,
appends and syncs them, and sends the responses. Further requests can be queued while the writer works.

    serving    entries are accepted.
    read-only  the disk is nearly full, or a write failed. Entries are refused, but reads and fences are served. The
               bookie becomes writable again once the disk has space.
    failed     a sync failed, so the content of the disk is unknown. Requests are no longer answered.

A response cannot precede its record, because responses leave the queue after the sync of all earlier records. A failed
write has no effect, because its records are truncated and the index is rebuilt.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hadoop_common.file_faults import error_text
from hadoop_common.storage_lock import StorageLock
from journal.bookie.journal_file import JournalFile
from journal.bookie.state import BookieRecord, BookieReply, BookieState, RecordPlace, with_body
from journal.bookkeeper.messages import BookieRequest, BookieResponse, ResultCode
from journal.errors import JournalStorageError

_LOG = logging.getLogger(__name__)

JOURNAL = "bookie.journal"
_CHECK_SECONDS = 5.0

Answer = Callable[[BookieResponse], None]


class Bookie:
    """A bookie that locks `directory` and stores its entries there; thread-safe.

    Args:
        reserve: bytes of disk space to keep free; the bookie is read-only while less space is free.
        changed: called when the bookie becomes writable or read-only; must not block.

    Raises:
        StorageError: the directory is in use.
        JournalError: the content of the directory is damaged.
        OSError: the directory cannot be used.
    """

    def __init__(
        self, directory: Path, *, reserve: int = 0, changed: Callable[[bool], None] = lambda writable: None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._reserve = reserve
        self._changed = changed
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._storage_lock = StorageLock(directory)
        self._storage_lock.acquire()
        try:
            self._file = JournalFile(directory / JOURNAL)
            self._state = self._replayed()
        except BaseException:
            self._storage_lock.release()
            raise
        self._queue: list[tuple[BookieReply, Answer]] = []
        self._writing = False
        self._stopping = False
        self.writable = self._has_space()
        self.failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="bookie-journal", daemon=True)
        self._thread.start()

    def handle(self, request: BookieRequest, answer: Answer) -> None:
        """Perform `request`; call `answer` without the lock, either immediately or later in the writer's thread."""
        with self._lock:
            if self.failure is not None:
                return
            reply = self._state.handle(request, writable=self.writable)
            if reply.durable and (reply.records or self._queue or self._writing):
                self._queue.append((reply, answer))
                self._work.notify()
                return
        answer(self._response(reply))

    def close(self) -> None:
        """Make the queued records durable, and release the directory."""
        with self._lock:
            self._stopping = True
            self._work.notify()
        self._thread.join()
        self._file.close()
        self._storage_lock.release()

    # ---- the writer ----

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._work.wait_for(lambda: bool(self._queue) or self._stopping, _CHECK_SECONDS):
                    self._check_space()
                    continue
                if not self._queue:
                    return
                batch, self._queue = self._queue, []
                self._writing = True
            try:
                self._commit(batch)
            except OSError as fault:
                _LOG.critical("the journal cannot be synced, so the bookie stops answering: %s", error_text(fault))
                with self._lock:
                    self.failure = fault
                return
            finally:
                with self._lock:
                    self._writing = False

    def _commit(self, batch: list[tuple[BookieReply, Answer]]) -> None:
        records = [record for reply, _ in batch for record in reply.records]
        if records:
            before = self._file.end
            try:
                places = self._file.append(records)
            except OSError as fault:
                self._undo(before, batch, fault)
                return
            self._file.sync()
            with self._lock:
                self._settle(records, places)
        for reply, answer in batch:
            answer(self._response(reply))
        with self._lock:
            self._check_space()

    def _settle(self, records: list[BookieRecord], places: list[RecordPlace]) -> None:
        for record, place in zip(records, places, strict=True):
            self._state.settled(record, place)

    def _undo(self, end: int, batch: list[tuple[BookieReply, Answer]], fault: OSError) -> None:
        """Drop the records that could not be written, and refuse later requests, which depend on these records."""
        _LOG.error("the journal cannot be written, so the bookie is read-only: %s", error_text(fault))
        self._file.cut(end)
        with self._lock:
            self._state = self._replayed()
            refused, self._queue = [*batch, *self._queue], []
            self._set_writable(writable=False)
        for reply, answer in refused:
            answer(replace(reply.response, code=ResultCode.IO_ERROR))

    def _replayed(self) -> BookieState:
        state = BookieState()
        for record, place in self._file.replay():
            state.apply(record, place)
        return state

    def _check_space(self) -> None:
        self._set_writable(writable=self._has_space())

    def _has_space(self) -> bool:
        return self._file.free_bytes() > self._reserve

    def _set_writable(self, *, writable: bool) -> None:
        if writable != self.writable:
            self.writable = writable
            _LOG.warning("the bookie is %s", "writable again" if writable else "read-only: its disk is full")
            self._changed(writable)

    def _response(self, reply: BookieReply) -> BookieResponse:
        if reply.body is None:
            return reply.response
        try:
            body = self._file.read(reply.body) if isinstance(reply.body, RecordPlace) else reply.body
        except OSError as fault:
            _LOG.error("an entry cannot be read: %s", error_text(fault))
            return replace(reply.response, code=ResultCode.IO_ERROR)
        return with_body(reply.response, body)


def storage_fault(directory: Path, fault: OSError) -> JournalStorageError:
    return JournalStorageError(
        f"the bookie's directory cannot be used: {error_text(fault, directory)}", file=str(directory)
    )
