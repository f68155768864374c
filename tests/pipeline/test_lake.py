"""The lake: no duplicates, no partial content, and the next append finishes a killed one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from journal import ops
from journal.operation import EditOp
from pipeline import read_image
from pipeline.errors import SourceFileError
from pipeline.lake import (
    LakeBusyError,
    append_edits,
    append_image,
    images_in_lake,
    lake_contents,
    read_lake_edits,
    read_lake_images,
    retain_images,
)
from pipeline.lake.commits import TxidRange, image_commit
from pipeline.lake.files import HadoopFiles
from tests.cli_runner import run_cli
from tests.engine.op_makers import mkdir
from tests.journal.journal_support import numbered
from tests.pipeline.edits_support import write_segment
from tests.recorded_cases import RECORDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400_000
MIDNIGHT = 19_700 * DAY  # 2023-12-09
BASIC = RECORDED / "hadoop-3.4.1" / "basic-files"
REPOSITORY = Path(__file__).parents[2]


class KilledError(BaseException):
    """Stands for SIGKILL: nothing of ours runs after it but what ends with the process anyway."""


def segment(folder: Path, first: int, *times: int) -> Path:
    made: list[EditOp] = [ops.StartLogSegmentOp()]
    made += [mkdir(f"/d{first + index}", 1, time) for index, time in enumerate(times, 1)]
    return write_segment(folder, numbered([*made, ops.EndLogSegmentOp()], first))


@pytest.fixture
def edits(tmp_path: Path) -> Path:
    """Transactions 1 .. 8 of two days, in two segments."""
    segment(tmp_path / "edits", 1, MIDNIGHT - 2, MIDNIGHT - 1)
    segment(tmp_path / "edits", 5, MIDNIGHT - 1, MIDNIGHT + 1)
    return tmp_path / "edits"


def state(lake: Path) -> dict[str, int]:
    return {str(path.relative_to(lake)): path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file()}


def days(spark: SparkSession, lake: Path) -> dict[str, list[int]]:
    """Return txids by day, read without knowledge of our commits."""
    found: dict[str, list[int]] = {}
    if list((lake / "edits").glob("*/*.parquet")):  # Spark refuses a directory without any
        for row in spark.read.parquet(str(lake / "edits")).select("day", "txid").collect():
            found.setdefault(str(row.day), []).append(row.txid)
    return {day: sorted(txids) for day, txids in found.items()}


ALL_DAYS = {"2023-12-08": [1, 2, 3, 4, 5, 6], "2023-12-09": [7, 8]}


def test_edits_lie_by_day_and_a_rerun_changes_nothing(spark: SparkSession, edits: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert append_edits(spark, str(edits), str(lake)).ranges == [TxidRange(1, 8)]
    assert days(spark, lake) == ALL_DAYS
    before = state(lake)
    assert append_edits(spark, str(edits), str(lake)).ranges == ()
    assert state(lake) == before
    segment(edits, 9, MIDNIGHT + 2)
    segment(edits, 14, MIDNIGHT + DAY)
    write_segment(edits, numbered([ops.StartLogSegmentOp(), mkdir("/x", 1, MIDNIGHT)], 7))
    done = append_edits(spark, str(edits), str(lake))
    assert (done.ranges, done.missing) == ([TxidRange(9, 11), TxidRange(14, 16)], [TxidRange(12, 13)])
    assert before.items() <= state(lake).items()
    read = read_lake_edits(spark, str(lake))
    assert sorted(row.txid for row in read.collect()) == [*range(1, 12), 14, 15, 16]
    assert [row.txid for row in read.where("day = '2023-12-10'").orderBy("txid").collect()] == [14, 15, 16]
    assert lake_contents(spark, str(lake)).as_dict() == {
        "images": [],
        "edits": [{"first": 1, "last": 11}, {"first": 14, "last": 16}],
        "missing": [{"first": 12, "last": 13}],
    }


def test_transactions_without_any_time_lie_by_when_they_were_written(spark: SparkSession, tmp_path: Path) -> None:
    segment(tmp_path / "edits", 1)
    lake = tmp_path / "lake"
    append_edits(spark, str(tmp_path / "edits"), str(lake))
    (found,) = days(spark, lake).values()
    assert found == [1, 2]


def test_images_and_how_many_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    lake, images = tmp_path / "lake", tmp_path / "images"
    images.mkdir()
    sources = sorted({path.name: path for path in RECORDED.glob(f"hadoop-3.4.1/*/before/fsimage_{'?' * 19}")}.items())[
        :3
    ]
    txids = [int(name.removeprefix("fsimage_")) for name, _ in sources]
    for txid, (name, path) in zip(txids, sources, strict=True):
        shutil.copy(path, images / name)
        assert append_image(spark, str(images), f"file://{lake}") == txid
    before = state(lake)
    assert append_image(spark, str(images / sources[1][0]), str(lake)) is None
    assert state(lake) == before
    counts = [read_image(spark, str(images / name)).count() for name, _ in sources]
    assert spark.read.parquet(str(lake / "inodes")).count() == sum(counts)
    assert read_lake_images(spark, str(lake)).where(f"txid = {txids[1]}").count() == counts[1]
    assert [each["rows"] for each in lake_contents(spark, str(lake)).images] == counts
    assert retain_images(spark, str(lake), 2) == txids[:1]
    assert retain_images(spark, str(lake), 2) == []
    assert images_in_lake(spark, str(lake)) == txids[1:]
    assert sorted(path.name for path in (lake / "inodes").iterdir()) == sorted(f"txid={txid}" for txid in txids[1:])
    assert list((lake / "_staging").iterdir()) == []
    with pytest.raises(SourceFileError, match="fsimage"):
        append_image(spark, str(lake), str(lake))


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sets the step, counted from 0, before which the next append is killed; gives the number of steps made."""
    left = [-1]

    def counted(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if left[0] == 0:
                raise KilledError
            left[0] -= 1
            return method(*arguments)

        return call

    for name in ("_rename", "remove"):
        monkeypatch.setattr(HadoopFiles, name, counted(getattr(HadoopFiles, name)))
    return left


def test_edits_killed_anywhere_are_finished_and_never_seen_in_part(
    spark: SparkSession, edits: Path, tmp_path: Path, killed: list[int]
) -> None:
    steps = 0
    while True:
        lake = tmp_path / f"lake{steps}"
        killed[0] = steps
        try:
            append_edits(spark, str(edits), str(lake))
            break
        except KilledError:
            killed[0] = -1
        seen = days(spark, lake)
        assert seen.items() <= ALL_DAYS.items()
        committed = lake_contents(spark, str(lake)).edits
        assert committed == ([TxidRange(1, 8)] if seen == ALL_DAYS and committed else [])
        append_edits(spark, str(edits), str(lake))
        assert days(spark, lake) == ALL_DAYS
        assert lake_contents(spark, str(lake)).edits == [TxidRange(1, 8)]
        assert list((lake / "_staging").iterdir()) == []
        steps += 1
    assert steps == 6  # plan, a file for each of two days, commit, and two for tidying up


def test_an_image_killed_anywhere(spark: SparkSession, tmp_path: Path, killed: list[int]) -> None:
    image = str(BASIC / "before")
    rows = read_image(spark, image).count()
    for step in range(5):  # plan, the image, commit, and two for tidying up
        lake = tmp_path / f"lake{step}"
        killed[0] = step
        with pytest.raises(KilledError):
            append_image(spark, image, str(lake))
        killed[0] = -1
        there = list((lake / "inodes").glob("*/*.parquet"))
        assert not there or spark.read.parquet(str(lake / "inodes")).count() == rows
        append_image(spark, image, str(lake))
        assert read_lake_images(spark, str(lake)).count() == rows
        assert list((lake / "_staging").iterdir()) == []


def test_a_removal_killed_anywhere(spark: SparkSession, tmp_path: Path, killed: list[int]) -> None:
    for step in range(5):  # plan, uncommit, the image, and two for tidying up
        lake = tmp_path / f"lake{step}"
        files = HadoopFiles(spark, str(lake))
        (lake / "inodes" / "txid=5").mkdir(parents=True)
        (lake / "inodes" / "txid=5" / "part.parquet").write_bytes(b"rows")
        files.write_json(image_commit(5), {"txid": 5})
        files.write_json(image_commit(6), {"txid": 6})
        killed[0] = step
        with pytest.raises(KilledError):
            retain_images(spark, str(lake), 1)
        killed[0] = -1
        retain_images(spark, str(lake), 1)
        assert images_in_lake(spark, str(lake)) == [6]
        assert list((lake / "inodes").iterdir()) == []
        assert list((lake / "_staging").iterdir()) == []


@pytest.mark.deep
def test_sigkill(spark: SparkSession, edits: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "tests.pipeline.lake_child", str(edits), str(lake), "2"]
    child = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert days(spark, lake) == {"2023-12-08": ALL_DAYS["2023-12-08"]}
    assert lake_contents(spark, str(lake)).edits == []
    append_edits(spark, str(edits), str(lake))
    assert days(spark, lake) == ALL_DAYS


def test_two_at_once(spark: SparkSession, edits: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def run(_: int) -> str:
        try:
            append_edits(spark, str(edits), str(lake))
        except LakeBusyError:
            return "busy"
        return "done"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(run, range(4)))
    assert "done" in outcomes
    assert set(outcomes) <= {"done", "busy"}
    assert days(spark, lake) == ALL_DAYS
    with HadoopFiles(spark, str(lake)).lock():
        assert append_edits(spark, str(edits), str(lake)).ranges == ()
        segment(edits, 9, MIDNIGHT)
        with pytest.raises(LakeBusyError):
            append_edits(spark, str(edits), str(lake))
    assert append_edits(spark, str(edits), str(lake)).ranges == [TxidRange(9, 11)]


def test_another_file_system(spark: SparkSession, edits: Path, tmp_path: Path) -> None:
    where = f"viewfs://files{tmp_path}"
    assert append_edits(spark, f"{where}/edits", f"{where}/lake").ranges == [TxidRange(1, 8)]
    assert days(spark, tmp_path / "lake") == ALL_DAYS
    assert append_edits(spark, f"{where}/edits", f"{where}/lake").ranges == ()
    assert not (tmp_path / "lake" / "_lock").exists()


def test_a_lake_that_is_missing_is_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cli.lake_command.spark_for", lambda *_, **__: nullcontext(spark))
    told = run_cli("lake", "list", tmp_path / "typo")
    assert (told.code, f"no lake exists at {tmp_path}/typo" in told.err) == (6, True), told
