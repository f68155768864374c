"""`python -m bench.compress`: seconds to write one image with each codec, on all cores and in one thread.

The variants take turns in each round, so that other load on the machine affects all of them. The floor is one zlib
stream per section, compressed in one thread as Hadoop does when it saves an image. Like the other variants, the stream
is written with a digest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.scene import CONSOLE, machine, make_image
from hadoop_common.process_tuning import available_cores
from image_format.codecs import codec_class_name
from image_format.output import DigestingFileSet
from image_format.reader import ImageFile
from image_format.writer import ImageWriter, Sink

_CODECS = ("none", "default", "gzip", "bzip2", "snappy", "lz4", "zstd")
_FLOOR = "one zlib stream"
# size of the pieces in which a merge passes data to the writer
_CHUNK = 8 << 20

Way = Callable[[ImageFile, Sink], None]


@dataclass(frozen=True, slots=True)
class Run:
    """Result of one variant in one round: seconds until the file was durable, and its size in bytes."""

    seconds: float
    size: int


def _chunks(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(view), _CHUNK):
        yield view[start : start + _CHUNK]


def _floor(image: ImageFile, sink: Sink) -> None:
    for section in image.sections:
        stream = zlib.compressobj()
        for chunk in _chunks(image.section_bytes(section.name)):
            sink(stream.compress(chunk))
        sink(stream.flush())


def _written(codec: str, threads: int, image: ImageFile, sink: Sink) -> None:
    writer = ImageWriter(sink, image.layout_version, codec_class_name(codec), threads=threads)
    for section in image.sections:
        with writer.section(section.name) as out:
            for chunk in _chunks(image.section_bytes(section.name)):
                out.write(chunk)
    writer.finish()


def _run(way: Way, image: ImageFile, target: Path) -> Run:
    started = time.perf_counter()
    with DigestingFileSet([target]) as output:
        way(image, output)
        written = output.close()
    took = time.perf_counter() - started
    target.unlink()
    return Run(took, written.size)


def measure(image: ImageFile, folder: Path, rounds: int, codecs: tuple[str, ...] = _CODECS) -> dict[str, list[Run]]:
    """Return the runs of the floor, and of each codec in one thread ("gzip, 1") and on all cores ("gzip")."""
    ways: dict[str, Way] = {_FLOOR: _floor}
    for codec in codecs:
        ways[f"{codec}, 1"] = partial(_written, codec, 1)
        ways[codec] = partial(_written, codec, 0)
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, way in ways.items():
            with CONSOLE.status(f"round {number + 1} of {rounds}: {name}"):
                runs[name].append(_run(way, image, folder / "written"))
    return runs


def _summary(runs: dict[str, list[Run]], plain: int) -> dict[str, dict[str, float]]:
    """Return medians of the rounds by codec; ratios compare runs of one round, and exceed 1 if our code is faster."""
    found = {}
    for codec in (name for name in runs if f"{name}, 1" in runs):
        ours, alone, floor = runs[codec], runs[f"{codec}, 1"], runs[_FLOOR]
        found[codec] = {
            "seconds": statistics.median(run.seconds for run in ours),
            "size": ours[0].size / plain,
            "toOneThread": statistics.median(a.seconds / b.seconds for a, b in zip(alone, ours, strict=True)),
            "toOneStream": statistics.median(a.seconds / b.seconds for a, b in zip(floor, ours, strict=True)),
        }
    return found


def _print(found: dict[str, dict[str, float]]) -> None:
    print(f"{'':<10}{'seconds':>9}{'size':>8}{'x 1 thread':>12}{'x 1 stream':>12}")
    for codec, each in found.items():
        times = f"{each['toOneThread']:>12.2f}{each['toOneStream']:>12.2f}"
        print(f"{codec:<10}{each['seconds']:>9.2f}{each['size']:>8.1%}{times}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compress", description=__doc__)
    parser.add_argument("--inodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None, help="working directory (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as scratch:
        base = make_image(Path(scratch), arguments.inodes, snapshots=False, seed=1)
        with ImageFile.open(base.path) as image:
            runs = measure(image, Path(scratch), arguments.rounds)
            found, floor = _summary(runs, image.size), statistics.median(run.seconds for run in runs[_FLOOR])
    result: dict[str, Any] = {"machine": machine(), "threads": available_cores(), "inodes": arguments.inodes}
    if arguments.json:
        print(json.dumps({**result, "rounds": arguments.rounds, "oneStreamSeconds": floor, "codecs": found}))
        return
    print(f"{machine()}; {arguments.inodes:,} inodes, median of {arguments.rounds} rounds; {_FLOOR}: {floor:.2f} s")
    _print(found)


if __name__ == "__main__":
    main()
