"""Sums of directory trees, the use of quotas, and the changes between two images."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up, add_up_signed
from pipeline.reports.queries.facts import MEASURES, sums

FULL, NEARLY_FULL = "used up", "nearly used up"
"""Levels of quotas."""


def depth_of(path: Column) -> Column:
    """Return the number of components of an absolute path; 0 for the root."""
    return sql.when(path == "/", 0).otherwise(
        sql.length(path) - sql.length(sql.replace(path, sql.lit("/"), sql.lit("")))
    )


def prefix(path: Column, depth: Column) -> Column:
    """Return the first `depth` components of an absolute path: the ancestor at that depth."""
    return sql.when(depth == 0, sql.lit("/")).otherwise(
        sql.call_function("substring_index", path, sql.lit("/"), depth + 1)
    )


def roll_up(direct: DataFrame, measures: tuple[str, ...] = MEASURES, *, depth: int) -> DataFrame:
    """Sum the tree below each directory down to `depth` (the root is 0): path, depth, `measures`.

    Rows are first summed by directory, so that only one row for each directory is copied to its ancestors, at most
    `depth` + 1 times.

    Args:
        direct: path of a directory and the sums of its direct children.
    """
    by_path = direct.groupBy("path").agg(*sums(names=measures))
    levels = sql.sequence(sql.lit(0), sql.least(depth_of(sql.col("path")), sql.lit(depth)))
    copies = by_path.withColumn("depth", sql.explode(levels))
    ancestor = prefix(sql.col("path"), sql.col("depth"))
    copies = copies.select(ancestor.alias("path"), "depth", *measures)
    return copies.groupBy("path", "depth").agg(*sums(names=measures))


def with_quotas(rolled: DataFrame, tree: DataFrame) -> DataFrame:
    """Add owner and quotas (null for none) to the sums of `roll_up`."""
    about = tree.select("path", "owner", _limit("ns_quota"), _limit("ds_quota"))
    return rolled.join(about, "path", "left")


def quota_use(direct: DataFrame, tree: DataFrame) -> DataFrame:
    """Return the use of every quota at any depth: path, ns_quota, names, ds_quota, raw.

    A directory counts itself as a name, as in a NameNode. A NameNode also counts inodes only in snapshots and the
    unwritten rest of a block under construction; both are missing here.
    """
    limited = tree.select("path", _limit("ns_quota"), _limit("ds_quota")).where(
        sql.col("ns_quota").isNotNull() | sql.col("ds_quota").isNotNull()
    )
    names = sql.col("files") + sql.col("directories") + sql.col("symlinks")
    by_path = direct.groupBy("path").agg(sql.sum(names).alias("names"), add_up("raw").alias("raw"))
    levels = sql.sequence(sql.lit(0), depth_of(sql.col("path")))
    copies = by_path.withColumn("depth", sql.explode(levels))
    copies = copies.select(prefix(sql.col("path"), sql.col("depth")).alias("path"), "names", "raw")
    used = copies.join(limited.select("path"), "path").groupBy("path")
    used_sums = used.agg(sql.sum("names").alias("names"), add_up("raw").alias("raw"))
    return limited.join(used_sums, "path", "left").select(
        "path",
        "ns_quota",
        (sql.coalesce("names", sql.lit(0)) + 1).alias("names"),
        "ds_quota",
        sql.coalesce("raw", sql.lit(0)).alias("raw"),
    )


def quota_levels(used: DataFrame) -> DataFrame:
    """Count the quotas that are used up or nearly used up (90 per cent): level, quotas, and of the fullest quota path,
    kind (names or space) and used (per cent).

    Args:
        used: of `quota_use`.
    """
    kinds = (("names", "names", "ns_quota"), ("space", "raw", "ds_quota"))
    entries = [
        sql.struct(sql.lit(kind).alias("kind"), sql.col(part).alias("part"), sql.col(limit).alias("limit"))
        for kind, part, limit in kinds
    ]
    flat = used.select("path", sql.inline(sql.array(*entries))).where(sql.col("limit") > 0)
    part, limit = (sql.col(name).cast("decimal(20,0)") for name in ("part", "limit"))
    level = sql.when(part >= limit, FULL).when(part * 10 >= limit * 9, NEARLY_FULL)
    percent = sql.col("part") * 100.0 / sql.col("limit")
    first = sql.min(sql.struct((-percent).alias("order"), "path", "kind"))
    counted = flat.groupBy(level.alias("level")).agg(sql.count(sql.lit(1)).alias("quotas"), first.alias("first"))
    return counted.where(sql.col("level").isNotNull()).select(
        "level", "quotas", "first.path", "first.kind", sql.round(-sql.col("first.order"), 2).alias("used")
    )


def _limit(name: str) -> Column:
    """Return a quota, null if it limits nothing: a NameNode writes the largest long into a root without a quota."""
    return sql.when((sql.col(name) >= 0) & (sql.col(name) < (1 << 63) - 1), sql.col(name)).alias(name)


CHANGES = ("files", "directories", "length", "raw", "blocks")
"""Compared measures."""


def changes(before: DataFrame, after: DataFrame, key: str, *, limit: int) -> DataFrame:
    """Return the `limit` largest differences by raw space, then names: key, `CHANGES` (after - before), raw_before,
    raw_after.

    A key that exists only in one image counts as 0 in the other; an unchanged key has no row.

    Args:
        before, after: key and `CHANGES`; rows with the same key are summed.
        key: `path` or `owner`.
    """
    signed = _signed(before, key, -1).unionByName(_signed(after, key, 1)).groupBy(key)
    summed = signed.agg(
        *(add_up_signed(name).alias(name) for name in CHANGES),
        add_up("raw_before").alias("raw_before"),
        add_up("raw_after").alias("raw_after"),
    )
    changed = summed.where(" or ".join(f"{name} <> 0" for name in CHANGES))
    names = sql.abs(sql.col("files") + sql.col("directories"))
    return changed.orderBy(sql.desc(sql.abs("raw")), sql.desc(names), sql.asc_nulls_last(key)).limit(limit)


def _signed(rows: DataFrame, key: str, sign: int) -> DataFrame:
    return rows.select(
        key,
        *((sql.col(name) * sign).alias(name) for name in CHANGES),
        (sql.col("raw") if sign < 0 else sql.lit(0)).alias("raw_before"),
        (sql.col("raw") if sign > 0 else sql.lit(0)).alias("raw_after"),
    )
