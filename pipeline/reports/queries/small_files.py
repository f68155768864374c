"""Small and cold files: largest directories and owners, savings of merging, and the clients that create small files."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up


def cold_by(direct: DataFrame, key: str, *, limit: int) -> DataFrame:
    """Return the `limit` directories (key `path`, only their direct files) or owners (key `owner`) with most cold
    space.

    Columns: key, cold_files, cold_length, cold_raw (bytes), files, raw.
    """
    names = ("cold_files", "cold_length", "cold_raw", "files", "raw")
    found = direct.groupBy(key).agg(*(add_up(name).alias(name) for name in names)).where(sql.col("cold_files") > 0)
    return found.orderBy(sql.desc("cold_raw"), sql.desc("cold_files"), sql.asc_nulls_last(key)).limit(limit)


HEAP_BYTES = 150
"""NameNode heap for an inode or a block, by Hadoop's rule of thumb."""


def savings(direct: DataFrame) -> DataFrame:
    """Add to `places` the savings of merging each owner's small files in a directory into full blocks.

    The new columns are `saved_inodes`, `saved_blocks` and `saved_heap` (bytes). Each merged file fills one block of the
    largest block size among the small files; at least one file remains, even if all are empty.
    """
    merged = sql.greatest(
        sql.lit(1), sql.ceil(sql.col("small_length") / sql.greatest(sql.lit(1), sql.col("block_size")))
    )
    inodes = sql.when(sql.col("small_files") > 0, sql.col("small_files") - merged).otherwise(0)
    blocks = sql.when(sql.col("small_files") > 0, sql.greatest(sql.lit(0), sql.col("small_blocks") - merged)).otherwise(
        0
    )
    return direct.withColumns(
        {
            "saved_inodes": sql.greatest(sql.lit(0), inodes).cast("long"),
            "saved_blocks": blocks.cast("long"),
            "saved_heap": ((sql.greatest(sql.lit(0), inodes) + blocks) * HEAP_BYTES).cast("long"),
        }
    )


def small_by(saving: DataFrame, key: str, *, limit: int) -> DataFrame:
    """Return the `limit` directories (key `path`) or owners (key `owner`) with most small files.

    Columns: key, files, small_files, small_length, small_blocks, saved_inodes, saved_blocks, saved_heap.
    """
    names = ("files", "small_files", "small_length", "small_blocks", "saved_inodes", "saved_blocks", "saved_heap")
    found = saving.groupBy(key).agg(*(add_up(name).alias(name) for name in names)).where(sql.col("small_files") > 0)
    return found.orderBy(sql.desc("small_files"), sql.asc_nulls_last(key)).limit(limit)


def made_small(written: DataFrame, keys: tuple[str, ...], small: int, *, limit: int) -> DataFrame:
    """Group new small files of `operations.written_files`: `keys`, files, small_files, small_length, length.

    Only files that the edits both open and close are counted. `small` is in bytes, because edits do not always contain
    the block size.
    """
    is_small = sql.col("length") < small
    done = written.where(sql.col("created") & sql.col("length").isNotNull()).groupBy(*keys)
    found = done.agg(
        sql.count(sql.lit(1)).alias("files"),
        _count(is_small).alias("small_files"),
        add_up(sql.when(is_small, sql.col("length"))).alias("small_length"),
        add_up("length").alias("length"),
    )
    order = [sql.asc_nulls_last(key) for key in keys]
    return found.where(sql.col("small_files") > 0).orderBy(sql.desc("small_files"), *order).limit(limit)


def _count(condition: Column) -> Column:
    return sql.sum(sql.when(condition, 1).otherwise(0))
