"""`spark.read.format("fsimage")` through a real Spark: the same rows, correct filters, errors in one line."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hadoop_common.errors import HdfsError
from image_format.errors import DigestMismatchError, RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited
from pipeline import read_image
from pipeline.errors import SourceFileError, SourceOptionError
from pipeline.task_errors import typed_error
from tests.image_format.image_support import RECORDED, build_image, minimal_sections, store
from tests.image_tools.dump_support import Viewed
from tests.pipeline.recorded_inodes import READER, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.recorded

IMAGES = ("hadoop-2.7.3/unicode", "hadoop-3.4.1/snapshots-rename-references", "hadoop-2.7.3/compress-gzip")
MEDIUM = Viewed(RECORDED / "hadoop-2.7.3" / "medium-20k" / "oiv_after.xml.gz").image
FILTERED = Viewed(RECORDED / "hadoop-2.7.3" / "random-mixed-1" / "oiv_after.xml.gz").image


def image_of(case: str) -> Path:
    return Viewed(RECORDED / case / "oiv_after.xml.gz").image


def rows_of(frame: DataFrame) -> list[dict[str, object]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: str(row["id"]))


def local(row: dict[str, object]) -> dict[str, object]:
    """Convert times as `collect` does: to naive times in the process's zone."""
    return {
        name: value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


@pytest.mark.parametrize("case", IMAGES)
def test_spark_returns_the_same_rows(spark: SparkSession, case: str, tmp_path: Path) -> None:
    expected = sorted(map(local, read(image_of(case), tmp_path)), key=lambda row: str(row["id"]))
    assert rows_of(read_image(spark, str(image_of(case)))) == expected


def test_a_storage_directory_stands_for_its_newest_image(spark: SparkSession, tmp_path: Path) -> None:
    current = tmp_path / "name" / "current"
    current.mkdir(parents=True)
    for path in (RECORDED / "hadoop-2.7.3" / "unicode").glob("*/fsimage_*"):
        shutil.copy(path, current / path.name)
    newest = read(image_of("hadoop-2.7.3/unicode"), tmp_path / "scratch", ("path",))
    for folder in (current, current.parent):
        frame = read_image(spark, str(folder), columns=["path"])
        assert sorted(row.path for row in frame.collect()) == sorted(str(row["path"]) for row in newest)


def test_partitions_together_contain_all_rows(spark: SparkSession) -> None:
    frame = spark.read.format("fsimage").option("partitions", "7").option("columns", "id").load(str(MEDIUM))
    assert frame.rdd.getNumPartitions() == 7
    whole = spark.read.format("fsimage").option("columns", "id").load(str(MEDIUM))
    assert whole.rdd.getNumPartitions() == 1
    assert frame.distinct().count() == frame.count() == whole.count() > 1000


CONDITIONS = (
    "id = 16390",
    "length > 1000000 and length <= 100000000",
    "length is null",
    "not (replication = 3)",
    "replication in (1, 2)",
    "replication not in (1, 2)",
    "replication <=> null",
    "type = 'DIRECTORY'",
    "type <> 'FILE'",
    "owner = 'hdfs' and `group` is not null",
    "path like '/d%'",
    "path like '%1'",
    "path like '%a%' and name not like '%a%'",
    "mtime >= timestamp'2026-11-01 00:00:00'",
    "atime is not null and atime < timestamp'2030-01-01 00:00:00'",
    "permission = 420 or permission = 493",
    "name in ('a', 'part-r-00002')",
)


@pytest.fixture(scope="module")
def unfiltered(spark: SparkSession) -> Iterator[DataFrame]:
    """Cached rows that were read without a filter."""
    frame = read_image(spark, str(FILTERED)).cache()
    assert frame.count() > 0
    yield frame
    frame.unpersist()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_filters_in_spark_select_the_correct_rows(spark: SparkSession, unfiltered: DataFrame, condition: str) -> None:
    """The same frame is counted before and after, since a reader that kept a filter would miss rows."""
    frame = read_image(spark, str(FILTERED))
    every = frame.count()
    assert rows_of(frame.where(condition)) == rows_of(unfiltered.where(condition))
    assert frame.count() == every == unfiltered.count()


@pytest.mark.parametrize("session", ["true", "false"])
def test_one_frame_answers_several_queries(spark: SparkSession, session: str) -> None:
    """Counts, joins, unions and caches of one relation are correct with any filter setting of the session."""
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting, "true") or "true"
    spark.conf.set(setting, session)
    try:
        frame = read_image(spark, str(FILTERED), columns=["id", "type", "parent"])
        files, folders = frame.where("type = 'FILE'"), frame.where("type <> 'FILE'")
        number, every = files.count(), frame.count()
        assert 0 < number < every
        assert folders.count() == every - number
        assert files.union(folders).count() == every
        assert files.join(folders.selectExpr("id AS parent", "type AS kind"), "parent").count() == number
        kept = files.cache()
        assert (kept.count(), frame.count(), kept.unpersist().count()) == (number, every, number)
        assert frame.groupBy("type").count().where("type = 'FILE'").collect()[0]["count"] == number
    finally:
        spark.conf.set(setting, before)


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_aggregations_do_not_collect_rows(spark: SparkSession) -> None:
    summed = read_image(spark, str(MEDIUM)).where("owner = 'hdfs' and length > 10").groupBy("owner").sum("length")
    assert "BatchScan fsimage" in plan_of(summed)
    for word in ("Collect", "LocalTableScan", "BroadcastExchange", "toLocalIterator"):
        assert word not in plan_of(summed)


