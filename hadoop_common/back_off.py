"""Exponential back-off after consecutive failures."""

from __future__ import annotations

from dataclasses import dataclass

# far beyond any limit, and safe from overflow
_MAX_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class BackOff:
    """Delays after failures: `first` seconds, doubled after each further failure, up to `longest`."""

    first: float
    longest: float

    def wait(self, failures: int) -> float:
        """Return the delay in seconds after `failures` (1 or more) consecutive failures."""
        return min(self.longest, self.first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
