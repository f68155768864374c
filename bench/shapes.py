"""Unusual namespaces, with edits scattered over all of them.

`python -m bench.shapes` merges each of them, and compares the costs per inode and per transaction. The reference is the
`jobs` mix on an image with the same number of inodes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import textwrap
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from bench.phases import PARTS, Run, run_phases
from bench.scene import CONSOLE, machine, make_edits, make_image, read_all
from bench.sections import TXID
from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import SHAPES, Layout, Shape
from hadoop_common.names import SEEN_TXID, VERSION, segment_name
from image_format.inode_scan import read_inode_header
from image_format.layout import NEWEST_LAYOUT
from image_format.md5_file import md5_path
from image_format.reader import ImageFile
from journal import ops
from journal.binary_codec import encode_op
from journal.segment_format import encode_header


def make_shape(folder: Path, shape: Shape, files: int, transactions: int, *, seed: int = 1) -> Path:
    """Write an image and the edits that follow it into the new folder `folder`/current; return the image's path."""
    current = folder / "current"
    current.mkdir(parents=True)
    layout = Layout(shape, files)
    image = write_shape(current, layout, seed=seed)
    write_scattered(current, layout, transactions, seed=seed + 1)
    return image


def make_plain(image: Path, folder: Path) -> Path:
    """Link an image into `folder`/current, next to a segment that contains only its first and last marker."""
    current = folder / "current"
    current.mkdir(parents=True)
    for path in (image, md5_path(image), image.with_name(VERSION)):
        os.link(path, current / path.name)
    first, last = TXID + 1, TXID + 2
    edits = (ops.StartLogSegmentOp(txid=first), ops.EndLogSegmentOp(txid=last))
    body = b"".join(encode_op(op, NEWEST_LAYOUT) for op in edits)
    (current / segment_name(first, last)).write_bytes(encode_header(NEWEST_LAYOUT) + body)
    (current / SEEN_TXID).write_text(f"{last}\n")
    return current / image.name


# ---- cost ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cost:
    """Nanoseconds, medians.

    Attributes:
        inode: time to load and write the image, per inode; transaction: time to replay, per transaction.
        plain: time to load and write the image without edits, per inode.
        edit: time to replay and additional time to write the image, per transaction.
    """

    inode: float
    transaction: float
    plain: float
    edit: float

    @classmethod
    def of(cls, edited: list[Run], plain: list[Run], inodes: int, transactions: int) -> _Cost:
        load, replay, write = (_median(edited, part) for part in PARTS)
        write_plain = _median(plain, "write")
        return cls(
            1e9 * (load + write) / inodes,
            1e9 * replay / transactions,
            1e9 * (_median(plain, "load") + write_plain) / inodes,
            1e9 * (replay + write - write_plain) / transactions,
        )


def _median(runs: list[Run], part: str) -> float:
    return statistics.median(run.parts[part].seconds for run in runs)


@dataclass(frozen=True)
class _Scene:
    """Measurement of an image with edits, and of the same image without edits."""

    edited: Path
    plain: Path
    inodes: int

    @classmethod
    def of(cls, edited: Path, folder: Path) -> _Scene:
        with ImageFile.open(edited, verify_md5=False) as image:
            inodes = int(read_inode_header(image)[0].numInodes)
        return cls(edited, make_plain(edited, folder), inodes)


def _measure(image: Path) -> Run:
    read_all(image.parent)
    return run_phases([sys.executable, "-m", "bench.one_merge", str(image.parent)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shapes", description=__doc__)
    parser.add_argument("--inodes", type=int, default=2_000_000)
    parser.add_argument("--transactions", type=int, default=500_000)
    parser.add_argument("--shape", choices=tuple(SHAPES), action="append", help="repeatable (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work-dir", type=Path, help="working directory (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"), help="Markdown")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    inodes, transactions = arguments.inodes, arguments.transactions
    with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="bench-") as scratch:
        folder = Path(scratch)
        base = make_image(folder / "base", inodes, snapshots=False, seed=1)
        jobs = make_edits(base, folder / "jobs", transactions, "jobs", seed=2).path
        scenes = {"jobs": _Scene.of(jobs, folder / "plain-jobs")}
        for label in arguments.shape or SHAPES:
            with CONSOLE.status(f"generate: {label}"):
                image = make_shape(folder / label, SHAPES[label], inodes, transactions)
                scenes[label] = _Scene.of(image, folder / f"plain-{label}")
        edited: dict[str, list[Run]] = {label: [] for label in scenes}
        plain: dict[str, list[Run]] = {label: [] for label in scenes}
        for number in range(arguments.rounds):
            for label, scene in scenes.items():
                with CONSOLE.status(f"round {number + 1}: {label}"):
                    edited[label].append(_measure(scene.edited))
                    plain[label].append(_measure(scene.plain))
        costs = {
            label: _Cost.of(edited[label], plain[label], scene.inodes, transactions) for label, scene in scenes.items()
        }
        sizes = {label: scene.edited.stat().st_size / scene.inodes for label, scene in scenes.items()}
    arguments.output.write_text(_page(costs, sizes, arguments))
    if arguments.json:
        print(json.dumps({"machine": machine(), "costs": {label: asdict(cost) for label, cost in costs.items()}}))
    else:
        print(arguments.output.read_text())


def _page(costs: dict[str, _Cost], sizes: dict[str, float], arguments: argparse.Namespace) -> str:
    base = costs["jobs"]
    introduction = (
        f"`python -m bench.shapes` on {machine()}; medians of {arguments.rounds} rounds, in each of which all shapes "
        f"ran in turn; {arguments.inodes:,} inodes and {arguments.transactions:,} transactions each. The columns per "
        "inode contain the time of load and write; the columns per transaction contain the time of replay. A write "
        "covers the whole image, and the entries and records that edits changed. The columns at the right separate "
        "these parts: `unedited ns/inode` is load and write of the image without edits, `all, ns/transaction` is "
        "replay and the additional time of a write with edits. Each x is relative to `jobs`."
    )
    lines = [
        "# Cost by shape",
        "",
        textwrap.fill(introduction, 120),
        "",
        "| shape | bytes/inode | ns/inode | x | ns/transaction | x | unedited ns/inode | x | all, ns/transaction | x |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for label, cost in costs.items():
        pairs = zip(astuple(cost), astuple(base), strict=True)
        cells = " | ".join(f"{value:.0f} | {value / usual:.2f}" for value, usual in pairs)
        lines.append(f"| {label} | {sizes[label]:.0f} | {cells} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