# ---- errors --------------------------------------------------------------------------------------------------


def error_of(frame_or_reader: object, *load: str) -> HdfsError:
    with pytest.raises(Exception) as raised:
        frame = frame_or_reader.load(*load)  # type: ignore[attr-defined]
        frame.collect()
    typed = typed_error(raised.value)
    assert typed is not None, str(raised.value)
    assert "\n" not in str(typed)
    assert typed.hint
    return typed


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("table", "nothing", "inodes"),
        ("columns", "id,nothing", "storage_policy"),
        ("columns", "id,id", "storage_policy"),
        ("partitions", "0", "at least 1"),
        ("pushdown", "true", "partitions"),
        ("colour", "red", "partitions"),
    ],
)
def test_invalid_options_are_errors(spark: SparkSession, option: str, value: str, named: str) -> None:
    error = error_of(spark.read.format("fsimage").option(option, value), str(MEDIUM))
    assert isinstance(error, SourceOptionError)
    assert named in error.hint


def test_a_missing_path_or_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    assert isinstance(error_of(spark.read.format("fsimage")), SourceOptionError)
    for path in (tmp_path, tmp_path / "nothing"):
        assert isinstance(error_of(spark.read.format("fsimage"), str(path)), SourceFileError)


def test_damage_is_reported_with_section_and_offset(spark: SparkSession, tmp_path: Path) -> None:
    sections = dict(minimal_sections())
    header = encode_delimited(pb.INodeSection(lastInodeId=16385, numInodes=1))
    sections["INODE"] = header + b"\x05\x08\x02\x10\xff\xff"
    image = store(tmp_path, build_image(list(sections.items())))
    error = error_of(spark.read.format("fsimage"), str(image))
    assert isinstance(error, RecordError)
    with ImageFile.open(image) as opened:
        offset = opened.place("INODE").base
    assert (error.section, error.file, error.offset) == ("INODE", str(image), (offset or 0) + len(header))
    assert error.exit_code == RecordError.exit_code


def test_a_changed_byte_is_detected_by_the_md5(spark: SparkSession, tmp_path: Path) -> None:
    image = store(tmp_path, build_image(minimal_sections()))
    image.write_bytes(image.read_bytes().replace(b"supergroup", b"Supergroup"))
    assert isinstance(error_of(spark.read.format("fsimage"), str(image)), DigestMismatchError)


def test_the_schema_equals_that_of_the_table(spark: SparkSession) -> None:
    assert read_image(spark, str(MEDIUM)).schema == READER.table.spark_schema()


def test_views_have_comments_and_tables_are_refused(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW inodes USING fsimage OPTIONS (path '{MEDIUM}')")
    comments = {row.col_name: row.comment for row in spark.sql("DESCRIBE inodes").collect()}
    assert comments["id"] == "Inode id."
    assert all(comments.values())
    with pytest.raises(SourceOptionError, match="does not store options of a table") as raised:
        spark.sql(f"CREATE TABLE refused USING fsimage OPTIONS (path '{MEDIUM}')")
    assert "CREATE TEMPORARY VIEW" in raised.value.hint
    assert not spark.catalog.tableExists("refused")


def test_errors_consist_of_a_sentence_and_a_note(spark: SparkSession, tmp_path: Path) -> None:
    for load in (
        lambda: read_image(spark, str(tmp_path / "nothing")).count(),
        lambda: read_image(spark, str(tmp_path / "nothing")).collect(),
        lambda: spark.read.format("fsimage").option("colour", "red").load(str(MEDIUM)),
    ):
        with pytest.raises(HdfsError) as raised:
            load()
        lines = "".join(traceback.format_exception_only(raised.value)).splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("next: ")
