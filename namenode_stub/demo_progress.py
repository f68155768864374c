"""Signs of progress of a demo's processes: files that change, and processor time that is spent.

A demo waits for states and has no deadline for work: however slow the machine is, what works is waited for. Only a
minute in which nothing happens is a fault. A process that polls others is idle: it spends a second or two of processor
time in a minute.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SILENCE_SECONDS = 60.0
# processor time that an idle process does not spend in that time
_WORK_SECONDS = 4.0
# between two searches for signs
_LOOK_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Silence:
    """How long nothing has happened in a folder and a set of processes.

    Seconds count only while the demo itself runs: a machine that stands still is not silent.

    Attributes:
        processes: their ids, asked for each time.
        clock: monotonic seconds.
    """

    folder: Path
    processes: Callable[[], Iterable[int]]
    clock: Callable[[], float]
    _seconds: float = 0.0
    _looked_at: float = field(init=False)
    _files: dict[str, tuple[int, int]] = field(init=False)
    _spent: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self._looked_at = self.clock()
        self._files = _changes(self.folder)
        self._spent = _spent(self.processes())

    def seconds(self) -> float:
        """Seconds since the last sign of progress."""
        now = self.clock()
        passed = now - self._looked_at
        if passed < _LOOK_SECONDS:
            return self._seconds
        self._looked_at = now
        self._seconds += min(passed, 2 * _LOOK_SECONDS)
        files, spent = _changes(self.folder), _spent(self.processes())
        worked = sum(seconds - self._spent.get(process, 0.0) for process, seconds in spent.items())
        if files != self._files or worked > _WORK_SECONDS or spent.keys() - self._spent.keys():
            self._seconds, self._files, self._spent = 0.0, files, spent
        return self._seconds


def _changes(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of each file below `folder`."""
    found = {}
    for directory, _, names in os.walk(folder):
        for path in (Path(directory, name) for name in names):
            with suppress(FileNotFoundError):
                status = path.stat()
                found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def _spent(processes: Iterable[int]) -> dict[int, float]:
    """Seconds of processor time of each of the processes, and of what they started."""
    known = {int(entry.name): entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    seconds: dict[int, float] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for process, entry in known.items():
        with suppress(OSError):
            # the name in parentheses may contain blanks
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            children[int(words[1])].append(process)
            seconds[process] = (int(words[11]) + int(words[12])) / _TICKS
    found: dict[int, float] = {}
    waiting = list(processes)
    while waiting:
        process = waiting.pop()
        if process in seconds:
            found[process] = seconds[process]
            waiting += children[process]
    return found
