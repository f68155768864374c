"""Process settings: usable cores, thread priority, garbage collection."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import Final


def available_cores() -> int:
    """Return the number of cores the process is allowed to run on, at least 1."""
    return len(os.sched_getaffinity(0))


_NICE = 10
LARGE_WORK: Final = 64 << 20
"""Size in bytes below which work may run in Python and hold the interpreter lock while other threads wait for it."""


def lower_thread_priority(work: int) -> None:
    """Lower the priority of the calling thread permanently: the thread uses idle cores, or else a tenth of a core.

    On Linux, niceness applies to a thread, not to the process (nice(2)). If the change is forbidden, the priority does
    not change.

    Args:
        work: size in bytes of the data on which the thread works; below `LARGE_WORK`, the priority does not change.
    """
    if work >= LARGE_WORK:
        with suppress(OSError):
            os.nice(_NICE)


def lower_session_priority(leader: int, niceness: int) -> None:
    """Lower the priority of the session that a process leads, as `niceness` lowers the priority of a single process.

    With `kernel.sched_autogroup_enabled`, Debian's default, Linux first divides the cores among sessions; niceness
    applies only among the processes of one session (sched(7)). If the system has no such groups, nothing changes. If
    the process does not lead a session, it shares its caller's session, whose priority does not change.

    Args:
        leader: id of the process.
    """
    with suppress(OSError):
        if os.getsid(leader) == leader:
            Path(f"/proc/{leader}/autogroup").write_text(str(niceness))


def collect_garbage_rarely() -> None:
    """Run the garbage collector only after very many allocations.

    With the defaults, the collector repeatedly visits all imported objects. These visits take a fifth of the time of a
    merge with few edits, and a twentieth of the time of a replay of snapshots.
    """
    gc.set_threshold(100_000, 20, 100)
