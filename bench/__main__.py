"""`python -m bench`: our merge compared with Hadoop 3.5.0's merge and with the floor (`bench.floor`) in each round.

Without --inodes, the command measures the whole table. The mixes `jobs` and `scattered` are merged into large images,
and all mixes into a smaller image with and without snapshots. Load, replay and write are measured within a running
process, without the start of Python or the JVM. The "process" line measures a whole `checkpointer merge` process.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.edits import MIXES
from bench.floor import run_floor
from bench.hadoop_merge import heap_for, merge_by_hadoop
from bench.phases import Run, run_phases, run_process
from bench.scene import CONSOLE, machine, make_edits, make_image, read_all
from bench.shape_layout import SCATTERED, SHAPES
from bench.shapes import make_shape
from bench.table import MixResult, chart, markdown, numbers
from engine.warm_up import warm_up

_HERE = Path(__file__).parent
_RESULTS = _HERE / "results.md"
_TRANSACTIONS = 1_000_000


@dataclass(frozen=True)
class Scene:
    """An image and the mixes of edits that are merged into it."""

    inodes: int
    transactions: int
    mixes: Sequence[str]
    snapshots: bool = False


_TABLE = (
    Scene(10_000_000, 1_000_000, ("jobs",)),
    Scene(10_000_000, 1_000_000, (SCATTERED,)),
    Scene(1_000_000, 300_000, tuple(MIXES)),
    Scene(1_000_000, 300_000, tuple(MIXES), snapshots=True),
)


def _by_us(current: Path) -> Run:
    run = run_phases([sys.executable, "-m", "bench.one_merge", str(current)])
    before = set(current.iterdir())
    run.parts["process"] = run_process([sys.executable, "-m", "checkpointer", "merge", str(current.parent)])
    for path in set(current.iterdir()) - before:
        path.unlink()
    return run


def _by_hadoop(current: Path, work: Path, heap: str) -> Run:
    run, _ = merge_by_hadoop(current, work, heap)
    shutil.rmtree(work)
    return run


def _measure(image: Path, folder: Path, scene: Scene, mix: str, arguments: argparse.Namespace) -> MixResult:
    """Run all rounds on one mix; the program that runs first alternates between rounds."""
    current = image.parent
    heap = arguments.heap or heap_for(scene.inodes, scene.transactions)
    runs: dict[str, Callable[[], Run]] = {
        "floor": lambda: run_floor(image, folder / "copy"),
        "ours": lambda: _by_us(current),
    }
    if not arguments.without_hadoop:
        runs["hadoop"] = lambda: _by_hadoop(current, folder / "hadoop", heap)
    names, rounds = list(runs), []
    for number in range(arguments.rounds):
        shift = number % len(names)
        found: dict[str, Run] = {}
        for name in names[shift:] + names[:shift]:
            with CONSOLE.status(f"{mix}: round {number + 1} of {arguments.rounds}, {name}"):
                read_all(current)
                found[name] = runs[name]()
        rounds.append(found)
    edits = sum(path.stat().st_size for path in current.glob("edits_*"))
    size = image.stat().st_size
    shutil.rmtree(folder)
    return MixResult(mix, scene.inodes, scene.transactions, size, edits, heap, tuple(rounds), scene.snapshots)


def _measure_scene(scene: Scene, folder: Path, arguments: argparse.Namespace) -> Iterator[MixResult]:
    with CONSOLE.status("compile the kernels, once per installation"):
        warm_up()
    mixes = [mix for mix in scene.mixes if mix != SCATTERED]
    if SCATTERED in scene.mixes:
        work = folder / SCATTERED
        with CONSOLE.status("a scattered namespace"):
            image = make_shape(work, SHAPES[SCATTERED], scene.inodes, scene.transactions, seed=arguments.seed)
        yield _measure(image, work, scene, SCATTERED, arguments)
    if mixes:
        base = make_image(folder / "base", scene.inodes, snapshots=scene.snapshots, seed=arguments.seed)
        for mix in mixes:
            here = make_edits(base, folder / mix, scene.transactions, mix, seed=arguments.seed + 1)
            yield _measure(here.path, folder / mix, scene, mix, arguments)


def _scenes(arguments: argparse.Namespace) -> Sequence[Scene]:
    if arguments.inodes is None:
        return _TABLE
    transactions = arguments.transactions or _TRANSACTIONS
    return [Scene(arguments.inodes, transactions, arguments.mix or tuple(MIXES), arguments.snapshots)]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--inodes", type=int, help="of one image (default: the whole table, about 15 minutes)")
    parser.add_argument("--transactions", type=int, help="with --inodes (default: 1,000,000)")
    parser.add_argument(
        "--mix", choices=(*MIXES, SCATTERED), action="append", help="with --inodes; repeatable (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--snapshots", action="store_true", help="with --inodes: an image that has snapshots")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--heap", help="of Hadoop's JVM, such as 9g (default: by the size of the image)")
    parser.add_argument("--without-hadoop", action="store_true", help="measure only hdfs-checkpointer and the floor")
    parser.add_argument("--work-dir", type=Path, help="working directory (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=_RESULTS, help=f"Markdown file (default: bench/{_RESULTS.name})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if arguments.inodes is None and (arguments.transactions or arguments.mix or arguments.snapshots):
        parser.error("--transactions, --mix and --snapshots require --inodes")
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    return arguments


def main() -> None:
    arguments = _parse()
    results: list[MixResult] = []
    for scene in _scenes(arguments):
        with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="bench-") as scratch:
            results += _measure_scene(scene, Path(scratch), arguments)
    picture = arguments.output.with_suffix(".svg")
    picture.write_text(chart(results))
    arguments.output.write_text(markdown(results, machine(), picture.name))
    if arguments.json:
        print(json.dumps({"machine": machine(), "mixes": [numbers(result) for result in results]}))
    else:
        print(arguments.output.read_text())


if __name__ == "__main__":
    main()
