"""Waits that grow with each failure in a row."""

from __future__ import annotations

from dataclasses import dataclass

# far beyond any limit, and no overflow
_MOST_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class BackOff:
    """`first` seconds after a failure, twice as long after each further one, at most `longest`."""

    first: float
    longest: float

    def wait(self, failures: int) -> float:
        """Seconds to wait after `failures` in a row, 1 or more."""
        return min(self.longest, self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
