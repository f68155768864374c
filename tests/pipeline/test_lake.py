"""The lake: no duplicates, no partial content, and the next append repeats an append that was killed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.table import TableFeatures

from pipeline.errors import LakeError, SourceFileError
from pipeline.lake import (
    ImageOptions,
    append_edits,
    append_image,
    images_in_lake,
    lake_contents,
    read_lake_edits,
    read_lake_images,
    vacuum,
)
from pipeline.lake.delta import LakeTable, lake_errors
from pipeline.lake.lake import edits_table
from pipeline.lake.ranges import TxidRange
from pipeline.lake.reading import LakeUri
from pipeline.lake.upkeep import join_files
from pipeline.lake.writing import LakeFileWriter
from pipeline.reports.inputs import open_edits, open_image
from pipeline.reports.lake_inputs import edit_files
from tests.cli_runner import run_cli
from tests.depth import SEED, scaled
from tests.pipeline.lake_support import CASE, DAY, MIDNIGHT, NO_SPARK, days, image_rows, segment, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "CID-53b3e9fe-d929-4eb4-bbff-fe13a28bde2e.1579654704"
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def edits(tmp_path: Path) -> Path:
    """Transactions 1 .. 8 of two days, in two segments."""
    segment(tmp_path / "edits", 1, MIDNIGHT - 2, MIDNIGHT - 1)
    segment(tmp_path / "edits", 5, MIDNIGHT - 1, MIDNIGHT + 1)
    return tmp_path / "edits"


ALL_DAYS = {"2023-12-08": [1, 2, 3, 4, 5, 6], "2023-12-09": [7, 8]}


def test_edits_are_partitioned_by_day_and_a_rerun_changes_nothing(edits: Path, lake: str) -> None:
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


def test_edits_of_a_namenode_after_a_set_back_are_refused(edits: Path, tmp_path: Path, lake: str) -> None:
    append_edits(NO_SPARK, str(edits), lake)
    before = state(lake)
    segment(tmp_path / "new", 5, MIDNIGHT + 7, MIDNIGHT + 8)
    segment(tmp_path / "new", 9, MIDNIGHT + 9)
    with pytest.raises(LakeError, match=r"edits_0*5-0*8: transaction 6 differs .* was set back") as caught:
        append_edits(NO_SPARK, str(tmp_path / "new"), lake)
    assert "--cluster" in caught.value.hint
    assert state(lake) == before
    assert append_edits(NO_SPARK, str(tmp_path / "new"), lake, "new").ranges == [TxidRange(5, 11)]


def test_files_of_a_past_day_are_joined_into_one(edits: Path, lake: str) -> None:
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


def test_joined_files_do_not_hide_a_gap(edits: Path, lake: str) -> None:
    for first in (20, 30):
        append_edits(NO_SPARK, str(segment(edits, first, MIDNIGHT - DAY)), lake)
    append_edits(NO_SPARK, str(segment(edits, 40, MIDNIGHT)), lake)
    assert len(DeltaTable(f"{lake}/edits").file_uris()) == 2
    found = [TxidRange(20, 22), TxidRange(30, 32), TxidRange(40, 42)]
    assert lake_contents(lake).edits == {"default": found}


def test_two_processes_joining_the_same_files_duplicate_nothing(edits: Path, lake: str) -> None:
    for first in (20, 24):
        append_edits(NO_SPARK, str(segment(edits, first, MIDNIGHT)), lake)
    first, second = edits_table(lake), edits_table(lake)
    for table in (first, second):
        join_files(table, 2, only={})
    assert days(lake) == {"2023-12-09": [20, 21, 22, 24, 25, 26]}
    assert len(DeltaTable(f"{lake}/edits").file_uris()) == 1


def test_a_concurrent_join_between_two_partitions_duplicates_nothing(
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


def test_transactions_without_a_time_use_the_time_of_their_file(tmp_path: Path, lake: str) -> None:
    path = segment(tmp_path / "edits", 1)
    os.utime(path, (MIDNIGHT / 1000, MIDNIGHT / 1000))
    append_edits(NO_SPARK, str(path), lake)
    assert days(lake) == {"2023-12-09": [1, 2]}


def test_transactions_of_a_distant_future_have_their_own_day(tmp_path: Path, lake: str) -> None:
    in_300_years = MIDNIGHT + 300 * 365 * DAY
    append_edits(NO_SPARK, str(segment(tmp_path, 1, in_300_years - 1, in_300_years)), lake)
    assert days(lake) == {"2323-09-27": [1, 2], "2323-09-28": [3, 4]}


def test_every_delta_reader_computes_equal_sums(spark: SparkSession, lake: str) -> None:
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


def test_spark_reads_a_lake_whose_path_contains_special_characters(
    spark: SparkSession, tmp_path: Path, edits: Path
) -> None:
    lake = f"{tmp_path}/a b%zz#ü?{{x,y}}[z]*@"
    append_edits(NO_SPARK, str(edits), lake)
    append_image(spark.sparkContext, str(CASE / "after"), lake, ImageOptions(tables=()))
    assert read_lake_edits(spark, lake).count() == 8
    assert read_lake_images(spark, f"file:{lake}").count() == len(image_rows("after"))


@pytest.mark.parametrize("name", ["a%20b", "a\\b"])
def test_a_path_that_the_library_changes_is_refused(tmp_path: Path, edits: Path, name: str) -> None:
    with pytest.raises(LakeError, match="cannot contain a lake"):
        append_edits(NO_SPARK, str(edits), str(tmp_path / name))
    assert not (tmp_path / name).exists()


def test_vacuum_keeps_files_that_are_about_to_be_committed(edits: Path, lake: str) -> None:
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


def test_a_report_counts_the_edits_of_the_images_cluster(edits: Path, lake: str) -> None:
    for cluster in ("a", "b"):
        append_edits(NO_SPARK, str(edits), lake, cluster)
    files = edit_files(NO_SPARK, LakeUri(lake), "a")
    assert files == edit_files(NO_SPARK, LakeUri(lake, "a"), "b")
    assert all("cluster=a" in file.path for file in files)
    with pytest.raises(LakeError, match="clusters a, b"):
        edit_files(NO_SPARK, LakeUri(lake), "")


def test_a_report_refuses_the_edits_of_another_namespace(edits: Path, tmp_path: Path, lake: str) -> None:
    image = open_image(NO_SPARK, str(CASE / "before"))
    for cluster in ("CID-other.7000000", CLUSTER):
        append_edits(NO_SPARK, str(edits), f"{lake}-{cluster}", cluster)
    with pytest.raises(
        LakeError, match=r"only edits of the cluster CID-other\.7000000, but the image belongs to namespace"
    ):
        open_edits(NO_SPARK, f"{lake}-CID-other.7000000", image)
    assert open_edits(NO_SPARK, f"{lake}-CID-other.7000000@CID-other.7000000", image)
    append_edits(NO_SPARK, str(edits), f"{lake}-{CLUSTER}", "CID-other.7000000")
    (part, *_) = open_edits(NO_SPARK, f"{lake}-{CLUSTER}", image)
    assert f"cluster={CLUSTER}/" in str(part)
    assert open_edits(NO_SPARK, str(CASE / "before"), image)
    version = (CASE / "before" / "VERSION").read_text()
    (edits / "VERSION").write_text(version.replace("namespaceID=1579654704", "namespaceID=7"))
    with pytest.raises(SourceFileError, match=r"edits belongs to namespace 7, but .* to namespace 1579654704"):
        open_edits(NO_SPARK, str(edits), image)


def test_concurrent_appends_all_succeed(edits: Path, tmp_path: Path, lake: str) -> None:
    segment(tmp_path / "more", 9, MIDNIGHT + 2)
    jobs = [(edits, "a"), (edits, "a"), (tmp_path / "more", "a"), (edits, "b")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: append_edits(NO_SPARK, str(job[0]), lake, job[1]), jobs))
    assert days(lake, "a") == {**ALL_DAYS, "2023-12-09": [7, 8, 9, 10, 11]}
    assert days(lake, "b") == ALL_DAYS


def test_an_append_succeeds_if_another_process_creates_the_table_first(
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
def test_two_processes_may_create_the_table_at_the_same_time(
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


def test_killed_writers_lose_no_reported_append(tmp_path: Path, lake: str) -> None:
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


def test_a_lake_of_several_clusters_requires_a_cluster_name(edits: Path, lake: str) -> None:
    for cluster in ("a", "b"):
        append_edits(NO_SPARK, str(edits), lake, cluster)
    with pytest.raises(LakeError, match="cluster is unknown"):
        append_edits(NO_SPARK, str(edits), lake)
    with pytest.raises(LakeError, match="is not a valid cluster name"):
        append_edits(NO_SPARK, str(edits), lake, "a/b")


def test_a_missing_lake_is_an_error(tmp_path: Path) -> None:
    for command in ("list", "report", "optimize"):
        outcome = run_cli("lake", command, tmp_path / "typo")
        assert (outcome.code, f"no lake exists at {tmp_path}/typo" in outcome.err) == (6, True), outcome


def test_a_storage_failure_is_one_error(edits: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LakeError, match="file"):
        append_edits(NO_SPARK, str(edits), str(tmp_path / "file" / "lake"))


def test_the_error_of_a_full_disk_is_plain_text_with_a_hint() -> None:
    """The message is from deltalake 1.6."""
    arrow = "\x1b[31m↳\x1b[0m"
    text = f"Generic LocalFileSystem error {arrow} Unable to copy data {arrow} No space left on device (os error 28)"
    with pytest.raises(LakeError) as found, lake_errors("/lake"):
        raise DeltaError(text)
    assert found.value.message == f"/lake: {text.replace(arrow, '↳')}"
    assert found.value.hint == "Free space on its disk, then try again."


def test_a_table_with_unsupported_delta_features_refuses_appends(no_spark: Any, edits: Path, lake: str) -> None:
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
