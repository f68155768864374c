"""The content that a program provides for its page, and a short-lived cache of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from console.model import ConsoleAction, NodePage, Panel
from console.process_panels import process_panels
from node_state.report_folder import KeptReport

T = TypeVar("T")
_MAX_KEYS: Final = 16

Panels = Callable[[], Sequence[Panel]]
PageSource = Callable[[], "NodePage | Sequence[Panel]"]


@dataclass(frozen=True, slots=True)
class ConsoleSources:
    """Sources of a page's content; any thread may call the functions, but only while a browser shows the page.

    Attributes:
        overview: the response of GET /status, or the page itself.
        panels: further panels for every reader; `private_panels`: for administrators.
        pages: further pages by name, each with its title.
        reports: the daily reports, the newest first, for administrators; this function does not read files.
        actions: all actions, for administrators.
    """

    overview: Callable[[], Mapping[str, Any] | NodePage]
    panels: Panels = lambda: ()
    private_panels: Panels = process_panels
    pages: Mapping[str, tuple[str, PageSource]] = field(default_factory=dict)
    actions: Sequence[ConsoleAction] = ()
    reports: Callable[[], Sequence[KeptReport]] = tuple


class BriefCache(Generic[T]):
    """Cache of values that are recomputed after `seconds`, each by one caller at a time.

    During the computation, other callers of the key receive its last value if the value is younger than `stale`
    seconds. Otherwise they wait for the computation for at most `patience` seconds, and receive its error if it fails.
    """

    def __init__(
        self, seconds: float, *, stale: float = 10.0, patience: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._stale = stale
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._values: dict[object, tuple[float, T]] = {}
        self._making: dict[object, Future[T]] = {}

    def get(self, key: object, make: Callable[[], T]) -> T | None:
        """Return the value of `key`, recomputed if it is too old; None if another caller takes too long."""
        with self._lock:
            known, making = self._values.get(key), self._making.get(key)
            if known is not None:
                age = self._clock() - known[0]
                if age < self._seconds or (making is not None and age < self._stale):
                    return known[1]
            if making is None:
                mine = self._making[key] = Future()
        if making is not None:
            return making.result() if wait((making,), self._patience).done else None
        return self._make(key, make, mine)

    def _make(self, key: object, make: Callable[[], T], future: Future[T]) -> T:
        try:
            value = make()
        except BaseException as fault:
            with self._lock:
                del self._making[key]
            future.set_exception(fault)
            raise
        with self._lock:
            del self._making[key]
            if len(self._values) >= _MAX_KEYS:
                self._values.clear()
            self._values[key] = (self._clock(), value)
        future.set_result(value)
        return value
