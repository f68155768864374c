"""`python -m bench.scale`: what an inode and a transaction cost over sizes of an image; it is to stay within 20 %."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.edits import MIXES
from bench.phases import Run, run_phases
from bench.plot import lines
from bench.scene import CONSOLE, machine, make_edits, make_image, read_all

_HERE = Path(__file__).parent
_SIZES = (1_000_000, 3_000_000, 10_000_000, 50_000_000)
_INODES_A_TRANSACTION = 100
_TRANSACTIONS = 1_000_000
_MARGIN = 0.2
_SERIES = {
    "load": "load, ns an inode",
    "write": "write, ns an inode",
    "replay": "replay, ns a transaction",
    "memory": "memory, bytes an inode",
}
_PARTS = {"load": "load", "write": "write", "inode": "load and write", "replay": "replay"}


@dataclass(frozen=True)
class Point:
    """What one size costs: nanoseconds of load and write an inode, of replay a transaction; peak bytes an inode."""

    inodes: int
    load: float
    write: float
    replay: float
    memory: float

    @property
    def inode(self) -> float:
        """All that an inode costs, in nanoseconds."""
        return self.load + self.write


def _point(inodes: int, transactions: int, own: Sequence[Run], given: Sequence[Run], plain: Run) -> Point:
    """A point of runs with edits for its inodes, of runs with that many, and of one that nothing was done for."""

    def seconds(part: str, runs: Sequence[Run]) -> float:
        return statistics.median(run.parts[part].seconds for run in runs)

    a_inode = 1e9 / inodes
    return Point(
        inodes,
        seconds("load", own) * a_inode,
        seconds("write", own) * a_inode,
        seconds("replay", given) * 1e9 / transactions,
        plain.parts["whole"].anonymous / inodes,
    )


def _measure(inodes: int, arguments: argparse.Namespace) -> Point:
    with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="bench-") as scratch:
        folder = Path(scratch)
        base = make_image(folder / "base", inodes, snapshots=False, seed=1)
        found = {}
        for transactions in {inodes // _INODES_A_TRANSACTION, arguments.transactions}:
            here = make_edits(base, folder / "edits", transactions, arguments.mix, seed=2)
            reserves = [str(size) for size in _reserves(inodes, transactions)]
            runs = []
            command = [sys.executable, "-m", "bench.one_merge", str(here.path.parent)]
            for number in range(arguments.rounds):
                with CONSOLE.status(f"{inodes:,} inodes, {transactions:,} transactions: round {number + 1}"):
                    read_all(here.path.parent)
                    runs.append(run_phases(command + reserves))
            found[transactions] = runs
        own, given = found[inodes // _INODES_A_TRANSACTION], found[arguments.transactions]
        return _point(inodes, arguments.transactions, own, given, run_phases(command))


def _reserves(inodes: int, transactions: int) -> tuple[int, int, int]:
    """Bytes that load, replay and write take about, see `bench.one_merge`."""
    return (64 << 20) + 20 * inodes, (32 << 20) + 160 * transactions, (64 << 20) + 64 * transactions


def spread(points: Sequence[Point]) -> dict[str, float]:
    """By part, how much more the dearest size costs than the cheapest: 0.2 is 20 %."""
    found = {}
    for part in _PARTS:
        costs = [getattr(point, part) for point in points]
        found[part] = max(costs) / min(costs) - 1
    return found


def page(points: Sequence[Point], arguments: argparse.Namespace, picture: str) -> str:
    """The results as Markdown."""
    out = [
        "# Cost by size",
        "",
        f"`python -m bench.scale` on {machine()}; medians of {arguments.rounds} rounds.",
        f"Load and write with a transaction of the mix `{arguments.mix}` for {_INODES_A_TRANSACTION} inodes,",
        f"replay with {arguments.transactions:,} of them. Each process finds memory that was touched before:",
        "a virtual machine hands out other memory at a price that changes.",
        "",
        f"![cost by size]({picture})",
        "",
        "| inodes | load ns/inode | write ns/inode | both ns/inode | replay ns/transaction | memory bytes/inode |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for point in points:
        row = f"{point.load:.0f} | {point.write:.0f} | {point.inode:.0f} | {point.replay:.0f} | {point.memory:.0f}"
        out.append(f"| {point.inodes:,} | {row} |")
    out.append("")
    for part, more in spread(points).items():
        verdict = "within" if more <= _MARGIN else "more than"
        out.append(
            f"- {_PARTS[part]}: the dearest size costs {more:.0%} more than the cheapest, {verdict} {_MARGIN:.0%}"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--inodes", type=int, nargs="+", default=_SIZES)
    parser.add_argument(
        "--transactions", type=int, default=_TRANSACTIONS, help=f"to replay on each (default: {_TRANSACTIONS:,})"
    )
    parser.add_argument("--mix", choices=tuple(MIXES), default="jobs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work-dir", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--output", type=Path, default=_HERE / "scale.md", help="Markdown (default: bench/scale.md)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    points = [_measure(inodes, arguments) for inodes in sorted(arguments.inodes)]
    picture = arguments.output.with_suffix(".svg")
    xs = [float(point.inodes) for point in points]
    series = {name: [getattr(point, part) for point in points] for part, name in _SERIES.items()}
    picture.write_text(lines("Cost by size", "", xs, series))
    arguments.output.write_text(page(points, arguments, picture.name))
    if arguments.json:
        print(json.dumps({"points": [vars(point) for point in points], "spread": spread(points)}))
    else:
        print(arguments.output.read_text())


if __name__ == "__main__":
    main()
