"""Runs the quick tier or the demos together with busy processes: `make test-loaded`, `make demos-loaded`.

Faults that depend on speed (a short limit, an assumed order) appear on a busy machine. Simultaneous runs additionally
load the machine. The tool keeps the log of a failed run, and prints a table of the results. Busy processes and runs end
with this process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

_ROOT = Path(__file__).parents[2]
_DEMOS = ("demo", "demo-ha", "demo-bookkeeper")
# time limit of one run, multiplied by the number of simultaneous runs
_HANGS_SECONDS = 2 * 3600.0
_END_SECONDS = 30.0
# parts of the tree that a copy does not need, and files that other processes are writing
_NOT_COPIED = shutil.ignore_patterns(
    "build", "dist", ".venv", ".fuzz", ".hypothesis", ".pytest_cache", "*.pyc.*", "*.tmp.*"
)
_BUSY = "import os\nwhile os.getppid() == {parent}:\n    for _ in range(1_000_000): pass\n"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a target.

    Attributes:
        name: a target of the Makefile.
        load: number of busy processes during the run.
        fresh: whether it runs in a fresh clone with an empty home.
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
    """Run `count` processes that only use CPU time; yield their ids."""
    command = [sys.executable, "-c", _BUSY.format(parent=os.getpid())]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


async def execute(
    command: Sequence[str], directory: Path, environment: dict[str, str], log: Path, limit: float = _HANGS_SECONDS
) -> int:
    """Run a command with its output in `log`; return its exit code, or SIGKILL's code if it exceeds `limit`."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return await asyncio.wait_for(process.wait(), limit)
        except TimeoutError:
            return -signal.SIGKILL
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the remaining processes of a command's group."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def copy_tree(directory: Path) -> None:
    """Copy the working tree, with its compiled kernels; the copy uses the installed packages of the original."""
    shutil.copytree(_ROOT, directory, symlinks=True, ignore=_NOT_COPIED)
    if (_ROOT / ".venv").exists():
        (directory / ".venv").symlink_to(_ROOT / ".venv")


async def run_target(run: Run, number: int, logs: Path, at_once: int = 1) -> Ended:
    """Run a target of the Makefile; remove its scratch files if it passes.

    A run that shares the machine with other runs uses a separate copy of the tree, so that caches and results never
    mix.
    """
    folder = logs / f"{number:03d}-{run.name}-load{run.load}{'-fresh' if run.fresh else ''}"
    folder.mkdir(parents=True)
    # The path is short, because a socket's path has at most 107 bytes. Programs of other users have access.
    scratch, directory = Path(tempfile.mkdtemp(prefix="loaded-")), folder / "tree"
    scratch.chmod(0o755)
    log = folder / "log"
    environment = {**os.environ, "TMPDIR": str(scratch)}
    if run.fresh:
        subprocess.run(["git", "clone", "--quiet", str(_ROOT), str(directory)], check=True)
        environment["HOME"] = str(folder / "home")
        (folder / "home").mkdir()
    elif at_once > 1:
        copy_tree(directory)
    else:
        directory = _ROOT
    started = time.monotonic()
    code = await execute(["make", run.name], directory, environment, log, _HANGS_SECONDS * at_once)
    seconds = time.monotonic() - started
    shutil.rmtree(folder / "tree", ignore_errors=True)
    shutil.rmtree(folder / "home", ignore_errors=True)
    if code == 0:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(folder)
    else:
        shutil.move(scratch, folder / "tmp")
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


async def _run_numbered(
    runs: Sequence[tuple[int, Run]], at_once: int, planned: int, logs: Path, ended: list[Ended]
) -> None:
    """Run all of `runs`, `at_once` of them at the same time; append the results to `ended`."""
    places = asyncio.Semaphore(at_once)

    async def one(number: int, run: Run) -> None:
        async with places:
            ended.append(await run_target(run, number, logs, at_once))
        print(f"{number:3} of {planned}  {line_of(ended[-1])}", flush=True)

    async with asyncio.TaskGroup() as group:
        for number, run in runs:
            group.create_task(one(number, run))


def run_all(runs: Sequence[Run], logs: Path, at_once: int = 1) -> int:
    """Run all of `runs` and return the number of failures. Runs with the same load share their busy processes."""
    ended: list[Ended] = []
    numbered = sorted(enumerate(runs, 1), key=lambda each: each[1].load)
    try:
        for load, group in groupby(numbered, key=lambda each: each[1].load):
            with busy(load):
                asyncio.run(_run_numbered(list(group), at_once, len(runs), logs, ended))
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
        each.add_argument("--at-once", type=int, default=1, help="runs at the same time, each in a copy of the tree")
        each.add_argument("--logs", type=Path, default=_ROOT / "build" / "loaded")
    chosen = parser.parse_args(arguments)
    if chosen.kind == "tests":
        runs = plan(["test"], chosen.runs, 0, [chosen.load])
    else:
        runs = plan(chosen.demos, chosen.runs, min(chosen.fresh, chosen.runs), chosen.loads)
    logs = chosen.logs.absolute() / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True)
    return 1 if run_all(runs, logs, max(chosen.at_once, 1)) else 0


if __name__ == "__main__":
    # the busy processes and the run end with this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
