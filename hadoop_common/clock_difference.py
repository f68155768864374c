"""The difference between another host's clock and this host's clock."""

from __future__ import annotations

from typing import Final

from hadoop_common.quantities import duration

CLOCK_TOLERANCE: Final = 60.0
"""Largest usual difference in seconds."""


def difference_text(ahead: float) -> str:
    """Describe a clock that is `ahead` seconds ahead of this host's clock: "2 h 0 min ahead of this host's clock"."""
    return f"{duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this host's clock"
