"""A work queue in which peers, and the connections of each peer, take turns."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A thread-safe queue that is fair to peers.

    At most `share` items of one peer are processed at the same time, so that slow calls from one peer do not delay
    other peers.
    """

    def __init__(self, share: int) -> None:
        self._share = share
        self._changed = threading.Condition()
        self._waiting: dict[str, dict[Hashable, deque[T]]] = {}
        self._running: Counter[str] = Counter()
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return sum(len(items) for lines in self._waiting.values() for items in lines.values())

    def put(self, peer: str, line: Hashable, item: T) -> bool:
        """Queue `item` in `line` of `peer`; return False if the queue is closed."""
        with self._changed:
            if self._closed:
                return False
            self._waiting.setdefault(peer, {}).setdefault(line, deque()).append(item)
            self._changed.notify()
            return True

    def get(self) -> tuple[str, T] | None:
        """Wait for the next item; return it with the peer to pass to `done`, or None if the queue is closed."""
        with self._changed:
            while not self._closed:
                for peer in self._waiting:
                    if self._running[peer] < self._share:
                        self._running[peer] += 1
                        return peer, self._next(peer)
                self._changed.wait()
            return None

    def done(self, peer: str) -> None:
        """Record that an item of `peer` was processed."""
        with self._changed:
            self._running[peer] -= 1
            if not self._running[peer]:
                del self._running[peer]
            self._changed.notify()

    def close(self) -> list[T]:
        """End every `get`; return the items that were still waiting."""
        with self._changed:
            self._closed = True
            left = [item for lines in self._waiting.values() for items in lines.values() for item in items]
            self._waiting.clear()
            self._changed.notify_all()
            return left

    def _next(self, peer: str) -> T:
        """Remove and return the first item of the peer's first line; move the line and the peer to the end."""
        lines = self._waiting.pop(peer)
        line = next(iter(lines))
        items = lines.pop(line)
        item = items.popleft()
        if items:
            lines[line] = items
        if lines:
            self._waiting[peer] = lines
        return item
