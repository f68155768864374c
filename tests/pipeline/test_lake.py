"""The lake: no duplicates, no partial content, and the next append repeats a killed one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableFeatures

from archive.adding import add_directory
from archive.archive import open_archive
from journal import ops
from journal.operation import EditOp
from pipeline.errors import LakeError, SourceFileError
from pipeline.lake import (
    ImageOptions,
    append_edits,
    append_image,
    find_lake_image,
    images_in_lake,
    lake_contents,
    parse_lake_uri,
    read_lake_edits,
    read_lake_images,
    retain_images,
    vacuum,
)
from pipeline.lake.delta import LakeTable
from pipeline.lake.growth import _lengths, _summed
from pipeline.lake.lake import edits_table, image_table, images_table
from pipeline.lake.ranges import TxidRange
from pipeline.lake.reading import LakeUri
from pipeline.lake.upkeep import join_files, remove_orphans
from pipeline.lake.writing import LakeFileWriter
from pipeline.reports.lake_inputs import edit_files
from pipeline.sources.fsimage import FsImageDataSource
from tests.cli_runner import run_cli
from tests.depth import SEED, scaled
from tests.engine.op_makers import mkdir
from tests.journal.journal_support import numbered
from tests.pipeline.edits_support import write_segment
from tests.pipeline.lake_child import InProcess
from tests.recorded_cases import RECORDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400_000
MIDNIGHT = 19_700 * DAY  # 2023-12-09
CASE = RECORDED / "hadoop-3.4.1" / "snapshots-basic"
CLUSTER = "CID-53b3e9fe-d929-4eb4-bbff-fe13a28bde2e.1579654704"
REPOSITORY = Path(__file__).parents[2]
NO_SPARK: Any = InProcess()


def image_rows(folder: str, table: str = "inodes") -> list[dict[str, Any]]:
    source = FsImageDataSource({"path": str(CASE / folder), "table": table})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def lake_rows(lake: str, txid: int, table: str = "inodes") -> list[dict[str, Any]]:
    """Return rows as a reader of Delta sees them, without the columns of the partition."""
    rows = DeltaTable(f"{lake}/{table}").to_pyarrow_table(filters=[("txid", "=", txid)]).to_pylist()
    return [{name: value for name, value in row.items() if name not in ("cluster", "txid")} for row in rows]


class KilledError(BaseException):
    """A simulated SIGKILL: only the work of other processes continues after it."""


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


def state(lake: str) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in Path(lake).rglob("*") if path.is_file()}


def days(lake: str, cluster: str = "default") -> dict[str, list[int]]:
    """Return txids by day, as a reader of Delta sees them."""
    found: dict[str, list[int]] = {}
    for row in DeltaTable(f"{lake}/edits").to_pyarrow_table().to_pylist():
        if row["cluster"] == cluster:
            found.setdefault(str(row["day"]), []).append(row["txid"])
    return {day: sorted(txids) for day, txids in found.items()}


ALL_DAYS = {"2023-12-08": [1, 2, 3, 4, 5, 6], "2023-12-09": [7, 8]}


def test_edits_lie_by_day_and_a_rerun_changes_nothing(edits: Path, lake: str) -> None:
    assert append_edits(NO_SPARK, str(edits), lake).ranges == [TxidRange(1, 8)]
    assert days(lake) == ALL_DAYS
    before = state(lake)
    assert append_edits(NO_SPARK, str(edits), lake).ranges == []
    assert state(lake) == before
    segment(edits, 9, MIDNIGHT + 2)
    segment(edits, 14, MIDNIGHT + DAY)
    done = append_edits(NO_SPARK, str(edits), lake)
    assert (done.ranges, done.missing) == ([TxidRange(9, 11), TxidRange(14, 16)], [TxidRange(12, 13)])
    assert days(lake) == {**ALL_DAYS, "2023-12-09": [7, 8, 9, 10, 11], "2023-12-10": [14, 15, 16]}
    assert lake_contents(lake).as_dict() == {
        "images": [],
        "edits": [{"cluster": "default", "first": 1, "last": 11}, {"cluster": "default", "first": 14, "last": 16}],
        "missing": [{"cluster": "default", "first": 12, "last": 13}],
    }


def test_edits_of_a_namenode_that_was_set_back_are_refused(edits: Path, tmp_path: Path, lake: str) -> None:
    append_edits(NO_SPARK, str(edits), lake)
    before = state(lake)
    segment(tmp_path / "new", 5, MIDNIGHT + 7, MIDNIGHT + 8)
    segment(tmp_path / "new", 9, MIDNIGHT + 9)
    with pytest.raises(LakeError, match=r"edits_0*5-0*8: transaction 6 differs .* was set back") as caught:
        append_edits(NO_SPARK, str(tmp_path / "new"), lake)
    assert "--cluster" in caught.value.hint
    assert state(lake) == before
    assert append_edits(NO_SPARK, str(tmp_path / "new"), lake, "new").ranges == [TxidRange(5, 11)]


def test_a_day_that_is_over_becomes_one_file_with_the_same_transactions(edits: Path, lake: str) -> None:
    with mock.patch.object(LakeTable, "vacuum") as vacuumed:
        for path in sorted(edits.iterdir()):
            append_edits(NO_SPARK, str(path), lake)
        segment(edits, 14, MIDNIGHT + DAY)
        append_edits(NO_SPARK, str(edits), lake)
        vacuumed.assert_called_once_with()
    assert days(lake) == {**ALL_DAYS, "2023-12-10": [14, 15, 16]}
    by_day = Counter(uri.split("day=")[1][:10] for uri in DeltaTable(f"{lake}/edits").file_uris())
    assert by_day == {"2023-12-08": 1, "2023-12-09": 1, "2023-12-10": 1}
    assert lake_contents(lake).edits == {"default": [TxidRange(1, 8), TxidRange(14, 16)]}


def test_joined_files_with_a_gap_do_not_hide_it(edits: Path, lake: str) -> None:
    for first in (20, 30):
        append_edits(NO_SPARK, str(segment(edits, first, MIDNIGHT - DAY)), lake)
    append_edits(NO_SPARK, str(segment(edits, 40, MIDNIGHT)), lake)
    assert len(DeltaTable(f"{lake}/edits").file_uris()) == 2
    found = [TxidRange(20, 22), TxidRange(30, 32), TxidRange(40, 42)]
    assert lake_contents(lake).edits == {"default": found}


def test_two_processes_that_join_the_same_files_duplicate_nothing(edits: Path, lake: str) -> None:
    for first in (20, 24):
        append_edits(NO_SPARK, str(segment(edits, first, MIDNIGHT)), lake)
    first, second = edits_table(lake), edits_table(lake)
    for table in (first, second):
        join_files(table, 2, only={})
    assert days(lake) == {"2023-12-09": [20, 21, 22, 24, 25, 26]}
    assert len(DeltaTable(f"{lake}/edits").file_uris()) == 1


def test_a_process_that_joins_between_two_partitions_duplicates_nothing(
    edits: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(edits, 9, MIDNIGHT + 2)
    with mock.patch("pipeline.lake.append.join_files"):
        for path in sorted(edits.iterdir()):
            append_edits(NO_SPARK, str(path), lake)
    table, real = edits_table(lake), LakeTable.reload

    def reload(self: LakeTable) -> None:
        monkeypatch.setattr(LakeTable, "reload", real)
        join_files(edits_table(lake), 2, only={})
        real(self)

    monkeypatch.setattr(LakeTable, "reload", reload)
    join_files(table, 2, only={})
    assert days(lake) == {**ALL_DAYS, "2023-12-09": [7, 8, 9, 10, 11]}
    assert len(DeltaTable(f"{lake}/edits").file_uris()) == 2


def test_transactions_without_any_time_lie_by_when_they_were_written(tmp_path: Path, lake: str) -> None:
    path = segment(tmp_path / "edits", 1)
    os.utime(path, (MIDNIGHT / 1000, MIDNIGHT / 1000))
    append_edits(NO_SPARK, str(path), lake)
    assert days(lake) == {"2023-12-09": [1, 2]}


def test_images_and_how_many_are_kept(no_spark: Any, tmp_path: Path, lake: str) -> None:
    images = tmp_path / "images"
    images.mkdir()
    sources = [CASE / "before" / "fsimage_0000000000000000092", CASE / "after" / "fsimage_0000000000000000292"]
    for number, source in enumerate(sources):
        shutil.copy(source, images)
        os.utime(images / source.name, (1000 + number, 1000 + number))
        done = append_image(no_spark, str(images), f"file://{lake}", ImageOptions(cluster="c", tables=("snapshots",)))
        assert done is not None
        assert done.txid == (92, 292)[number]
    before = state(lake)
    assert append_image(no_spark, str(images / sources[0].name), lake) is None
    assert state(lake) == before
    counts = [len(image_rows(name)) for name in ("before", "after")]
    assert [(each.rows, each.time.timestamp()) for each in lake_contents(lake).images] == [
        (counts[0], 1000),
        (counts[1], 1001),
    ]
    at = {"": 292, "@92": 92, f"@{datetime.fromtimestamp(1000.5, UTC).isoformat()}": 92, "@c": 292, "@c@92": 92}
    for suffix, txid in at.items():
        uri = parse_lake_uri(lake + suffix)
        assert uri is not None
        assert find_lake_image(uri).txid == txid, suffix
    with pytest.raises(SourceFileError, match="no image 7"):
        find_lake_image(parse_lake_uri(f"{lake}@7"))  # type: ignore[arg-type]
    assert retain_images(lake, 1, "c") == [92]
    assert retain_images(lake, 1, "c") == []
    assert [image.txid for image in images_in_lake(lake)] == [292]
    assert vacuum(lake, 0) > 0
    for table in ("inodes", "snapshots"):
        assert lake_rows(lake, 292, table) == image_rows("after", table)
        assert lake_rows(lake, 92, table) == []
    assert not list((Path(lake) / "inodes").glob("*/txid=92/*"))
    with pytest.raises(SourceFileError, match="fsimage"):
        append_image(no_spark, lake, lake)
    os.utime(images / sources[0].name, (1002, 1002))
    with pytest.raises(LakeError, match=r"newer than image 292 .* was set back"):
        append_image(no_spark, str(images / sources[0].name), lake)


def test_every_reader_of_delta_gets_equal_sums(spark: SparkSession, lake: str) -> None:
    # imported here, because polars would delay the collection of tests by half a second
    import duckdb
    import polars as pl

    append_image(spark.sparkContext, str(CASE / "before"), lake, ImageOptions(tables=()))
    append_edits(spark.sparkContext, str(CASE / "before"), lake)
    rows = image_rows("before")
    wanted = (len(rows), sum(row["length"] or 0 for row in rows))
    assert read_lake_images(spark, lake).where("txid = 92").selectExpr("count(*)", "sum(length)").first() == wanted
    transactions = (200, sum(range(93, 293)))
    assert read_lake_edits(spark, lake).selectExpr("count(*)", "sum(txid)").first() == transactions
    inodes: Any = DeltaTable(f"{lake}/inodes").to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by name
    assert duckdb.sql("SELECT count(*), sum(length)::BIGINT FROM inodes WHERE txid = 92").fetchall() == [wanted]
    edits = duckdb.read_parquet(DeltaTable(f"{lake}/edits").file_uris())
    assert edits.aggregate("count(*), sum(txid)::BIGINT").fetchall() == [transactions]
    table = pl.scan_delta(f"{lake}/inodes").filter(pl.col("cluster") == CLUSTER)
    assert table.select(pl.len(), pl.col("length").sum().alias("length")).collect().row(0) == wanted
    edits_of_polars = pl.scan_delta(f"{lake}/edits")
    assert edits_of_polars.select(pl.len(), pl.col("txid").sum()).collect().row(0) == transactions


def test_a_file_that_is_about_to_be_committed_stays(edits: Path, lake: str) -> None:
    append_edits(NO_SPARK, str(edits), lake)
    table = edits_table(lake)
    writer = LakeFileWriter(table.uri, {"cluster": "c", "day": "2023-12-09"}, pa.schema([("txid", pa.int64())]))
    writer.add(pa.RecordBatch.from_pydict({"txid": [9]}, writer.schema))
    file = writer.close()
    assert vacuum(lake, 0) == 0
    table.commit([file], "edits/c", 9)
    assert table.read(["txid"], [file]).column("txid").to_pylist() == [9]


def test_files_of_another_program_are_never_deleted(edits: Path, lake: str) -> None:
    def with_age(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (0, 0))
        return path

    version = with_age(Path(lake) / "edits" / "current" / "VERSION")
    with pytest.raises(LakeError, match="is not a table of a lake, but contains current"):
        append_edits(NO_SPARK, str(edits), lake)
    version.rename(Path(lake) / "VERSION")
    version.parent.rmdir()
    append_edits(NO_SPARK, str(edits), lake)
    left = with_age(Path(lake) / "edits" / "cluster=default" / "part-left.parquet")
    with_age(version)
    assert (vacuum(lake), left.exists(), version.exists()) == (0, True, True)
    shutil.rmtree(version.parent)
    assert (vacuum(lake), left.exists()) == (1, False)


def test_a_killed_retention_leaves_no_image_without_files(
    no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("before", "after"):
        append_image(no_spark, str(CASE / name), lake, ImageOptions(cluster="c", tables=()))
    real = LakeTable.replace

    def replace_rows(self: LakeTable, *arguments: Any) -> None:
        if self.name != "images":
            raise KilledError
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "replace", replace_rows)
    with pytest.raises(KilledError):
        retain_images(lake, 1, "c")
    monkeypatch.setattr(LakeTable, "replace", real)
    assert [image.txid for image in images_in_lake(lake)] == [292]
    remove_orphans(lake)
    assert len(lake_rows(lake, 92)) > 0
    remove_orphans(lake, 0)
    assert lake_rows(lake, 92) == []
    assert lake_rows(lake, 292) == image_rows("after")


def test_retention_repeats_after_a_replacement_by_another_process(
    no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("before", "after"):
        for cluster in ("a", "b"):
            append_image(no_spark, str(CASE / name), lake, ImageOptions(cluster=cluster, tables=()))
    real, others = LakeTable.replace, [True]

    def replace(self: LakeTable, *arguments: Any) -> None:
        if self.name == "inodes" and others and others.pop():
            others.append(False)
            assert retain_images(lake, 1, "b") == [92]
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "replace", replace)
    assert retain_images(lake, 1, "a") == [92]
    assert [(image.cluster, image.txid) for image in lake_contents(lake).images] == [("a", 292), ("b", 292)]
    assert lake_rows(lake, 92) == []


def test_growth_of_absurd_lengths_saturates() -> None:
    lengths = _lengths(pa.chunked_array([[1 << 62, (1 << 63) - 2, -1, None, 5]]))
    assert lengths.to_pylist() == [0, 0, 0, 0, 5]
    rows = pa.table({"owner": ["a"] * 2, "files": [1, 1], "directories": [0, 0], "bytes": [1 << 62] * 2})
    assert _summed(rows, ["owner"]).to_pylist() == [
        {"owner": "a", "files": 2, "directories": 0, "bytes": (1 << 63) - 1}
    ]


def test_a_report_counts_the_edits_of_the_image_s_cluster(edits: Path, lake: str) -> None:
    for cluster in ("a", "b"):
        append_edits(NO_SPARK, str(edits), lake, cluster)
    files = edit_files(NO_SPARK, LakeUri(lake), "a")
    assert files == edit_files(NO_SPARK, LakeUri(lake, "a"), "b")
    assert all("cluster=a" in file.path for file in files)
    with pytest.raises(LakeError, match="clusters a, b"):
        edit_files(NO_SPARK, LakeUri(lake), "")


def test_an_image_killed_anywhere(no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image, left = str(CASE / "before"), [-1]
    real = LakeTable.commit

    def commit(self: LakeTable, *arguments: Any) -> None:
        if left[0] == 0:
            raise KilledError
        left[0] -= 1
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "commit", commit)
    options = ImageOptions(tables=("snapshots",))
    for step in range(3):  # snapshots, inodes, images
        root = f"{lake}{step}"
        left[0] = step
        with pytest.raises(KilledError):
            append_image(no_spark, image, root, options)
        assert images_in_lake(root) == []
        left[0] = -1
        done = append_image(no_spark, image, root, options)
        assert done is not None
        assert image_table(root, "inodes").read(["id"]).num_rows == done.rows
        assert append_image(no_spark, image, root, options) is None


def test_two_processes_that_append_the_same_image(no_spark: Any, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image, real = str(CASE / "before"), LakeTable.commit
    options = ImageOptions(tables=())
    outcomes = []

    def commit(self: LakeTable, *arguments: Any) -> None:
        monkeypatch.setattr(LakeTable, "commit", real)
        outcomes.append(append_image(no_spark, image, lake, options))
        real(self, *arguments)

    monkeypatch.setattr(LakeTable, "commit", commit)
    assert append_image(no_spark, image, lake, options) is None
    (other,) = outcomes
    assert other is not None
    assert image_table(lake, "inodes").read(["id"]).num_rows == other.rows
    assert images_table(lake).read(["txid"]).num_rows == 1


def test_a_table_with_a_feature_of_another_program_takes_no_image_and_no_edits(
    no_spark: Any, edits: Path, lake: str
) -> None:
    options = ImageOptions(cluster="c", tables=())
    append_image(no_spark, str(CASE / "before"), lake, options)
    append_edits(NO_SPARK, str(edits), lake, "c")
    for name in ("inodes", "edits"):
        table = DeltaTable(f"{lake}/{name}")
        table.alter.add_feature([TableFeatures.RowTracking], allow_protocol_versions_increase=True)
    with pytest.raises(LakeError, match=r"cannot be changed: .*RowTracking"):
        append_image(no_spark, str(CASE / "after"), lake, options)
    assert [image.txid for image in images_in_lake(lake)] == [92]
    with pytest.raises(LakeError, match=r"cannot be changed: .*RowTracking"):
        append_edits(NO_SPARK, str(segment(edits, 9, MIDNIGHT)), lake, "c")


def test_concurrent_appends_all_arrive(edits: Path, tmp_path: Path, lake: str) -> None:
    segment(tmp_path / "more", 9, MIDNIGHT + 2)
    jobs = [(edits, "a"), (edits, "a"), (tmp_path / "more", "a"), (edits, "b")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: append_edits(NO_SPARK, str(job[0]), lake, job[1]), jobs))
    assert days(lake, "a") == {**ALL_DAYS, "2023-12-09": [7, 8, 9, 10, 11]}
    assert days(lake, "b") == ALL_DAYS


def test_another_process_creates_the_table_and_appends_first(
    edits: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LakeTable.create

    def create(self: LakeTable) -> bool:
        monkeypatch.setattr(LakeTable, "create", real)
        append_edits(NO_SPARK, str(edits), lake, "a")
        return real(self)

    monkeypatch.setattr(LakeTable, "create", create)
    assert append_edits(NO_SPARK, str(edits), lake, "a").ranges == []
    assert days(lake, "a") == ALL_DAYS


@pytest.mark.parametrize("exists", [True, False])
def test_two_processes_create_the_table_at_the_same_time(
    edits: Path, lake: str, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    real = DeltaTable.create

    def create(*arguments: Any, **options: Any) -> None:
        if exists:
            real(*arguments, **options)
        raise CommitFailedError("Failed to commit transaction: Protocol changed since last commit: protocol changed")

    monkeypatch.setattr(DeltaTable, "create", create)
    with nullcontext() if exists else pytest.raises(LakeError, match="protocol changed"):
        append_edits(NO_SPARK, str(edits), lake, "a")
    if exists:
        assert days(lake, "a") == ALL_DAYS


def test_killed_writers_lose_nothing_that_they_reported(tmp_path: Path, lake: str) -> None:
    """SIGKILL after a random number of appends, at a random step; two writers append to each cluster."""
    chooser = random.Random(SEED)
    segments = 12
    folder = tmp_path / "edits"
    for number in range(segments):
        segment(folder, 1 + number * 4, MIDNIGHT - 1, MIDNIGHT + number)
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.lake_child", str(folder), lake, f"w{number // 2}"],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(scaled(10, quick=2))
    ]
    reported: dict[str, list[str]] = {}
    for number, child in enumerate(children):
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        first = [child.stdout.readline() for _ in range(chooser.randrange(segments))]
        child.kill()
        reported.setdefault(f"w{number // 2}", []).extend([*first, *child.stdout.read().splitlines()])
        child.wait()
    for name, lines in reported.items():
        rows = [txid for txids in days(lake, name).values() for txid in txids] if lines else []
        ranges = [tuple(map(int, line.split())) for line in lines if len(line.split()) == 2]
        assert {txid for first, last in ranges for txid in range(first, last + 1)} <= set(rows)
        assert len(rows) == len(set(rows))
        assert len(rows) % 4 == 0  # whole segments
        append_edits(NO_SPARK, str(folder), lake, name)
        assert sorted(txid for txids in days(lake, name).values() for txid in txids) == [*range(1, 4 * segments + 1)]


def test_a_state_of_the_past_from_an_archive(
    no_spark: Any, tmp_path: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cli.lake_command.context_for", lambda *_, **__: nullcontext(no_spark))
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, _storage_directory(tmp_path))
    past = ("--archive", tmp_path / "archive", "--table", "inodes")
    for txid in ("292", "100"):
        done = run_cli("lake", "append", *past, "--as-of", txid, lake)
        assert done.code == 0, done
    assert [image.txid for image in images_in_lake(lake)] == [100, 292]
    assert images_in_lake(lake)[0].time < images_in_lake(lake)[1].time
    assert [row["path"] for row in lake_rows(lake, 292)] == [row["path"] for row in image_rows("after")]
    told = run_cli("lake", "append", "--archive", tmp_path / "archive", lake)
    assert (told.code, "--as-of" in told.err) == (2, True)


def _storage_directory(tmp_path: Path) -> Path:
    shutil.copytree(CASE / "before", tmp_path / "nn" / "current")
    return tmp_path / "nn"


def test_an_input_of_an_unknown_cluster_needs_a_name_in_a_lake_of_several(edits: Path, lake: str) -> None:
    for cluster in ("a", "b"):
        append_edits(NO_SPARK, str(edits), lake, cluster)
    with pytest.raises(LakeError, match="cluster is unknown"):
        append_edits(NO_SPARK, str(edits), lake)
    with pytest.raises(LakeError, match="cannot be a cluster's name"):
        append_edits(NO_SPARK, str(edits), lake, "a/b")


def test_a_lake_that_is_missing_is_an_error(tmp_path: Path) -> None:
    for command in ("list", "report", "optimize"):
        told = run_cli("lake", command, tmp_path / "typo")
        assert (told.code, f"no lake exists at {tmp_path}/typo" in told.err) == (6, True), told


def test_a_storage_that_fails_is_one_error(edits: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LakeError, match="file"):
        append_edits(NO_SPARK, str(edits), str(tmp_path / "file" / "lake"))
