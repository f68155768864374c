"""The bandwidth limit of transfers of images and segments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

UNLIMITED = 0

# seconds of unused credit; older credit expires, so that no burst follows a stall
_CREDIT_SECONDS = 1.0
# the same limit for callers outside `transfer`, which may have been idle
_IDLE_CREDIT_SECONDS = 0.25
# interval at which a waiting transfer checks for cancellation
_SLICE_SECONDS = 0.25
# maximum time of one piece of a limited transfer, so that bytes flow evenly
_PIECE_SECONDS = 0.05
_MIN_PIECE = 4096


class Throttle:
    """Token bucket that delays callers to limit their total rate to `bytes_per_second` (0 = off).

    `count` receives the size of each piece, limited or not (`TransferCounter.add_sent`).

    Each caller books its bytes at the end of the schedule and sleeps until its turn. Therefore, the long-term rate is
    exact for any sizes, even if callers oversleep. Idle time outside `transfer` earns no credit; within `transfer`, the
    throttle compensates for up to 1 s of a stall.
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
        self._last_seconds = 0.0
        self._changes = 0
        self._running = 0

    def change(self, bytes_per_second: int) -> None:
        """Change the limit; callers that wait under the old limit continue immediately."""
        with self._lock:
            self.bytes_per_second = bytes_per_second
            self._booked_until = self._clock()
            self._changes += 1

    @contextmanager
    def transfer(self) -> Iterator[None]:
        """Mark a running transfer; several transfers may run at the same time."""
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._booked_until = max(self._booked_until, self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def piece(self, most: int, least: int = _MIN_PIECE) -> int:
        """Return the number of bytes to move between two calls of `acquire`: `most`, or fewer under a low limit."""
        rate = self.bytes_per_second
        if rate == UNLIMITED:
            return most
        return min(most, max(least, int(rate * _PIECE_SECONDS)))

    def acquire(self, count: int, cancelled: Callable[[], bool] | None = None) -> None:
        """Wait until `count` more bytes fit the limit; return early once `cancelled()` is true."""
        if self._count is not None:
            self._count(count)
        if self.bytes_per_second == UNLIMITED:
            return
        with self._lock:
            # the limit may have been lifted in the meantime
            if self.bytes_per_second == UNLIMITED:
                return
            changes = self._changes
            self._last_seconds, last = count / self.bytes_per_second, self._last_seconds
            # the transfer of the previous piece may last for all of its booked time; this is not a stall
            credit = _CREDIT_SECONDS if self._running else _IDLE_CREDIT_SECONDS
            if (now := self._clock()) - self._booked_until > last + credit:
                self._booked_until = now - credit
            self._booked_until = due = self._booked_until + self._last_seconds
        while (wait := due - self._clock()) > 0:
            if changes != self._changes or (cancelled is not None and cancelled()):
                return
            self._sleep(min(wait, _SLICE_SECONDS))
