"""How many cores this process may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Cores that the process is allowed to run on, at least 1."""
    return len(os.sched_getaffinity(0))
