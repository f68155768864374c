"""Detects the progress of a demo's processes from changed files and used CPU time.

A demo waits for states and has no deadlines, so it also works on slow machines. Only a minute without progress is a
failure. A process that only polls others is idle: it uses a second or two of CPU time per minute.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SILENCE_SECONDS = 60.0
# CPU seconds that an idle process does not use within SILENCE_SECONDS
_WORK_SECONDS = 4.0
# interval of checks
_CHECK_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class ProgressWatch:
    """Monitor that measures the time without progress in a folder and a set of processes.

    Time counts only while the demo runs, not while the machine is suspended.

    Attributes:
        processes: returns their ids; called for each check.
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
        """Return the seconds since the last progress."""
        now = self.clock()
        passed = now - self._looked_at
        if passed < _CHECK_SECONDS:
            return self._seconds
        self._looked_at = now
        self._seconds += min(passed, 2 * _CHECK_SECONDS)
        files, spent = _changes(self.folder), _spent(self.processes())
        worked = sum(seconds - self._spent.get(process, 0.0) for process, seconds in spent.items())
        if files != self._files or worked > _WORK_SECONDS or spent.keys() - self._spent.keys():
            self._seconds, self._files, self._spent = 0.0, files, spent
        return self._seconds


def _changes(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and modification time of each file below `folder`."""
    found = {}
    for directory, _, names in os.walk(folder):
        for path in (Path(directory, name) for name in names):
            with suppress(FileNotFoundError):
                status = path.stat()
                found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def _spent(processes: Iterable[int]) -> dict[int, float]:
    """Return the CPU seconds of each process and its descendants."""
    known = {int(entry.name): entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    seconds: dict[int, float] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for process, entry in known.items():
        with suppress(OSError):
            # the name in parentheses may contain spaces
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
