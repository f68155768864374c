"""Some of the tables through Spark: values, types, filters and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline import read_image
from pipeline.tables.catalogue import IMAGE_TABLES
from tests.image_format.image_support import RECORDED
from tests.pipeline.oiv_tables import OivTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = {
    "blocks": "erasure-coding-snapshots",
    "directories": "quotas-storage-policy",
    "snapshot_diffs": "nested-snapshots",
    "xattrs": "acl-xattr",
    "tokens": "tokens",
}


@pytest.mark.parametrize("table", CASES)
def test_spark_returns_complete_tables(spark: SparkSession, table: str) -> None:
    case = RECORDED / "hadoop-3.4.1" / CASES[table]
    expected = OivTables(case / "oiv_after.xml.gz").table(table)
    assert expected
    # A storage directory is read as its newest image.
    frame = spark.read.format("fsimage").option("table", table).option("partitions", "3").load(str(case / "after"))
    assert frame.schema == IMAGE_TABLES[table].spark_schema()
    assert len(frame.collect()) == len(expected)
    key = next(iter(expected[0]))
    assert sorted(str(row[key]) for row in frame.select(key).collect()) == sorted(str(row[key]) for row in expected)


def test_sums_columns_and_filters_are_correct(spark: SparkSession) -> None:
    case = RECORDED / "hadoop-3.4.1" / "erasure-coding-snapshots"
    expected = OivTables(case / "oiv_after.xml.gz").table("blocks")
    assert expected is not None
    image = str(next((case / "after").glob("fsimage_" + "?" * 19)))
    frame = read_image(spark, image, "blocks", columns=["raw_bytes", "ec_policy"])
    assert frame.columns == ["raw_bytes", "ec_policy"]
    (total,) = frame.groupBy().sum("raw_bytes").collect()
    assert total[0] == sum(row["raw_bytes"] for row in expected)
    striped = frame.where("ec_policy = 'RS-3-2-1024k'").count()
    assert 0 < striped == sum(row["ec_policy"] == "RS-3-2-1024k" for row in expected)


def test_times_and_arrays_keep_their_values(spark: SparkSession) -> None:
    case = RECORDED / "hadoop-3.4.1" / "nested-snapshots"
    image = str(next((case / "after").glob("fsimage_" + "?" * 19)))
    expected = OivTables(case / "oiv_after.xml.gz").table("snapshots")
    assert expected
    taken = read_image(spark, image, "snapshots").selectExpr("name", "unix_millis(creation_time) AS at").collect()
    assert {row["name"]: row["at"] for row in taken} == {
        row["name"]: round(row["creation_time"].timestamp() * 1000) for row in expected
    }
    diffs = OivTables(case / "oiv_after.xml.gz").table("snapshot_diffs")
    assert diffs is not None
    deleted = read_image(spark, image, "snapshot_diffs", columns=["deleted_inodes"])
    arrived = deleted.selectExpr("explode(deleted_inodes) AS id").collect()
    assert sorted(row["id"] for row in arrived) == sorted(i for row in diffs for i in row.get("deleted_inodes", ()))
