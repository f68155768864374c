"""Runs the quick tier or the demos next to busy processes: `make test-loaded`, `make demos-loaded`.

A fault of speed (a short limit, an assumed order) appears on a busy machine. The log of a failed run is kept, and a
table lists the results. Busy processes end with this one in any case.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_ROOT = Path(__file__).parents[2]
_DEMOS = ("demo", "demo-ha", "demo-bookkeeper")
# limit of a run that hangs
_HANGS_SECONDS = 2 * 3600.0
_END_SECONDS = 30.0
_BUSY = "import os\nwhile os.getppid() == {parent}:\n    for _ in range(1_000_000): pass\n"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a target.

    Attributes:
        name: a target of the Makefile.
        load: busy processes next to it.
        fresh: in a fresh clone with an empty home.
    """

    name: str
    load: int
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run; `log` is None if it passed."""

    run: Run
    seconds: float
    code: int
    log: Path | None


def plan(names: Sequence[str], runs: int, fresh: int, loads: Sequence[int]) -> list[Run]:
    """Return `runs` of each name, `fresh` of them in fresh clones, both spread over the loads."""
    planned: list[Run] = []
    for number in range(runs):
        clones = (number + 1) * fresh // runs > number * fresh // runs
        load = loads[number % len(loads)] if not clones else loads[number * fresh // runs % len(loads)]
        planned += [Run(name, load, clones) for name in names]
    return planned


@contextmanager
def busy(count: int) -> Iterator[list[int]]:
    """Run so many processes that only use a processor; yield their ids."""
    command = [sys.executable, "-c", _BUSY.format(parent=os.getpid())]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def execute(
    command: Sequence[str], directory: Path, environment: dict[str, str], log: Path, limit: float = _HANGS_SECONDS
) -> int:
    """Run a command with its output in `log`; return its exit code, that of SIGKILL if it hangs."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the rest of a command's process group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_target(run: Run, number: int, logs: Path) -> Ended:
    """Run a target of the Makefile next to its load; remove its scratch files if it passes."""
    folder = logs / f"{number:03d}-{run.name}-load{run.load}{'-fresh' if run.fresh else ''}"
    scratch = folder / "tmp"
    scratch.mkdir(parents=True)
    log = folder / "log"
    environment = {**os.environ, "TMPDIR": str(scratch)}
    directory = _ROOT
    if run.fresh:
        directory = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", str(_ROOT), str(directory)], check=True)
        environment["HOME"] = str(folder / "home")
        (folder / "home").mkdir()
    started = time.monotonic()
    with busy(run.load):
        code = execute(["make", run.name], directory, environment, log)
    seconds = time.monotonic() - started
    shutil.rmtree(folder / "clone", ignore_errors=True)
    shutil.rmtree(folder / "home", ignore_errors=True)
    if code == 0:
        shutil.rmtree(folder)
    return Ended(run, seconds, code, log if code else None)


def line_of(ended: Ended) -> str:
    """Return one line for a run."""
    run = ended.run
    where = "fresh clone" if run.fresh else "here"
    result = "passed" if ended.code == 0 else f"FAILED with {ended.code}: {ended.log}"
    return f"{run.name:16} load {run.load}  {where:11}  {ended.seconds:6.0f} s  {result}"


def table(ended: Iterable[Ended]) -> list[str]:
    """Return the table of runs and seconds by target, load and place."""
    groups: dict[Run, list[Ended]] = {}
    for each in ended:
        groups.setdefault(each.run, []).append(each)
    lines = [f"{'target':16}  load  {'where':11}  passed    fewest  median    most seconds"]
    for run, runs in sorted(groups.items(), key=lambda group: (group[0].name, group[0].fresh, group[0].load)):
        times = [each.seconds for each in runs]
        passed = f"{sum(each.code == 0 for each in runs)} of {len(runs)}"
        where = "fresh clone" if run.fresh else "here"
        lines.append(
            f"{run.name:16}  {run.load:4}  {where:11}  {passed:8}  {min(times):6.0f}  {median(times):6.0f}  "
            f"{max(times):6.0f}"
        )
    return lines


def run_all(runs: Sequence[Run], logs: Path) -> int:
    """Run one after the other; return the number of failures."""
    ended: list[Ended] = []
    try:
        for number, run in enumerate(runs, 1):
            ended.append(run_target(run, number, logs))
            print(f"{number:3} of {len(runs)}  {line_of(ended[-1])}", flush=True)
    finally:
        print("\n".join(table(ended)) if ended else "no run has ended", flush=True)
    failed = [each for each in ended if each.code]
    print(f"{len(failed)} of {len(ended)} failed{'; their logs are in ' + str(logs) if failed else ''}")
    return len(failed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    tests = kinds.add_parser("tests", help="the quick tier")
    tests.add_argument("--runs", type=int, default=10)
    tests.add_argument("--load", type=int, default=4, help="busy processes")
    demos = kinds.add_parser("demos", help="the demos")
    demos.add_argument("--runs", type=int, default=20, help="of each")
    demos.add_argument("--fresh", type=int, default=5, help="how many of these in fresh clones with empty homes")
    demos.add_argument("--loads", type=int, nargs="+", default=[0, 4, 8], help="busy processes")
    demos.add_argument("--demos", nargs="+", choices=_DEMOS, default=list(_DEMOS))
    for each in (tests, demos):
        each.add_argument("--logs", type=Path, default=_ROOT / "build" / "loaded")
    chosen = parser.parse_args(arguments)
    if chosen.kind == "tests":
        runs = plan(["test"], chosen.runs, 0, [chosen.load])
    else:
        runs = plan(chosen.demos, chosen.runs, min(chosen.fresh, chosen.runs), chosen.loads)
    logs = chosen.logs.absolute() / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True)
    return 1 if run_all(runs, logs) else 0


if __name__ == "__main__":
    # its busy processes and its run end with it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
