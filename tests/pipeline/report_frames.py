"""Small tables for tests of report queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pipeline.schema import Table
from pipeline.tables.edits import EDITS
from pipeline.tables.inodes import INODES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AS_OF = datetime(2025, 7, 1, tzinfo=UTC)
ROOT = 16385
MIB = 1 << 20


def frame(spark: SparkSession, table: Table, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """Make a table of rows; missing columns are null."""
    return spark.createDataFrame([tuple(row.get(name) for name in table.names) for row in rows], table.spark_schema())


def directory(inode: int, parent: int | None, path: str, **more: Any) -> dict[str, Any]:
    values = {
        "owner": "hdfs",
        "group": "supergroup",
        "permission": 0o755,
        "mtime": AS_OF,
        "ns_quota": -1,
        "ds_quota": -1,
    }
    name = path.rpartition("/")[2]
    return {**values, "id": inode, "parent": parent, "path": path, "name": name, "type": "DIRECTORY", **more}


def file(
    inode: int, parent: int, path: str, length: int, *, days: float = 0, read: float | None = None, **more: Any
) -> dict[str, Any]:
    """Return a file of 128 MiB blocks, modified `days` before AS_OF and read `read` days before it."""
    mtime = AS_OF - timedelta(days=days)
    values: dict[str, Any] = {
        "owner": "alice",
        "group": "users",
        "permission": 0o644,
        "mtime": mtime,
        "atime": mtime if read is None else AS_OF - timedelta(days=read),
        "replication": 3,
        "block_size": 128 * MIB,
        "block_count": -(-length // (128 * MIB)),
    }
    name = path.rpartition("/")[2]
    return {
        **values,
        "id": inode,
        "parent": parent,
        "path": path,
        "name": name,
        "type": "FILE",
        "length": length,
        **more,
    }


def inodes(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    return frame(spark, INODES, rows)


def edits(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    return frame(spark, EDITS, [{"opcode": 0, "segment": "edits", **row} for row in rows])


def keyed(rows: Sequence[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    """Index rows by the unique values of a column."""
    found = {row[key]: row for row in rows}
    assert len(found) == len(rows)
    return found
