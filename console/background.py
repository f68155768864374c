"""Work that a page requests and must not wait for: one run at a time, with a minimum interval."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hadoop_common.file_faults import error_text

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackgroundResult(Generic[T]):
    """The last result; `at` is in seconds since the epoch, None before the first. `fault` explains a missing result."""

    at: float | None = None
    value: T | None = None
    fault: str = ""


class BackgroundWork(Generic[T]):
    """Runner of `work` in a thread, when its result is requested and is older than `seconds`."""

    def __init__(self, name: str, work: Callable[[], T], seconds: float, wall: Callable[[], float] = time.time) -> None:
        self._name = name
        self._work = work
        self._seconds = seconds
        self._wall = wall
        self._lock = threading.Lock()
        self._running = False
        self._result: BackgroundResult[T] = BackgroundResult()

    def result(self) -> BackgroundResult[T]:
        """Return the last result, and begin a run if it is too old and none is running."""
        with self._lock:
            result = self._result
            # the host's clock may have been set back since then
            due = result.at is None or not 0 <= self._wall() - result.at < self._seconds
            begins, self._running = due and not self._running, self._running or due
        if begins:
            self._start()
        return result

    def last(self) -> BackgroundResult[T]:
        with self._lock:
            return self._result

    @property
    def running(self) -> bool:
        with self._lock:
            return self._running

    def begin(self) -> bool:
        """Begin a run now; return False if one is running."""
        with self._lock:
            if self._running:
                return False
            self._running = True
        self._start()
        return True

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name=f"console-{self._name}", daemon=True).start()
        except BaseException:
            # the system allows no more threads now
            with self._lock:
                self._running = False
            raise

    def _run(self) -> None:
        value, fault = None, ""
        try:
            value = self._work()
        except Exception as error:
            fault = error_text(error)
            _LOG.debug("the console's %s failed", self._name, exc_info=error)
        with self._lock:
            self._running = False
            self._result = BackgroundResult(self._wall(), value, fault)
