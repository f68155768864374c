"""Background work for pages that must not wait for it: one run at a time, with a minimum interval."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hadoop_common.file_faults import as_hdfs_error, error_text

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackgroundResult(Generic[T]):
    """Last result; `at` is in seconds since the epoch, or None before the first run. `fault` explains a missing result,
    and `next_step` is the step to take, "" if unknown.
    """

    at: float | None = None
    value: T | None = None
    fault: str = ""
    next_step: str = ""


class BackgroundWork(Generic[T]):
    """Runner of `work` in a thread; a request for the result starts a run if the last run is older than `seconds`."""

    def __init__(self, name: str, work: Callable[[], T], seconds: float, wall: Callable[[], float] = time.time) -> None:
        self._name = name
        self._work = work
        self._seconds = seconds
        self._wall = wall
        self._lock = threading.Lock()
        self._running = False
        self._result: BackgroundResult[T] = BackgroundResult()

    def result(self) -> BackgroundResult[T]:
        """Return the last result; if it is too old, start a new run unless one is already active."""
        with self._lock:
            result = self._result
            # the host's clock may have been set back since the last run
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
        """Start a run now; return False if a run is already active."""
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
            # the system currently allows no more threads
            with self._lock:
                self._running = False
            raise

    def _run(self) -> None:
        value, fault, next_step = None, "", ""
        try:
            value = self._work()
        except Exception as error:
            known = as_hdfs_error(error)
            fault, next_step = error_text(error), "" if known is None else known.hint
            _LOG.debug("the console's %s failed", self._name, exc_info=error)
        with self._lock:
            self._running = False
            self._result = BackgroundResult(self._wall(), value, fault, next_step)
