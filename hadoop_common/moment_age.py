"""Ages that a step of the host's clock does not make too small."""

from __future__ import annotations

import math
from collections.abc import Callable


class MomentAge:
    """Age of the latest of several moments, such as the times of images.

    A monotonic clock also measures the age from the first observation on, because a moment is in the future if the
    host's clock was set back after that moment.

    Args:
        monotonic: monotonic seconds.
        wall: seconds since the epoch.
    """

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wall = wall
        # the latest moment, and the monotonic time of its first observation
        self._latest = (-math.inf, 0.0)

    def now(self) -> float:
        """Observe and return the present moment, in seconds since the epoch."""
        moment = self._wall()
        self._latest = moment, self._monotonic()
        return moment

    def of(self, moment: float) -> float:
        """Return the age of a moment in seconds; the moment is in seconds since the epoch."""
        latest, seen = self._latest
        if moment != latest:
            seen = self._monotonic()
            self._latest = moment, seen
        return max(self._wall() - moment, self._monotonic() - seen)
