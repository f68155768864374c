"""`python -m bench.pipeline`: image to Parquet on two cores, and to text by Hadoop's OIV; reports and merges on Spark.

All writers and OIV take turns, so that other load on the machine affects all of them. OIV's time covers its whole
process. The pipeline's time covers the job in an existing session; the start of the session is shown separately.

With --lake, an image, a day's edits and their merge are appended to a lake; three engines must read equal sums.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.memory import Watched, run_watched
from bench.oiv import heap_for, run_oiv
from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from checkpointer.merging.offline import merge_directory, plan_directory
from hadoop_common.names import image_name
from image_format.md5_file import read_md5_file

_MASTER = "local[2]"
_DRIVER_MEMORY = "1g"
_CHECKPOINTER = [sys.executable, "-m", "checkpointer"]
_WRITERS = {"oiv": "OIV -p Delimited", "spark": "Parquet by Spark", "tasks": "Parquet by tasks", "read": "read alone"}


class BenchError(Exception):
    """Two variants with different results; the message names them."""


class _Session:
    """A `bench.table_job` process, driven through pipes."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.start_seconds: float = self._answer()["seconds"]
        self.peak_bytes = 0

    def write(self, writer: str, image: Path, target: Path) -> float:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"writer": writer, "image": str(image), "target": str(target)}) + "\n")
        self._child.stdin.flush()
        answer = self._answer()
        self.peak_bytes = answer["driverPeakBytes"]
        seconds: float = answer["seconds"]
        return seconds

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise BenchError(f"the Spark session exited with code {self._child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def _session() -> Iterator[_Session]:
    command = [sys.executable, "-m", "bench.table_job", _MASTER, _DRIVER_MEMORY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield _Session(child)
        finally:
            assert child.stdin is not None
            child.stdin.close()


def _tables(image: Path, files: int, rounds: int) -> dict[str, Any]:
    """Return the seconds of each writer in each round."""
    seconds: dict[str, list[float]] = {writer: [] for writer in _WRITERS}
    target, rows = image.with_name("rows"), 0
    with _session() as session:
        for _ in range(rounds):
            took, rows = run_oiv(image, target, heap_for(files))
            seconds["oiv"].append(took)
            target.unlink()
            for writer in ("spark", "tasks", "read"):
                image.touch()  # makes the session rebuild the index, as for a changed image
                seconds[writer].append(session.write(writer, image, target))
                if writer != "read":
                    _check(writer, rows, target)
        return {
            "rows": rows,
            "oivHeap": heap_for(files),
            "sessionStartSeconds": session.start_seconds,
            "driverPeakBytes": session.peak_bytes,
            "seconds": seconds,
        }


def _check(writer: str, rows: int, target: Path) -> None:
    """Count the rows of OIV's output, and remove it."""
    written = sum(pq.read_metadata(path).num_rows for path in target.glob("part-*"))
    if written != rows:
        raise BenchError(f"{_WRITERS[writer]} wrote {written} rows, OIV {rows}")
    shutil.rmtree(target)


def _commands(directory: Path, image: Path) -> dict[str, Any]:
    """Return wall seconds of whole commands, and peak memory of the driver's JVM."""
    spark = ["--master", _MASTER]
    report = run_watched([*_CHECKPOINTER, "report", str(image), *spark, "--driver-memory", _DRIVER_MEMORY, "--json"])
    on_spark, by_spark = _merge(directory, "--engine", "spark", *spark)
    local, by_local = _merge(directory, "--engine", "local")
    if by_spark != by_local:
        raise BenchError(f"the merge on Spark gave {by_spark}, the local one {by_local}")
    found = {"report": report, "merge on Spark": on_spark, "merge, local": local}
    return {name: {"seconds": each.seconds, "driverPeakBytes": each.java_bytes} for name, each in found.items()}


def _merge(directory: Path, *options: str) -> tuple[Watched, str]:
    """Run one merge and keep only its digest."""
    current = directory / "current"
    before = set(current.iterdir())
    done = run_watched([*_CHECKPOINTER, "merge", str(directory), *options, "--json"])
    fresh = set(current.iterdir()) - before
    (digest,) = (path for path in fresh if path.suffix == ".md5")
    md5 = read_md5_file(digest.with_suffix("")).hex()
    for path in fresh:
        path.unlink()
    return done, md5


def _measure(scratch: Path, files: int, transactions: int, rounds: int) -> dict[str, Any]:
    current = scratch / "current"
    current.mkdir()
    layout = Layout(PLAIN, files)
    image = write_shape(current, layout)
    tables = _tables(image, files, rounds)
    write_scattered(current, layout, transactions)
    return {"files": files, "imageBytes": image.stat().st_size, **tables, "commands": _commands(scratch, image)}


def _lake(scratch: Path, files: int, transactions: int) -> dict[str, Any]:
    """Append two days to a lake; return the seconds of commands and commits, bytes by table, and sums by engine."""
    current, lake = scratch / "current", scratch / "lake"
    current.mkdir()
    layout = Layout(PLAIN, files)
    image = write_shape(current, layout)
    write_scattered(current, layout, transactions)
    later = current / image_name(merge_directory(plan_directory(scratch)).txid)
    command = [*_CHECKPOINTER, "lake"]
    commands = {
        "first day": [*command, "append", "--master", _MASTER, "--image", str(image), str(lake)],
        "second day and edits": [
            *(*command, "append", "--master", _MASTER),
            *("--image", str(later), "--edits", str(current), str(lake)),
        ],
        "lake report": [*command, "report", "--json", str(lake)],
    }
    seconds = {name: run_watched(words).seconds for name, words in commands.items()}
    sizes = {
        table.name: sum(each.stat().st_size for each in table.rglob("*") if each.is_file()) for table in lake.iterdir()
    }
    sums = _lake_sums(str(lake))
    if len(set(sums.values())) != 1:
        raise BenchError(f"the engines read different rows: {sums}")
    return {"files": files, "seconds": seconds, "commits": _commits(str(lake)), "bytes": sizes, "sums": sums}


def _lake_sums(lake: str) -> dict[str, tuple[int, int]]:
    """Return rows and bytes of both images, read by three engines."""
    import duckdb
    import polars
    from deltalake import DeltaTable

    from pipeline.lake import read_lake_images
    from pipeline.session import build_session

    inodes: Any = DeltaTable(f"{lake}/inodes").to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by name
    (by_duckdb,) = duckdb.sql("SELECT count(*), sum(length)::BIGINT FROM inodes").fetchall()
    table = polars.scan_delta(f"{lake}/inodes").select(polars.len(), polars.col("length").sum())
    spark = build_session(master=_MASTER)
    row = read_lake_images(spark, lake).selectExpr("count(*)", "sum(length)").collect()[0]
    spark.stop()
    return {"DuckDB": by_duckdb, "polars": table.collect().row(0), "Spark": tuple(row)}


def _commits(lake: str) -> list[float]:
    """Return the seconds of commits that replace the files of the `images` table."""
    from pipeline.lake.lake import images_table
    from pipeline.lake.writing import LakeFileWriter

    table, found = images_table(lake), []
    for _ in range(9):
        files = table.files()
        writer = LakeFileWriter(table.uri, {}, table.schema)
        for batch in table.read(table.schema.names).combine_chunks().to_batches():
            writer.add(batch)
        new = writer.close()
        began = time.perf_counter()
        table.replace(files, [new])
        found.append(time.perf_counter() - began)
    return found


def _print_lake(found: dict[str, Any]) -> None:
    total = sum(found["bytes"].values())
    print(f"two days of {found['files']:,} files in a lake: {total / 1e6:.1f} MB")
    for name, size in sorted(found["bytes"].items(), key=lambda each: -each[1]):
        print(f"  {name:<22}{size / 1e6:>8.2f} MB")
    for name, seconds in found["seconds"].items():
        print(f"  {name:<22}{seconds:>8.1f} s")
    print(f"  {'commit, median':<22}{statistics.median(found['commits']):>8.3f} s")
    print(f"  rows and bytes, equal in DuckDB, polars and Spark: {found['sums']['DuckDB']}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lake", action="store_true", help="measure a lake instead")
    parser.add_argument("--dir", type=Path, default=None, help="working directory (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    results = []
    for files in arguments.files:
        with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as scratch:
            if arguments.lake:
                results.append(_lake(Path(scratch), files, arguments.transactions))
            else:
                results.append(_measure(Path(scratch), files, arguments.transactions, arguments.rounds))
            if not arguments.json:
                (_print_lake if arguments.lake else _print)(results[-1])
    if arguments.json:
        machine = f"{platform.machine()}, Python {platform.python_version()}"
        print(json.dumps({"machine": machine, "transactions": arguments.transactions, "images": results}))


def _print(found: dict[str, Any]) -> None:
    rows, seconds = found["rows"], found["seconds"]
    print(f"{found['files']:,} files ({found['imageBytes'] / 1e6:.0f} MB), {rows:,} rows, {_MASTER}")
    print(f"  {'':<18}{'first':>9}{'median':>9}{'best':>9}{'rows/s':>12}{'x OIV':>8}{'x OIV':>8}")
    print(f"  {'':<18}{'s':>9}{'s':>9}{'s':>9}{'median':>12}{'median':>8}{'best':>8}")
    for writer, label in _WRITERS.items():
        median, best = statistics.median(seconds[writer]), min(seconds[writer])
        ratios = f"{statistics.median(seconds['oiv']) / median:>8.1f}{min(seconds['oiv']) / best:>8.1f}"
        print(f"  {label:<18}{seconds[writer][0]:>9.2f}{median:>9.2f}{best:>9.2f}{rows / median:>12,.0f}{ratios}")
    print(f"  OIV's heap {found['oivHeap']}; Spark's session started in {found['sessionStartSeconds']:.1f} s")
    print(f"  peak of the driver's JVM {found['driverPeakBytes'] / 1e6:,.0f} MB resident, its heap {_DRIVER_MEMORY}")
    for name, each in found["commands"].items():
        peak = f", JVM {each['driverPeakBytes'] / 1e6:,.0f} MB" if each["driverPeakBytes"] else ""
        print(f"  {name:<18}{each['seconds']:>9.1f} s{peak}")


if __name__ == "__main__":
    main()
