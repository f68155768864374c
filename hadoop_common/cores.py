"""The number of usable cores."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Return the number of cores the process is allowed to run on, at least 1."""
    return len(os.sched_getaffinity(0))
