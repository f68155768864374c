"""Growth and decrease between two images."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up, add_up_signed

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
