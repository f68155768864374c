"""Detection of a host clock that was set back. The scheduler uses this clock, so jobs would not run until it has caught
up.
"""

from __future__ import annotations

from collections.abc import Callable

# NTP slews a clock by less than this between two observations
_TOLERANCE_SECONDS = 1.0


class WallClockWatch:
    """Comparison of the host's clock with a monotonic clock.

    Args:
        monotonic: monotonic seconds.
        wall: seconds since the epoch.
    """

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._difference = wall() - monotonic()

    def set_back(self) -> float:
        """Return the number of seconds by which the clock was set back since the last call, or 0 if it was not."""
        before, self._difference = self._difference, self._wall() - self._monotonic()
        seconds = before - self._difference
        return seconds if seconds > _TOLERANCE_SECONDS else 0.0
