"""`python -m bench.dump`: an image as text, alternately by `checkpointer image dump` and by Hadoop's OIV.

Both are timed as whole processes, including their start, and the outputs are compared byte for byte. CPU time covers
all threads; memory is anonymous memory, without mapped files.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.oiv import heap_for, oiv_command
from bench.scene import machine, read_all
from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from tests.interop.hadoop_home import NEWEST

_POLL_SECONDS = 0.01
_OURS = {"Delimited": "delimited", "XML": "xml", "FileDistribution": "distribution"}


class BenchError(Exception):
    """Two outputs that differ; the message names them."""


@dataclass(frozen=True)
class _Run:
    """Wall and CPU seconds of a process, and its peak anonymous memory in bytes."""

    seconds: float
    cpu: float
    memory: int


def _timed(command: list[str]) -> _Run:
    started = time.perf_counter()
    with psutil.Popen(command, stderr=subprocess.DEVNULL) as child:
        cpu, memory = 0.0, 0
        while child.poll() is None:
            try:
                with child.oneshot():
                    found, times = child.memory_info(), child.cpu_times()
            except psutil.NoSuchProcess:
                break
            memory = max(memory, found.rss - found.shared)
            cpu = times.user + times.system
            time.sleep(_POLL_SECONDS)
        seconds = time.perf_counter() - started
    if child.returncode:
        raise BenchError(f"{command} exited with code {child.returncode}")
    return _Run(seconds, cpu, memory)


def _measure(image: Path, files: int, processor: str, rounds: int) -> dict[str, list[_Run]]:
    form = _OURS[processor]
    theirs, ours = image.with_name(f"oiv-{processor}"), image.with_name(f"ours-{processor}")
    commands = {
        "oiv": oiv_command(processor, image, theirs, heap_for(files)),
        "ours": [
            *(sys.executable, "-m", "checkpointer", "image", "dump", str(image)),
            *("--format", form, "--release", NEWEST.version, "--output", str(ours), "--force"),
        ],
    }
    # compiles the kernels, once per installation
    _timed(commands["ours"])
    found: dict[str, list[_Run]] = {name: [] for name in commands}
    for number in range(rounds):
        # the program that runs first alternates
        for name in list(commands)[:: 1 if number % 2 else -1]:
            read_all(image.parent)
            found[name].append(_timed(commands[name]))
        if not filecmp.cmp(theirs, ours, shallow=False):
            raise BenchError(f"{theirs} and {ours} differ")
        theirs.unlink()
        ours.unlink()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.dump", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--processor", choices=tuple(_OURS), action="append", help="of OIV; repeatable (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None, help="working directory (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    results = []
    for files in arguments.files:
        with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as scratch:
            image = write_shape(Path(scratch), Layout(PLAIN, files))
            for processor in arguments.processor or _OURS:
                found = _measure(image, files, processor, arguments.rounds)
                medians = {
                    name: {each: statistics.median(getattr(run, each) for run in runs) for each in _Run.__annotations__}
                    for name, runs in found.items()
                }
                results.append({"files": files, "processor": processor, **medians})
                if not arguments.json:
                    _print(results[-1])
    if arguments.json:
        print(json.dumps({"machine": machine(), "rounds": arguments.rounds, "results": results}))


def _print(result: dict[str, dict[str, float]]) -> None:
    ours, theirs = result["ours"], result["oiv"]
    print(f"{result['files']:,} files, {result['processor']}")
    for name, run in (("OIV", theirs), ("ours", ours)):
        print(f"  {name:<5}{run['seconds']:>8.2f} s{run['cpu']:>8.2f} s CPU{run['memory'] / 1e6:>8.0f} MB")
    slower, more = (theirs[each] / ours[each] for each in ("seconds", "cpu"))
    print(f"  OIV takes {slower:.1f} times as long, {more:.1f} times as much CPU time")


if __name__ == "__main__":
    main()
