"""Runs one merge, ours or Hadoop's, and measures the wall seconds, CPU seconds and peak memory of each part."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.memory import Sampler

PARTS = ("load", "replay", "write")


@dataclass(frozen=True)
class Part:
    """Wall and CPU seconds; peak anonymous memory in bytes."""

    seconds: float
    cpu: float
    anonymous: int


@dataclass(frozen=True)
class Run:
    """The parts of one run by name, including `whole`, and the peak resident memory, including mapped files.

    Attributes:
        way: the method, if there are several.
    """

    parts: dict[str, Part]
    resident: int
    way: str = ""


def run_phases(command: list[str]) -> Run:
    """Run a command that prints a line of JSON for each phase: phase, seconds, cpu, at (monotonic clock).

    Raises:
        subprocess.CalledProcessError: the command failed; `stderr` contains the end of its error output.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        sampler = Sampler(child.pid)
        sampler.start()
        try:
            output, error_output = child.communicate()
        finally:
            sampler.stop()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, output, error_output[-4000:])
    return Run(dict(_parts(output, sampler)), sampler.resident)


def _parts(output: str, sampler: Sampler) -> Iterator[tuple[str, Part]]:
    lines = [json.loads(line) for line in output.splitlines()]
    for line in lines:
        peak = sampler.peak(line["at"] - line["seconds"], line["at"])
        yield line["phase"], Part(line["seconds"], line["cpu"], peak)
    seconds, cpu = (sum(line[name] for line in lines) for name in ("seconds", "cpu"))
    peak = sampler.peak(lines[0]["at"] - lines[0]["seconds"], lines[-1]["at"])
    yield "whole", Part(seconds, cpu, peak)


def run_process(command: list[str]) -> Part:
    """Measure a whole process from start to end; its output is discarded.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        sampler = Sampler(child.pid)
        sampler.start()
        try:
            child.wait()
        finally:
            sampler.stop()
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Part(seconds, cpu, sampler.peak(started, started + seconds))
