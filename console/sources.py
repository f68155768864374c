"""What a program provides for its page, and a short-lived cache in front of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from console.model import NodePage, Panel
from console.process_panels import process_panels

T = TypeVar("T")

Panels = Callable[[], Sequence[Panel]]
PageSource = Callable[[], "NodePage | Sequence[Panel]"]


def _none() -> Sequence[Panel]:
    return ()


@dataclass(frozen=True, slots=True)
class ConsoleSources:
    """What the page is made of; each function may be called from any thread, and only while somebody looks.

    Attributes:
        overview: the answer of GET /status, or the page itself.
        panels: further panels for every reader; `private_panels`: for administrators.
        pages: further pages by name, each with its title.
        silence_address: where administrators silence an alarm, "" if they cannot.
    """

    overview: Callable[[], Mapping[str, Any] | NodePage]
    panels: Panels = _none
    private_panels: Panels = process_panels
    pages: Mapping[str, tuple[str, PageSource]] = field(default_factory=dict)
    silence_address: str = ""


class BriefCache(Generic[T]):
    """Values that are made again after `seconds`; callers of one key wait for one maker.

    Args:
        most: keys that are kept.
    """

    def __init__(self, seconds: float, *, most: int = 16, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._values: dict[object, tuple[float, T]] = {}

    def get(self, key: object, make: Callable[[], T]) -> T:
        """Return the value of `key`, from `make` if the last one is too old."""
        with self._lock:
            known = self._values.get(key)
            if known is not None and self._clock() - known[0] < self._seconds:
                return known[1]
            value = make()
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[key] = (self._clock(), value)
            return value
