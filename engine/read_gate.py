"""A gate between the thread that changes a namespace and the threads that read it.

One thread at a time is inside. A thread that wants to change the namespace enters before all waiting readers, so it
waits for one reader at most. Readers enter in the order in which they came. They stay inside for a short batch of work,
and `pause` in between, so that a long read lets short ones pass.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.errors import NamespaceBusyError


class ReadGate:
    """The gate of one namespace. `changing` may be nested by the thread that holds it.

    Attributes:
        changes_waiting: number of threads that wait to change the namespace.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside: int | None = None
        self._depth = 0
        # in the order in which they came
        self._readers: dict[object, Callable[[], bool]] = {}
        self.changes_waiting = 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the gate for a change; wait for the reader inside."""
        me = threading.get_ident()
        with self._condition:
            if self._inside != me:
                self.changes_waiting += 1
                try:
                    self._condition.wait_for(lambda: self._inside is None)
                finally:
                    self.changes_waiting -= 1
                self._inside = me
            self._depth += 1
        try:
            yield
        finally:
            with self._condition:
                self._depth -= 1
                if not self._depth:
                    self._leave()

    @contextmanager
    def reading(self, is_ready: Callable[[], bool], timeout: float) -> Iterator[None]:
        """Hold the gate for reading, once `is_ready` returns True; waiting changes come first.

        Args:
            is_ready: called under the lock of the gate; it must not block.
            timeout: longest wait in seconds.

        Raises:
            NamespaceBusyError: the time limit passed.
        """
        self._enter(is_ready, timeout)
        try:
            yield
        finally:
            with self._condition:
                # a pause that failed has left already
                if self._inside == threading.get_ident():
                    self._leave()

    def pause(self, is_ready: Callable[[], bool], timeout: float) -> None:
        """Let all others that wait enter, in the middle of `reading`.

        Raises:
            NamespaceBusyError: the time limit passed; the thread does not hold the gate any more.
        """
        with self._condition:
            if not self.changes_waiting and not any(is_other_ready() for is_other_ready in self._readers.values()):
                return
            self._leave()
        self._enter(is_ready, timeout)

    def _enter(self, is_ready: Callable[[], bool], timeout: float) -> None:
        deadline, ticket = time.monotonic() + timeout, object()

        def is_next() -> bool:
            if self._inside is not None or self.changes_waiting:
                return False
            return next((each for each, is_ready in self._readers.items() if is_ready()), None) is ticket

        with self._condition:
            self._readers[ticket] = is_ready
            try:
                left = max(0.0, deadline - time.monotonic())
                if not self._condition.wait_for(is_next, min(left, threading.TIMEOUT_MAX)):
                    raise NamespaceBusyError(timeout)
                self._inside = threading.get_ident()
            finally:
                del self._readers[ticket]

    def _leave(self) -> None:
        self._inside = None
        self._condition.notify_all()
