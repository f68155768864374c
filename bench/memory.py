"""Peak memory of child processes."""

from __future__ import annotations

import re
import resource
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_POLL_SECONDS = 0.005
_TREE_POLL_SECONDS = 0.2
_PAGE = resource.getpagesize()
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """Result of a command: its output, wall seconds, and the peak bytes of one of its Java processes."""

    output: str
    seconds: float
    java_bytes: int


def peak_resident(pid: int) -> int:
    """Return the peak resident memory of a process in bytes; 0 if it has ended."""
    try:
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


class Sampler(threading.Thread):
    """Sampler of a process's anonymous memory."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="memory-sampler", daemon=True)
        self._pid = pid
        self._end = threading.Event()
        self._samples: list[tuple[float, int]] = []
        self.resident = 0

    def run(self) -> None:
        path = Path(f"/proc/{self._pid}/statm")
        while not self._end.wait(_POLL_SECONDS):
            try:
                pages = path.read_text().split()
            except OSError:
                return
            self._samples.append((time.monotonic(), (int(pages[1]) - int(pages[2])) * _PAGE))
            self.resident = max(self.resident, peak_resident(self._pid))

    def stop(self) -> None:
        self._end.set()
        self.join()

    def peak(self, start: float, end: float) -> int:
        """Return the peak between two times of the monotonic clock."""
        return max((size for at, size in self._samples if start <= at <= end), default=0)


def run_watched(command: list[str]) -> Watched:
    """Run a command that starts Java as a child.

    Raises:
        subprocess.CalledProcessError: the command failed; `stderr` contains its error output.
    """
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        peak = 0
        while True:
            try:
                output, error_output = child.communicate(timeout=_TREE_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, java_peak(child.pid))
        seconds = time.perf_counter() - started
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, output, error_output)
    return Watched(output, seconds, peak)


def java_peak(pid: int) -> int:
    """Return the peak resident memory in bytes of the largest Java process below a process; 0 if there is none."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        return max((peak_resident(each.pid) for each in children if each.name() == "java"), default=0)
    except psutil.NoSuchProcess:
        return 0
