"""An edit log that callers need not wait for: one thread encodes, writes and syncs what they queue (FSEditLogAsync).

The thread waits for an edit, writes edits as long as there are some, then syncs them all, and starts over. It never
waits for an edit while somebody waits for a sync. Each future is settled once: when its write fails, or when its sync
ends. A sync that fails still settles as durable what is. After `close` the end mark is the last in the queue, so
nothing is left behind.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import NamedTuple, Self

from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalStorageError
from journal.operation import EditOp

__all__ = ["PENDING_EDITS", "AsyncEditLog"]

PENDING_EDITS = 4096  # dfs.namenode.edits.asynclogging.pending.queue.size


class _Edit(NamedTuple):
    """An operation, None to end, and who waits for its txid to be durable."""

    op: EditOp | None
    done: Future[int]


class AsyncEditLog:
    """Queues operations for `writer`, which others may go on to use, and which its owner closes.

    Operations get their txids in the order in which they were queued. They are synced whenever the queue runs dry,
    and at the latest when `pending` of them wait for it.

    Args:
        pending: operations that may be queued before `submit` waits.
    """

    def __init__(self, writer: EditLogWriter, *, pending: int = PENDING_EDITS) -> None:
        self._writer = writer
        self._pending = pending
        self._queue: queue.Queue[_Edit] = queue.Queue(pending)
        self._guard = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="async-edit-log", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, op: EditOp) -> Future[int]:
        """Queue `op`, waiting while the queue is full; the future gives its txid once that is durable.

        Until then it may be cancelled as long as it was not written. Callbacks run in the thread that writes, so
        they hold up the log. The future's errors are those of `EditLogWriter.write` and `sync`.

        Raises:
            JournalStorageError: the log is closed.
        """
        edit = _Edit(op, Future())
        with self._guard:
            if self._closed:
                problem, hint = "the edit log is closed", "Open a new one."
                raise JournalStorageError(problem, txid=self._writer.last_txid, hint=hint)
            self._queue.put(edit)
        return edit.done

    def close(self) -> None:
        """Take no more, wait until all that was queued is durable or has failed. A second call does nothing."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(_Edit(None, Future()))
        self._thread.join()

    # ---- the thread ----

    def _run(self) -> None:
        written: list[tuple[Future[int], int]] = []
        while True:
            edit = self._next(wait=not written)
            if edit is not None and edit.op is not None:
                self._write(edit.op, edit.done, written)
                if len(written) < self._pending:
                    continue
            self._sync(written)
            written.clear()
            if edit is not None and edit.op is None:
                return

    def _next(self, *, wait: bool) -> _Edit | None:
        """The next edit; None where the queue has run dry and somebody waits for a sync."""
        try:
            return self._queue.get(block=wait)
        except queue.Empty:
            return None

    def _write(self, op: EditOp, done: Future[int], written: list[tuple[Future[int], int]]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            written.append((done, self._writer.write(op)))
        except Exception as error:
            done.set_exception(error)

    def _sync(self, written: list[tuple[Future[int], int]]) -> None:
        if not written:
            return
        try:
            self._writer.sync(written[-1][1])
        except Exception as error:
            durable = self._writer.durable_txid
            for done, txid in written:
                if txid <= durable:
                    done.set_result(txid)
                else:
                    done.set_exception(error)
        else:
            for done, txid in written:
                done.set_result(txid)
