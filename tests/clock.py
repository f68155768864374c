"""Clocks that only a test advances."""

from __future__ import annotations


class Clock:
    """A clock that returns seconds when it is called."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class SleepingClock(Clock):
    """A clock that advances when code sleeps; each sleep is longer by `overshoot` seconds.

    Attributes:
        sleeps: number of sleeps.
    """

    def __init__(self, overshoot: float = 0.0) -> None:
        super().__init__(1000.0)
        self.overshoot = overshoot
        self.sleeps = 0

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.sleeps += 1
        self.now += seconds + self.overshoot
