"""`python -m bench`: scan, replay and write of one merge, each beside md5sum of the same image in the same run."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.generate import generate_edits, generate_image
from bench.memory import run_measured

_ROUNDS = 3


def _best(action: Callable[[], object]) -> float:
    """Shortest of a few runs, in seconds: what the machine can do when nothing else runs."""
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def _floor(image: Path) -> dict[str, float]:
    """The floor under any checkpoint: reading the image for its digest, and copying it."""
    copy = image.with_name("copy")
    seconds = {
        "md5sum": _best(lambda: subprocess.run(["md5sum", image], check=True, stdout=subprocess.DEVNULL)),
        "cp": _best(lambda: shutil.copyfile(image, copy)),
    }
    copy.unlink()
    return seconds


def _merge(directory: Path) -> dict[str, float]:
    """One merge in a process of its own; the new image is removed again."""
    command = [sys.executable, "-m", "bench.one_merge", str(directory)]
    return run_measured(command)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--dir", type=Path, default=None, help="where to work (default: a temporary folder)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as scratch:
        current = Path(scratch) / "current"
        current.mkdir()
        image = generate_image(current, arguments.files)
        generate_edits(current, arguments.files, arguments.transactions)
        # The first merge compiles the kernels, which happens once per installation.
        _merge(current)
        floor = _floor(image)
        rounds = [_merge(current) for _ in range(_ROUNDS)]
        best = {key: min(found[key] for found in rounds) for key in rounds[0]}
        size = image.stat().st_size
    report = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "files": arguments.files,
        "transactions": arguments.transactions,
        "imageBytes": size,
        "seconds": {**floor, **{key: best[key] for key in ("scan", "replay", "write")}},
        "peakAnonymousBytes": int(max(found["anonymous"] for found in rounds)),
    }
    if arguments.json:
        print(json.dumps(report))
        return
    _print(report, floor["md5sum"])


def _print(report: dict, floor: float) -> None:  # type: ignore[type-arg]
    print(
        f"{report['files']:,} files ({report['imageBytes'] / 1e6:.0f} MB), {report['transactions']:,} transactions, "
        f"{report['machine']}; best of {_ROUNDS} rounds"
    )
    seconds = report["seconds"]
    seconds["scan + write"] = seconds["scan"] + seconds["write"]
    for name in ("md5sum", "cp", "scan", "write", "scan + write", "replay"):
        print(f"  {name:<14}{seconds[name]:>8.3f} s  {seconds[name] / floor:>6.2f} x md5sum")
    rate = report["transactions"] / seconds["replay"]
    print(f"  replay rate   {rate:>10,.0f} transactions/s")
    print(f"  peak anonymous memory {report['peakAnonymousBytes'] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
