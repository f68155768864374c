"""Tuning of a process: usable cores, thread priority, garbage collection."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def available_cores() -> int:
    """Return the number of cores the process is allowed to run on, at least 1."""
    return len(os.sched_getaffinity(0))


_NICE = 10


def lower_thread_priority() -> None:
    """Lower the priority of the calling thread for good: it gets idle cores, otherwise about a tenth of one.

    Only on Linux, since elsewhere niceness belongs to the process (nice(2)). If that is forbidden, the priority stays.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.nice(_NICE)


def collect_garbage_rarely() -> None:
    """Run the garbage collector only after very many allocations.

    With the defaults, the collector repeatedly walks all imported objects: a fifth of a merge with few edits, a
    twentieth of a replay of snapshots.
    """
    gc.set_threshold(100_000, 20, 100)
