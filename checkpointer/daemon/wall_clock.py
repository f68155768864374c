"""Steps of the host's clock, on which the scheduler depends.

If the clock is set back, jobs would not run until it has caught up. If the clock is set forward, each job has missed
all its runs in between.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.triggers.interval import IntervalTrigger

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


class PresentInterval(IntervalTrigger):  # type: ignore[misc]
    """Trigger of a job that runs at an interval and skips missed runs.

    APScheduler lists every missed run before it merges them into one run. After a clock was set forward by years, this
    list would occupy gigabytes.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds=seconds, timezone=UTC)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        following: datetime = super().get_next_fire_time(previous_fire_time, now)
        return following if following > now else now + self.interval
