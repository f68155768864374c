"""Bookies that did not answer recently; the other replicas of an entry are read first.

A bookie that hangs delays each waiting request by `LedgerLimits.speculative` seconds. After such a timeout, readers
therefore ask this bookie last for 30 seconds. Each further consecutive timeout doubles this time, up to ten minutes.
Afterwards, readers ask the bookie in the normal order again, and one timely response clears its record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hadoop_common.back_off import BackOff

_BACK_OFF = BackOff(30.0, 600.0)


class SlowBookies:
    """The slow bookies, with the time until which each is asked last; thread-safe.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}

    def ordered(self, bookies: Sequence[str]) -> list[str]:
        """Return the bookies in their given order, but with slow bookies at the end."""
        now = self._clock()
        return sorted(bookies, key=lambda bookie: self._is_slow(bookie, now))

    def silent(self, bookie: str) -> None:
        """Record that a bookie did not answer in time, or not at all."""
        failures, until = self._failures.get(bookie, (0, 0.0))
        now = self._clock()
        # Requests that were sent together fail together and count as one failure.
        if now >= until:
            self._failures[bookie] = failures + 1, now + _BACK_OFF.wait(failures + 1)

    def answered(self, bookie: str) -> None:
        self._failures.pop(bookie, None)

    def _is_slow(self, bookie: str, now: float) -> bool:
        known = self._failures.get(bookie)
        return known is not None and now < known[1]
