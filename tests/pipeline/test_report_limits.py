"""Impossible sizes, and sums beyond a long: a report shows them and does not fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from pipeline.reports.queries.breakdown import breakdown, effective_policies
from pipeline.reports.queries.classes import add_up, known_size
from pipeline.reports.queries.operations import writers, written_files
from pipeline.reports.queries.small_files import cold_by, made_small, small_by
from pipeline.reports.queries.snapshots import held_files
from pipeline.reports.queries.tree import CHANGES, changes
from pipeline.reports.rows import collect
from pipeline.reports.sections import space
from pipeline.reports.work import ReportData, ReportOptions
from pipeline.tables.inodes import BLOCKS
from tests.pipeline.report_frames import AS_OF, ROOT, directory, edits, file, frame, inodes, keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_ACK = (1 << 63) - 1
MOST = (1 << 63) - 1
HUGE = 1 << 48


@pytest.fixture(scope="module")
def work(spark: SparkSession) -> ReportData:
    """A directory that no long can count, beside one of a petabyte times a hundred and one of absurd lengths."""
    rows = [
        directory(ROOT, None, "/", ns_quota=MOST),
        directory(2, ROOT, "/huge"),
        directory(3, ROOT, "/odd", ds_quota=1000),
        directory(4, ROOT, "/large", ds_quota=1 << 58),
        *(file(10 + each, 2, f"/huge/f{each}", HUGE, days=900, replication=32767, block_count=1) for each in range(3)),
        file(20, 3, "/odd/deleted", NO_ACK, block_count=1),
        file(21, 3, "/odd/negative", -2),
        file(22, 3, "/odd/plain", 100),
        file(30, 4, "/large/f", HUGE, replication=512, block_count=1),
    ]
    namespace = inodes(spark, rows)

    def tables(table: str, columns: Sequence[str]) -> DataFrame:
        assert table == "inodes"
        return namespace.select(*columns)

    return ReportData(ReportOptions(AS_OF), tables)


def test_sums_stay_at_the_largest_long(work: ReportData) -> None:
    rolled = keyed(collect(work.image.rolled), "path")
    assert {path: row["raw"] for path, row in rolled.items()} == {
        "/": MOST,
        "/huge": MOST,
        "/odd": 300,
        "/large": 512 * HUGE,
    }
    assert rolled["/huge"]["length"] == 3 * HUGE
    assert rolled["/odd"]["length"] == 100
    by_owner = keyed(collect(cold_by(work.image.places, "owner", limit=5)), "owner")
    assert by_owner["alice"]["cold_raw"] == MOST
    assert collect(small_by(work.image.places, "owner", limit=5))[0]["small_files"] == 3
    policies = effective_policies(work.image.directories)
    sizes = [row for row in collect(breakdown(work.image.facts, policies, limit=50)) if row["dimension"] == "group"]
    assert {row["value"]: row["raw"] for row in sizes} == {"users": MOST, "supergroup": 0}
    found = keyed(collect(changes(work.image.rolled.limit(0), work.image.rolled, "path", limit=9)), "path")
    assert found["/"]["raw"] == MOST
    found = keyed(collect(changes(work.image.rolled, work.image.rolled.limit(0), "path", limit=9)), "path")
    assert found["/"]["raw"] == -MOST
    by_owner = work.image.rolled.selectExpr("'alice' AS owner", *CHANGES)  # of one key
    assert [row["raw"] for row in collect(changes(by_owner, by_owner.limit(0), "owner", limit=9))] == [-MOST]
    assert [row["raw"] for row in collect(changes(by_owner.limit(0), by_owner, "owner", limit=9))] == [MOST]


def test_quotas_of_more_than_a_hundredth_of_a_long(work: ReportData) -> None:
    section = space.section(work)
    quotas = next(table for table in section.tables if table.name == "quotas")
    used = {row[0]: row[-1] for row in quotas.rows}
    assert used == {"/odd": 30.0, "/large": 50.0}


def test_blocks_of_unknown_size_count_nothing(spark: SparkSession) -> None:
    block = {"index": 0, "genstamp": 1, "striped": False, "replication": 3, "under_construction": False, "inode_id": 9}
    blocks = frame(
        spark,
        BLOCKS,
        [
            {**block, "block_id": 1, "bytes": 5, "raw_bytes": 15},
            {**block, "block_id": 2, "bytes": NO_ACK, "raw_bytes": None},
            {**block, "block_id": 3, "bytes": NO_ACK, "raw_bytes": None},
        ],
    )
    held = held_files(blocks, inodes(spark, [directory(ROOT, None, "/")]))
    assert collect(held) == [{"inode_id": 9, "length": 5, "raw": 15, "blocks": 3}]


def test_edits_of_absurd_lengths(spark: SparkSession) -> None:
    rows = []
    for number, length in enumerate((NO_ACK, NO_ACK, 7)):
        path = f"/f{number}"
        rows.append({"txid": 2 * number, "op": "OP_ADD", "path": path, "owner": "a", "client_machine": "m"})
        rows.append({"txid": 2 * number + 1, "op": "OP_CLOSE", "path": path, "length": length})
    written = written_files(edits(spark, rows))
    assert collect(writers(written, limit=5))[0]["length"] == 7
    assert collect(made_small(written, ("owner",), 1000, limit=5))[0]["length"] == 7


def test_sums_of_nothing_and_of_nulls(spark: SparkSession) -> None:
    rows = spark.sql(f"SELECT explode(array(null, 3L, {NO_ACK}L, -1L)) AS length")
    sizes = rows.select(known_size(rows.length).alias("size"))
    assert [row["size"] for row in collect(sizes)] == [None, 3, 0, 0]
    sums = [
        collect(part.agg(add_up("size").alias("sum"))) for part in (sizes, sizes.where("size IS NULL"), sizes.limit(0))
    ]
    assert sums == [[{"sum": 3}], [{"sum": 0}], [{"sum": None}]]


def test_times_beyond_the_calendar_are_none(spark: SparkSession) -> None:
    rows = spark.sql("SELECT explode(array(timestamp_millis(1000), timestamp_seconds(9000000000000L))) AS at")
    assert collect(rows) == [{"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, {"at": None}]
