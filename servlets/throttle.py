"""A bandwidth limit that any number of transfers may share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["UNLIMITED", "Throttle"]

UNLIMITED = 0

# unused credit older than this is lost, so that a pause is not followed by a flood
_CREDIT_SECONDS = 0.25
# a waiting transfer looks this often whether it was cancelled
_SLICE_SECONDS = 0.25


class Throttle:
    """Token bucket over a clock: delays callers so that all together stay at `bytes_per_second` (0 = off).

    `count` is told the size of each chunk, limited or not (`TransferCounter.add_sent`).

    Each caller books its bytes at the end of the schedule and sleeps until its turn, so the long-run rate is
    exact whatever the sizes are and however long a sleep overshoots.
    """

    def __init__(
        self,
        bytes_per_second: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        count: Callable[[int], None] | None = None,
    ) -> None:
        if bytes_per_second < 0:
            raise ValueError(f"bytes_per_second must be 0 (off) or more, not {bytes_per_second}")
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._count = count
        self._lock = threading.Lock()
        self._booked_until = clock()
        self._changes = 0

    def change(self, bytes_per_second: int) -> None:
        """Go by another limit at once; who waits for its turn under the old one goes on now."""
        with self._lock:
            self.bytes_per_second = bytes_per_second
            self._booked_until = self._clock()
            self._changes += 1

    def acquire(self, count: int, cancelled: Callable[[], bool] | None = None) -> None:
        """Wait until `count` more bytes fit the limit; returns early once `cancelled()` is true."""
        if self._count is not None:
            self._count(count)
        if self.bytes_per_second == UNLIMITED:
            return
        with self._lock:
            # The limit may have been lifted meanwhile.
            if self.bytes_per_second == UNLIMITED:
                return
            changes = self._changes
            start = max(self._booked_until, self._clock() - _CREDIT_SECONDS)
            self._booked_until = due = start + count / self.bytes_per_second
        while (wait := due - self._clock()) > 0:
            if changes != self._changes or (cancelled is not None and cancelled()):
                return
            self._sleep(min(wait, _SLICE_SECONDS))
