"""A gate between the thread that changes a namespace and the threads that read it.

Only one thread at a time holds the gate. A thread that changes the namespace enters before all waiting readers, so it
waits for at most one reader. Readers enter in order of arrival. A reader holds the gate for a short batch of work and
calls `pause` between batches, so that short reads can overtake a long read. A thread that leaves wakes only the next
thread and passes the gate on to it.

While an image is loaded or saved, the gate is occupied: no reader can enter for seconds. Readers wait during this time
instead of being refused. Refused clients would repeat their requests immediately, and consume CPU time that the
checkpoint needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.errors import NamespaceBusyError


class _WaitingThread:
    """Thread that waits to enter; `entered` is released once the thread holds the gate."""

    def __init__(self, is_ready: Callable[[], bool] = lambda: True) -> None:
        self.is_ready = is_ready
        self.thread = threading.get_ident()
        self.entered = threading.Lock()
        self.entered.acquire()


_Queue = dict[_WaitingThread, None]


class ReadGate:
    """Gate of one namespace; the thread that holds the gate may nest `changing`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: int | None = None
        self._depth = 0
        # waiting threads, in order of arrival
        self._changes: _Queue = {}
        self._readers: _Queue = {}
        self._unoccupied = threading.Event()
        self._unoccupied.set()

    # ---- long changes --------------------------------------------------------------------------------------

    @contextmanager
    def occupying(self) -> Iterator[None]:
        """Announce changes that take a long time."""
        self._unoccupied.clear()
        try:
            yield
        finally:
            self._unoccupied.set()

    @property
    def occupied(self) -> bool:
        """Whether an image is being loaded or saved, which makes readers wait for a long time."""
        return not self._unoccupied.is_set()

    def wait_while_occupied(self, timeout: float) -> bool:
        """Wait for at most `timeout` seconds while the gate is occupied; return whether it is free."""
        return self._unoccupied.wait(timeout)

    # ---- changes and reads ---------------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the gate for a change, after the current reader has left."""
        if self._inside != threading.get_ident():
            self._enter(self._changes, _WaitingThread(), threading.TIMEOUT_MAX)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                with self._lock:
                    self._leave()

    @contextmanager
    def reading(self, is_ready: Callable[[], bool], timeout: float) -> Iterator[None]:
        """Hold the gate for reading, once `is_ready` returns True; waiting changes come first.

        Args:
            is_ready: called under the lock of the gate when a thread enters or leaves; it must not block.
            timeout: longest wait in seconds.

        Raises:
            NamespaceBusyError: the time limit passed.
        """
        self._enter(self._readers, _WaitingThread(is_ready), timeout)
        try:
            yield
        finally:
            with self._lock:
                # a failed pause has already left the gate
                if self._inside == threading.get_ident():
                    self._leave()

    def pause(self, is_ready: Callable[[], bool], timeout: float) -> None:
        """Leave the gate, and re-enter after the threads that are waiting now; called within `reading`.

        Raises:
            NamespaceBusyError: the time limit passed; the thread no longer holds the gate.
        """
        with self._lock:
            if self._next() is None:
                return
            self._leave()
        self._enter(self._readers, _WaitingThread(is_ready), timeout)

    def _enter(self, queue: _Queue, waiting: _WaitingThread, timeout: float) -> None:
        with self._lock:
            if self._inside is None and waiting.is_ready():
                self._inside = waiting.thread
                return
            queue[waiting] = None
        ended = False
        try:
            waiting.entered.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))
            ended = True
        finally:
            with self._lock:
                is_inside = waiting not in queue
                queue.pop(waiting, None)
                if is_inside and not ended:
                    self._leave()
        if not is_inside:
            raise NamespaceBusyError(timeout)

    def _leave(self) -> None:
        """Admit the next thread; the caller holds the lock."""
        found = self._next()
        if found is None:
            self._inside = None
            return
        queue, waiting = found
        del queue[waiting]
        self._inside = waiting.thread
        waiting.entered.release()

    def _next(self) -> tuple[_Queue, _WaitingThread] | None:
        """Return the waiting thread that enters next, with its queue; the caller holds the lock."""
        for queue in (self._changes, self._readers):
            for waiting in queue:
                if waiting.is_ready():
                    return queue, waiting
        return None
