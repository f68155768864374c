"""A cache of users' groups (org.apache.hadoop.security.Groups)."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_USERS: Final = 10_000


class GroupCache:
    """Cache of the groups of at most `MAX_USERS` users; thread-safe.

    Args:
        groups_of: returns the groups of a user, possibly after a wait for a directory service.
        seconds: time for which groups are cached.
        clock: monotonic seconds.
    """

    def __init__(
        self, groups_of: Callable[[str], frozenset[str]], seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups_of = groups_of
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    def of(self, user: str) -> frozenset[str]:
        now = self._clock()
        with self._lock:
            kept = self._kept.get(user)
        if kept is not None and now < kept[0]:
            return kept[1]
        groups = self._groups_of(user)
        with self._lock:
            self._kept[user] = now + self._seconds, groups
            self._kept.move_to_end(user)
            while len(self._kept) > MAX_USERS:
                self._kept.popitem(last=False)
        return groups
