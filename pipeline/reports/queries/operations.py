"""Statistics of the edits: operations by type, hour and directory, and the clients that wrote files."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up, known_size
from pipeline.reports.queries.tree import depth_of, prefix

ACTIVITY_COLUMNS = ("txid", "op", "path", "approximate_time")
WRITTEN_COLUMNS = ("txid", "op", "path", "owner", "client_machine", "length")

KINDS = {
    "creates": ("OP_ADD", "OP_MKDIR", "OP_SYMLINK"),
    "deletes": ("OP_DELETE",),
    "renames": ("OP_RENAME", "OP_RENAME_OLD"),
    "appends": ("OP_APPEND", "OP_TRUNCATE", "OP_CONCAT_DELETE"),
    "attributes": (
        "OP_SET_PERMISSIONS",
        "OP_SET_OWNER",
        "OP_TIMES",
        "OP_SET_REPLICATION",
        "OP_SET_ACL",
        "OP_SET_XATTR",
        "OP_REMOVE_XATTR",
        "OP_SET_STORAGE_POLICY",
        "OP_SET_QUOTA",
        "OP_SET_NS_QUOTA",
        "OP_CLEAR_NS_QUOTA",
        "OP_SET_QUOTA_BY_STORAGETYPE",
    ),
}
"""Operations that are counted as one kind."""


def directory_of(path: Column) -> Column:
    """Return the parent of an absolute path."""
    parent = sql.regexp_replace(path, "/[^/]*$", "")
    return sql.when(path.isNull(), None).when(parent == "", "/").otherwise(parent)


def activity(edits: DataFrame) -> DataFrame:
    """Count transactions: op, hour, directory (null for an operation without a path), count.

    Args:
        edits: `ACTIVITY_COLUMNS` of the table of edits.
    """
    return edits.groupBy(
        "op",
        sql.date_trunc("hour", sql.col("approximate_time")).alias("hour"),
        directory_of(sql.col("path")).alias("directory"),
    ).agg(sql.count(sql.lit(1)).alias("count"))


def by_type(active: DataFrame) -> DataFrame:
    """Return op, count, directories (the number of touched ones); about fifty rows."""
    return (
        active.groupBy("op")
        .agg(sql.sum("count").alias("count"), sql.count_distinct("directory").alias("directories"))
        .orderBy(sql.desc("count"), "op")
    )


def by_hour(active: DataFrame, *, limit: int) -> DataFrame:
    """Return hour, the kinds of operations, other, count of the newest `limit` hours with operations,
    sorted by time.
    """
    known = [op for ops in KINDS.values() for op in ops]
    counted = (
        active.where(sql.col("hour").isNotNull())
        .groupBy("hour")
        .agg(*_counts(), _sum_of(~sql.col("op").isin(known)).alias("other"), sql.sum("count").alias("count"))
    )
    return counted.orderBy(sql.desc("hour")).limit(limit).orderBy("hour")


def busiest(active: DataFrame, *, limit: int) -> DataFrame:
    """Return the `limit` directories with most operations: directory, the kinds of operations, count."""
    counted = (
        active.where(sql.col("directory").isNotNull())
        .groupBy("directory")
        .agg(*_counts(), sql.sum("count").alias("count"))
    )
    return counted.orderBy(sql.desc("count"), "directory").limit(limit)


def causes(active: DataFrame, *, depth: int, limit: int) -> DataFrame:
    """Count only creates, deletes, renames and appends, in whole trees of directories at `depth`; otherwise like
    `busiest`.
    """
    path = sql.col("directory")
    at = prefix(path, sql.least(depth_of(path), sql.lit(depth)))
    names = ("creates", "deletes", "renames", "appends")
    counted = active.where(path.isNotNull()).groupBy(at.alias("directory")).agg(*_counts(names))
    total = sql.col("creates") + sql.col("deletes") + sql.col("renames") + sql.col("appends")
    return counted.where(total > 0).orderBy(sql.desc(total), "directory").limit(limit)


def written_files(edits: DataFrame) -> DataFrame:
    """Return the files that were opened for write, one row for each path: directory, owner, machine, created, appended,
    length.

    `length` is that of the last OP_CLOSE in the edits, null for a file that is still open. `created` and `appended`
    tell whether the edits contain an OP_ADD or OP_APPEND. Only the opening operation contains the machine, and only
    OP_CLOSE, which has no inode id, contains the length; so a file that is renamed while it is written makes two rows.

    Args:
        edits: `WRITTEN_COLUMNS` of the table of edits.
    """
    op = sql.col("op")
    rows = edits.where(op.isin("OP_ADD", "OP_CLOSE", "OP_APPEND"))
    machine = sql.when(sql.col("client_machine") != "", sql.col("client_machine"))
    return rows.groupBy("path").agg(
        directory_of(sql.col("path")).alias("directory"),
        sql.max("owner").alias("owner"),
        sql.max_by(machine, sql.when(machine.isNotNull(), sql.col("txid"))).alias("machine"),
        sql.max(op == "OP_ADD").alias("created"),
        sql.max(op == "OP_APPEND").alias("appended"),
        sql.max_by(known_size(sql.col("length")), sql.when(op == "OP_CLOSE", sql.col("txid"))).alias("length"),
    )


def writers(written: DataFrame, *, limit: int) -> DataFrame:
    """Return the `limit` pairs that wrote most: owner, machine, created, appended, length (bytes)."""
    counted = written.groupBy("owner", "machine").agg(
        sql.sum(sql.col("created").cast("long")).alias("created"),
        sql.sum(sql.col("appended").cast("long")).alias("appended"),
        add_up("length").alias("length"),
    )
    order = (sql.desc("length"), sql.desc("created"), sql.asc_nulls_last("owner"), sql.asc_nulls_last("machine"))
    return counted.orderBy(*order).limit(limit)


def _counts(names: tuple[str, ...] = tuple(KINDS)) -> list[Column]:
    return [_sum_of(sql.col("op").isin(*KINDS[name])).alias(name) for name in names]


def _sum_of(condition: Column) -> Column:
    return sql.sum(sql.when(condition, sql.col("count")).otherwise(0))
