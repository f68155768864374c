"""`python -m bench.archive`: an archive of 30 days compared with borg and restic repositories of the same daily images.

Each day, 1 % of the inodes change in scattered places, and a merge writes the day's image. Then the three programs take
turns: our archive adds the day's edits; borg and restic add the day's image. All three programs compress with zstd. Our
archive and borg's are not encrypted, but restic always encrypts. At the end, several moments are restored.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
import zstandard

from bench.scene import CONSOLE, machine, read_all
from bench.sections import TXID
from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import SHAPES, Layout
from hadoop_common.names import VERSION, image_name
from image_format.md5_file import md5_path

_PACKAGES = {"borg": "borgbackup", "restic": "restic"}
_CHANGED = 0.01
_TRANSACTIONS_PER_CHANGE = 4
"""In the scattered mix, 60 % of the changes are jobs of 6 transactions, and the other changes are single transactions.
"""
_POLL_SECONDS = 0.005
_MB = 1e6
_RESTORES = 3


@dataclass(slots=True)
class Measured:
    """Results of one program that archived the days.

    Attributes:
        size: bytes of the repository at the end.
        first: seconds to add the first image.
        days: seconds to add each day.
        memory: peak anonymous memory in bytes while a day is added.
    """

    size: int = 0
    first: float = 0.0
    days: list[float] = field(default_factory=list)
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """Sizes in bytes; `image` and `edits` are the sizes of the files, each compressed as one zstd stream."""

    inodes: int
    days: int
    transactions: int
    image: int
    edits: int
    ways: dict[str, Measured]
    restores: list[float]


Way = Callable[[Path], list[str]]


def _run(command: list[str], environment: Mapping[str, str]) -> tuple[float, int]:
    """Run a command; return its seconds and its peak of anonymous memory in bytes."""
    os.sync()
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment}) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            try:
                memory = process.memory_info()
                peak = max(peak, memory.rss - memory.shared)
            except psutil.NoSuchProcess:
                break
            time.sleep(_POLL_SECONDS)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return time.perf_counter() - started, peak


def _checkpointer(*words: object) -> list[str]:
    return [sys.executable, "-m", "checkpointer", *map(str, words)]


def _ways(folder: Path, environment: Mapping[str, str]) -> dict[str, Way]:
    """Return the commands that add a day: our command reads the storage directory, and the other commands read the
    image.
    """
    borg, restic = folder / "borg", folder / "restic"
    _run(["borg", "init", "--encryption", "none", str(borg)], environment)
    _run(["restic", "init", "--repo", str(restic)], environment)
    return {
        "ours": lambda image: _checkpointer("archive", "add", image.parents[1], "--archive", folder / "ours"),
        "borg": lambda image: ["borg", "create", "--compression", "zstd,3", f"{borg}::{image.name}", str(image)],
        "restic": lambda image: ["restic", "backup", "--quiet", "--repo", str(restic), str(image)],
    }


def measure(folder: Path, inodes: int, days: int, *, seed: int) -> Result:
    """Archive `days` in `folder`, which must be empty."""
    source, current = folder / "source", folder / "live" / "current"
    for each in (source, current):
        each.mkdir(parents=True)
    layout = Layout(SHAPES["scattered"], inodes)
    transactions = max(10, int(inodes * _CHANGED * _TRANSACTIONS_PER_CHANGE))
    with CONSOLE.status("image and edits"):
        image = write_shape(source, layout, seed=seed)
        segments = write_scattered(source, layout, transactions, seed=seed + 1, segments=days)
    image_size, edits_size = _compressed(image), sum(map(_compressed, segments))
    for path in (image, md5_path(image), source / VERSION):
        os.link(path, current / path.name)
    environment = {
        "BORG_BASE_DIR": str(folder / "borg-home"),
        "RESTIC_CACHE_DIR": str(folder / "restic-cache"),
        "RESTIC_PASSWORD": "bench",
    }
    ways = _ways(folder, environment)
    results = {name: Measured() for name in ways}
    image = current / image.name
    for name, way in ways.items():
        results[name].first, _ = _run(way(image), environment)
    names = list(ways)
    for day, segment in enumerate(segments):
        with CONSOLE.status(f"day {day + 1} of {days}"):
            os.link(segment, current / segment.name)
            _run(_checkpointer("merge", current.parent), {})
            image = current / image_name(TXID + (day + 1) * transactions)
            for name in names[day % len(names) :] + names[: day % len(names)]:
                read_all(current)
                seconds, memory = _run(ways[name](image), environment)
                results[name].days.append(seconds)
                results[name].memory = max(results[name].memory, memory)
            _purge(current, TXID + day * transactions)
    for name, result in results.items():
        result.size = sum(each.stat().st_size for each in (folder / name).rglob("*") if each.is_file())
    last = TXID + days * transactions
    restores = [
        _restore(folder, last - (number * days * transactions) // max(1, _RESTORES - 1)) for number in range(_RESTORES)
    ]
    return Result(inodes, days, transactions, image_size, edits_size, results, restores)


def _purge(current: Path, txid: int) -> None:
    """Keep only two images and the edits that follow the older image, as a NameNode does."""
    for path in current.glob("fsimage_*"):
        if path.name.removesuffix(".md5") < image_name(txid):
            path.unlink()
    for path in current.glob("edits_*"):
        if int(path.name.rpartition("-")[2]) <= txid:
            path.unlink()


def _restore(folder: Path, txid: int) -> float:
    """Restore the archive at a transaction; return the seconds."""
    out = folder / "restored"
    seconds, _ = _run(
        _checkpointer(
            "archive", "restore", "--archive", folder / "ours", "--txid", txid, "--out", out, "--scratch-dir", folder
        ),
        {},
    )
    shutil.rmtree(out)
    return seconds


def _compressed(path: Path) -> int:
    """Return the size of a file as one zstd stream, in bytes."""
    size = 0
    with path.open("rb") as content:
        for step in zstandard.ZstdCompressor(level=3).read_to_iter(content):
            size += len(step)
    return size


def markdown(result: Result) -> str:
    """Return the result as a table."""
    ours = result.ways["ours"]
    reference = result.image + result.edits
    setting = f"{result.inodes:,} inodes, {result.days} days, {result.transactions:,} transactions per day"
    sizes = f"one image {result.image / _MB:.0f} MB and the edits {result.edits / _MB:.0f} MB as zstd"
    lines = [
        f"{setting}; {sizes}; {machine()}",
        "",
        "| | size | relative to ours | first image | day, median | relative to ours | memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, each in result.ways.items():
        day = statistics.median(each.days)
        lines.append(
            f"| {name} | {each.size / _MB:.0f} MB | {each.size / ours.size:.1f} | {each.first:.1f} s | {day:.2f} s | "
            f"{day / statistics.median(ours.days):.1f} | {each.memory / _MB:.0f} MB |"
        )
    restores = ", ".join(f"{each:.1f}" for each in result.restores)
    lines += ["", f"The archive has {ours.size / reference:.2f} times the bytes of image and edits as zstd."]
    lines.append(f"Restores of the newest, a middle and the oldest moment took {restores} s.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.archive", description=__doc__)
    parser.add_argument("--inodes", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work-dir", type=Path, help="working directory (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    for program, package in _PACKAGES.items():
        if shutil.which(program) is None:
            parser.error(f"{program} is missing: apt-get install {package}")
    with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="bench-") as scratch:
        result = measure(Path(scratch), arguments.inodes, arguments.days, seed=arguments.seed)
    print(json.dumps({"machine": machine(), **asdict(result)}) if arguments.json else markdown(result))


if __name__ == "__main__":
    main()
