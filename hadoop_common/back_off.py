"""Exponential back-off after consecutive failures."""

from __future__ import annotations

from dataclasses import dataclass

# far beyond any limit, and safe from overflow
_MAX_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits `first` seconds after a failure, and twice as long after each further failure, at most `longest`."""

    first: float
    longest: float

    def wait(self, failures: int) -> float:
        """Return the seconds to wait after `failures` (1 or more) in a row."""
        return min(self.longest, self.first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
