"""Peak memory of child processes."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_POLL_SECONDS = 0.005
_TREE_POLL_SECONDS = 0.2
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


def run_watched(command: list[str], *, environment: dict[str, str] | None = None) -> Watched:
    """Run a command that starts Java as a child.

    Raises:
        subprocess.CalledProcessError: it failed; `stderr` contains its error output.
    """
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        peak = 0
        while True:
            try:
                output, said = child.communicate(timeout=_TREE_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, java_peak(child.pid))
        seconds = time.perf_counter() - started
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, output, said)
    return Watched(output, seconds, peak)


def java_peak(pid: int) -> int:
    """Return the peak resident memory in bytes of the largest Java process below a process; 0 without one."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        return max((peak_resident(each.pid) for each in children if each.name() == "java"), default=0)
    except psutil.NoSuchProcess:
        return 0


def run_measured(command: list[str]) -> dict[str, float]:
    """Run a command that prints the seconds of each of its parts, a JSON object a line: see `bench.phases`.

    Returns them by name, and `anonymous`: its peak in bytes of memory apart from mapped file pages.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        peak = 0
        process = psutil.Process(child.pid)
        while child.poll() is None:
            try:
                memory = process.memory_info()
                peak = max(peak, memory.rss - memory.shared)
                child.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            except psutil.NoSuchProcess:
                break
        assert child.stdout is not None
        output = child.stdout.read()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    lines = [json.loads(line) for line in output.splitlines()]
    return {**{line["phase"]: line["seconds"] for line in lines}, "anonymous": peak}
