"""`python -m bench.scale`: the cost per inode and per transaction for several image sizes.

The cost should vary by less than 20 %. A linear model of all merges predicts larger images (`bench.cost_model`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cost_model import Measurement, model_section
from bench.edits import MIXES
from bench.phases import PARTS, Run, run_phases
from bench.plot import lines
from bench.scene import CONSOLE, machine, make_edits, make_image, read_all
from hadoop_common.quantities import counted

_HERE = Path(__file__).parent
_SIZES = (1_000_000, 3_000_000, 10_000_000, 50_000_000)
_INODES_A_TRANSACTION = 100
_TRANSACTIONS = 1_000_000
_MARGIN = 0.2
_SERIES = {
    "load": "load, ns per inode",
    "write": "write, ns per inode",
    "replay": "replay, ns per transaction",
    "memory": "memory, bytes per inode",
}
_COLUMNS = (
    *("inodes", "image bytes/inode", "load ns/inode", "write ns/inode", "both ns/inode"),
    *("replay ns/transaction", "memory bytes/inode"),
)
_PARTS = {"load": "load", "write": "write", "inode": "load and write", "replay": "replay"}


@dataclass(frozen=True)
class Point:
    """Costs of one size: nanoseconds to load and write per inode, and to replay per transaction; peak bytes per inode.

    Attributes:
        image: bytes of the image per inode.
    """

    inodes: int
    image: float
    load: float
    write: float
    replay: float
    memory: float

    @property
    def inode(self) -> float:
        """Total cost of an inode in nanoseconds."""
        return self.load + self.write


class _Size:
    """A name directory of one size, with edits in proportion to its inodes and with a fixed number of edits."""

    def __init__(self, folder: Path, inodes: int, transactions: int, mix: str) -> None:
        self._transactions = inodes // _INODES_A_TRANSACTION, transactions
        self._base = make_image(folder / "base", inodes, snapshots=False, seed=1)
        self._commands: dict[int, list[str]] = {}
        self._runs: dict[int, list[Run]] = {}
        for number in self._transactions:
            here = make_edits(self._base, folder / f"edits-{number}", number, mix, seed=2)
            self._commands[number] = [sys.executable, "-m", "bench.one_merge", str(here.path.parent)]
            self._runs[number] = []

    def run(self) -> None:
        """Run one more merge with each of the two kinds of edits."""
        for transactions, command in self._commands.items():
            reserves = [str(size) for size in _reserves(self._base.tree.inodes, transactions)]
            self._runs[transactions].append(self._merge(command + reserves))

    @staticmethod
    def _merge(command: list[str]) -> Run:
        read_all(Path(command[3]))
        return run_phases(command)

    def measured(self) -> tuple[Point, list[Measurement]]:
        """Return medians (load and write of proportional edits, replay and memory of fixed edits), and all runs."""
        own, given = (self._runs[number] for number in self._transactions)
        # memory is not touched before these runs, since the touched memory would count
        memory = {number: self._merge(command).parts["whole"].anonymous for number, command in self._commands.items()}
        inodes = self._base.tree.inodes

        def cost(part: str, runs: Sequence[Run], number: int) -> float:
            return 1e9 * statistics.median(run.parts[part].seconds for run in runs) / number

        point = Point(
            inodes,
            self._base.path.stat().st_size / inodes,
            cost("load", own, inodes),
            cost("write", own, inodes),
            cost("replay", given, self._transactions[1]),
            memory[self._transactions[1]] / inodes,
        )
        seconds = {
            number: statistics.median(sum(run.parts[part].seconds for part in PARTS) for run in runs)
            for number, runs in self._runs.items()
        }
        return point, [Measurement(inodes, number, seconds[number], memory[number]) for number in seconds]


def _measure(arguments: argparse.Namespace) -> tuple[list[Point], list[Measurement]]:
    """Return a point for each size, and its merges; all sizes take turns, since the speed of a machine varies."""
    with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="bench-") as scratch:
        sizes = {
            inodes: _Size(Path(scratch) / str(inodes), inodes, arguments.transactions, arguments.mix)
            for inodes in sorted(arguments.inodes)
        }
        for number in range(arguments.rounds):
            for inodes, size in sizes.items():
                with CONSOLE.status(f"round {number + 1}: {inodes:,} inodes"):
                    size.run()
        points, measured = zip(*(size.measured() for size in sizes.values()), strict=True)
        return list(points), list(itertools.chain(*measured))


def _reserves(inodes: int, transactions: int) -> tuple[int, int, int]:
    """Return the approximate memory of load, replay and write in bytes, as arguments of `bench.one_merge`."""
    return (64 << 20) + 20 * inodes, (32 << 20) + 160 * transactions, (64 << 20) + 64 * transactions


def spread(points: Sequence[Point]) -> dict[str, float]:
    """Return, by part, how much more the most expensive size costs than the cheapest (0.2 is 20 %)."""
    found = {}
    for part in _PARTS:
        costs = [getattr(point, part) for point in points]
        found[part] = max(costs) / min(costs) - 1
    return found


def page(points: Sequence[Point], measured: Sequence[Measurement], arguments: argparse.Namespace, picture: str) -> str:
    """Return the results as Markdown."""
    introduction = (
        f"`python -m bench.scale` on {machine()}; medians of {counted(arguments.rounds, 'round')}. In each round, all "
        f"sizes ran in turn. Load and write are measured with one transaction of the mix `{arguments.mix}` per "
        f"{_INODES_A_TRANSACTION} inodes, replay with {arguments.transactions:,} transactions. Each process "
        "receives memory that was touched before, because a virtual machine provides untouched memory at a varying "
        "cost."
    )
    out = [
        "# Cost by size",
        "",
        textwrap.fill(introduction, 120),
        "",
        f"![cost by size]({picture})",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{'---:|' * len(_COLUMNS)}",
    ]
    for point in points:
        numbers = point.image, point.load, point.write, point.inode, point.replay, point.memory
        out.append(f"| {point.inodes:,} | {' | '.join(f'{number:.0f}' for number in numbers)} |")
    out.append("")
    for part, more in spread(points).items():
        verdict = "within" if more <= _MARGIN else "beyond"
        out.append(
            f"- {_PARTS[part]}: the most expensive size costs {more:.0%} more than the cheapest, "
            f"{verdict} the margin of {_MARGIN:.0%}"
        )
    if len(points) > 1:
        out += ["", *model_section(measured)]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--inodes", type=int, nargs="+", default=_SIZES)
    parser.add_argument(
        "--transactions", type=int, default=_TRANSACTIONS, help=f"to replay on each (default: {_TRANSACTIONS:,})"
    )
    parser.add_argument("--mix", choices=tuple(MIXES), default="jobs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work-dir", type=Path, help="working directory (default: a temporary one)")
    parser.add_argument(
        "--output", type=Path, default=_HERE / "scale.md", help="Markdown file (default: bench/scale.md)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    points, measured = _measure(arguments)
    picture = arguments.output.with_suffix(".svg")
    xs = [float(point.inodes) for point in points]
    series = {name: [getattr(point, part) for point in points] for part, name in _SERIES.items()}
    picture.write_text(lines("Cost by size", "", xs, series))
    arguments.output.write_text(page(points, measured, arguments, picture.name))
    if arguments.json:
        lists = {"points": [vars(each) for each in points], "measurements": [vars(each) for each in measured]}
        print(json.dumps(lists | {"spread": spread(points)}))
    else:
        print(arguments.output.read_text())


if __name__ == "__main__":
    main()
