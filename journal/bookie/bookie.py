"""A bookie's store: requests in, responses out, with group commit between them.

One thread writes. Requests change the index under the lock and leave their records in a queue; the writer takes what
is there, appends and syncs it, and answers all that waited for it. Others queue meanwhile.

    serving    entries are taken.
    read-only  the disk is nearly full, or a write failed: entries are refused, reads and fences are served. It serves
               again once there is room.
    failed     a sync failed, after which nobody can tell what the disk holds: nothing is answered any more.

What can never happen, and why: an answer overtakes its record, for answers leave the queue behind the sync of what was
before them. A write that failed leaves something behind: its records are cut off, and the index is made anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hadoop_common.file_faults import told
from hadoop_common.storage_lock import StorageLock
from journal.bookie.journal_file import JournalFile
from journal.bookie.state import BookieState, Place, Record, Reply, with_body
from journal.bookkeeper.messages import Code, Request, Response
from journal.errors import JournalStorageError

_LOG = logging.getLogger(__name__)

JOURNAL = "bookie.journal"
_LOOK_SECONDS = 5.0

Answer = Callable[[Response], None]


class Bookie:
    """The bookie in `directory`, which it holds the lock of; any thread may call.

    Args:
        reserve: bytes of the disk that stay free; with less it is read-only.
        changed: told when it becomes writable or read-only; must not wait.

    Raises:
        StorageError: the directory is in use.
        JournalError: what it holds is damaged.
        OSError: it cannot be used.
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
        self._queue: list[tuple[Reply, Answer]] = []
        self._writing = False
        self._stopping = False
        self.writable = self._has_room()
        self.failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="bookie-journal", daemon=True)
        self._thread.start()

    def handle(self, request: Request, answer: Answer) -> None:
        """Do what `request` asks; `answer` is called once, at once or by the writer, without the lock."""
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
        """Make durable what is queued, and let go of the directory."""
        with self._lock:
            self._stopping = True
            self._work.notify()
        self._thread.join()
        self._file.close()
        self._storage_lock.release()

    # ---- below: the writer ----

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._work.wait_for(lambda: bool(self._queue) or self._stopping, _LOOK_SECONDS):
                    self._look_for_room()
                    continue
                if not self._queue:
                    return
                batch, self._queue = self._queue, []
                self._writing = True
            try:
                self._commit(batch)
            except OSError as fault:
                _LOG.critical("the journal cannot be synced, nothing is answered any more: %s", told(fault))
                with self._lock:
                    self.failure = fault
                return
            finally:
                with self._lock:
                    self._writing = False

    def _commit(self, batch: list[tuple[Reply, Answer]]) -> None:
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
            self._look_for_room()

    def _settle(self, records: list[Record], places: list[Place]) -> None:
        for record, place in zip(records, places, strict=True):
            self._state.settled(record, place)

    def _undo(self, end: int, batch: list[tuple[Reply, Answer]], fault: OSError) -> None:
        """What was not written never was; what came meanwhile went by what is gone now, and is refused too."""
        _LOG.error("the journal cannot be written, the bookie is read-only: %s", told(fault))
        self._file.cut(end)
        with self._lock:
            self._state = self._replayed()
            refused, self._queue = [*batch, *self._queue], []
            self._turn(writable=False)
        for reply, answer in refused:
            answer(replace(reply.response, code=Code.IO_ERROR))

    def _replayed(self) -> BookieState:
        state = BookieState()
        for record, place in self._file.replay():
            state.apply(record, place)
        return state

    def _look_for_room(self) -> None:
        self._turn(writable=self._has_room())

    def _has_room(self) -> bool:
        return self._file.free_bytes() > self._reserve

    def _turn(self, *, writable: bool) -> None:
        if writable != self.writable:
            self.writable = writable
            _LOG.warning("the bookie is %s", "writable again" if writable else "read-only: its disk is full")
            self._changed(writable)

    def _response(self, reply: Reply) -> Response:
        if reply.body is None:
            return reply.response
        try:
            body = self._file.read(reply.body) if isinstance(reply.body, Place) else reply.body
        except OSError as fault:
            _LOG.error("an entry cannot be read: %s", told(fault))
            return replace(reply.response, code=Code.IO_ERROR)
        return with_body(reply.response, body)


def storage_fault(directory: Path, fault: OSError) -> JournalStorageError:
    """The error of a directory that cannot be used."""
    return JournalStorageError(f"the bookie's directory cannot be used: {told(fault, directory)}", file=str(directory))
