"""The single pass over `inodes` that all sections share: a compact table of counts, and its sums by directory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up, age_class, days_before, known_size, raw_space, size_class

FACT_COLUMNS = (
    "parent",
    "type",
    "owner",
    "group",
    "length",
    "mtime",
    "atime",
    "replication",
    "block_size",
    "block_count",
    "storage_policy",
    "ec_policy",
)
"""Columns of `inodes` that `facts` needs, without names and paths, the bulk of an image."""

DIRECTORY_COLUMNS = ("id", "parent", "path", "type", "owner", "storage_policy", "ns_quota", "ds_quota")
"""Columns of `inodes` that `directories` needs."""

MEASURES = ("files", "directories", "symlinks", "length", "raw", "blocks")
"""Summed columns: counts, bytes of files, bytes on DataNodes, blocks."""

SMALL_PART = 8
"""A file below one part in this many of its block size is small, unless the user sets a size."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits for small and cold files.

    Attributes:
        as_of: reference time for ages.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
    """

    as_of: datetime
    small: int | None = None
    cold_days: int = 365


def facts(inodes: DataFrame, rules: Rules) -> DataFrame:
    """Count the inodes below the root by all attributes that reports distinguish.

    The result has a row for each directory (`parent`) and combination of type, owner, group, replication, own storage
    policy, erasure coding policy, `size_class`, `mtime_class`, `use_class`, `small`, `cold` and `read` (the access time
    is later than the modification time). `MEASURES` are summed, `block_size` is the maximum. The last use of a file is
    the later of its access and modification times; if access times are off, the modification time. An impossible length
    counts as 0.
    """
    is_file = sql.col("type") == "FILE"
    used = sql.col("used")
    cold = used <= days_before(rules.as_of, rules.cold_days)
    limit = sql.col("block_size") / SMALL_PART if rules.small is None else sql.lit(rules.small)
    below = inodes.where(sql.col("parent").isNotNull()).withColumns(
        {"used": sql.greatest("atime", "mtime"), "length": known_size(sql.col("length"))}
    )
    rows = below.select(
        "parent",
        "type",
        "owner",
        "group",
        "replication",
        sql.when(is_file, sql.col("storage_policy")).alias("storage_policy"),
        sql.when(is_file, sql.col("ec_policy")).alias("ec_policy"),
        size_class(sql.col("length")).alias("size_class"),
        sql.when(is_file, age_class(sql.col("mtime"), rules.as_of)).alias("mtime_class"),
        sql.when(is_file, age_class(used, rules.as_of)).alias("use_class"),
        (is_file & (sql.col("length") < limit)).alias("small"),
        (is_file & cold).alias("cold"),
        (is_file & sql.coalesce(sql.col("atime") > sql.col("mtime"), sql.lit(False))).alias("read"),
        *_measured(),
        sql.when(is_file, sql.col("block_size")).alias("block_size"),
    )
    keys = [name for name in rows.columns if name not in (*MEASURES, "block_size")]
    return rows.groupBy(*keys).agg(*sums(), sql.max("block_size").alias("block_size"))


def directories(inodes: DataFrame) -> DataFrame:
    """Return only the directories: id, parent, path, owner, own storage policy, quotas."""
    return inodes.where(sql.col("type") == "DIRECTORY").select(*(name for name in DIRECTORY_COLUMNS if name != "type"))


def places(compact: DataFrame, tree: DataFrame) -> DataFrame:
    """Sum the direct children of each directory by owner: path, owner, `MEASURES`, and those of small and of cold
    files.

    Args:
        compact: of `facts`.
        tree: of `directories`.
    """
    small, cold = sql.col("small"), sql.col("cold")
    direct = compact.groupBy("parent", "owner").agg(
        *sums(),
        *sums("small_", small, ("files", "length", "raw", "blocks")),
        *sums("cold_", cold, ("files", "length", "raw")),
        sql.max(sql.when(small, sql.col("block_size"))).alias("block_size"),
    )
    paths = tree.select(sql.col("id").alias("parent"), "path")
    return direct.join(paths, "parent").drop("parent")


def sums(prefix: str = "", condition: Column | None = None, names: tuple[str, ...] = MEASURES) -> list[Column]:
    """Return sums of measures over the rows that meet a condition, named `prefix` + measure."""

    def value(name: str) -> Column:
        return sql.col(name) if condition is None else sql.when(condition, sql.col(name)).otherwise(0)

    return [add_up(value(name)).alias(prefix + name) for name in names]


def _measured() -> list[Column]:
    kind = sql.col("type")
    raw = raw_space(sql.col("length"), sql.col("replication"), sql.col("ec_policy"))
    return [
        (kind == "FILE").cast("long").alias("files"),
        (kind == "DIRECTORY").cast("long").alias("directories"),
        (kind == "SYMLINK").cast("long").alias("symlinks"),
        sql.coalesce(sql.col("length"), sql.lit(0)).alias("length"),
        sql.when(kind == "FILE", raw).otherwise(0).cast("long").alias("raw"),
        sql.coalesce(sql.col("block_count"), sql.lit(0)).cast("long").alias("blocks"),
    ]
