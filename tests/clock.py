"""Clocks that only a test moves."""

from __future__ import annotations


class Clock:
    """A clock in seconds, read by a call."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class SleepingClock(Clock):
    """A clock that moves when code sleeps; each sleep overshoots by `overshoot` seconds.

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
