"""Files and directories that exist only in snapshots."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up, known_size

SNAPSHOT_COLUMNS = ("snapshot_id", "root_id", "root_path", "creation_time")
DIFF_COLUMNS = ("inode_id", "kind", "snapshot_id", "block_ids", "deleted_inodes")


def snapshot_roots(snapshots: DataFrame) -> DataFrame:
    """Return root_id, path, snapshots (their number), oldest, newest."""
    return snapshots.groupBy("root_id").agg(
        sql.max("root_path").alias("path"),
        sql.count(sql.lit(1)).alias("snapshots"),
        sql.min("creation_time").alias("oldest"),
        sql.max("creation_time").alias("newest"),
    )


def held_files(blocks: DataFrame, inodes: DataFrame) -> DataFrame:
    """Return the files with blocks outside of the current tree: inode_id, length, raw, blocks.

    Blocks of unknown size count as 0 bytes.

    Args:
        blocks: inode_id, bytes, raw_bytes of the table `blocks`, which includes files in snapshots.
        inodes: id of the table `inodes`, which has only the current tree.
    """
    by_file = blocks.groupBy("inode_id").agg(
        add_up(known_size(sql.col("bytes"))).alias("length"),
        add_up("raw_bytes").alias("raw"),
        sql.count(sql.lit(1)).alias("blocks"),
    )
    return by_file.join(inodes.select(sql.col("id").alias("inode_id")), "inode_id", "left_anti")


def held_directories(directories: DataFrame) -> DataFrame:
    """Return the directories outside of the current tree: id."""
    return directories.where(sql.col("path").isNull()).select("id")


def held_by_directory(diffs: DataFrame, snapshots: DataFrame, held: DataFrame) -> DataFrame:
    """Group by snapshottable directory: path, snapshots, oldest, newest, changed, deleted_trees, files, length, raw.

    A diff counts for the directory of its snapshot. `changed` is the number of inodes with a diff, `deleted_trees` the
    number of inodes that these diffs list as deleted, each with its descendants. `files`, `length` and `raw` describe
    the listed inodes that are files and exist only in snapshots. Diffs do not list files deeper in a deleted tree; only
    the total of `held_files` includes them.

    Args:
        diffs: `DIFF_COLUMNS` of `snapshot_diffs`.
        snapshots: `SNAPSHOT_COLUMNS` of `snapshots`.
        held: of `held_files`.
    """
    roots = snapshot_roots(snapshots)
    placed = diffs.join(snapshots.select("snapshot_id", "root_id"), "snapshot_id")
    changed = placed.groupBy("root_id").agg(sql.count_distinct("inode_id").alias("changed"))
    deleted = placed.select("root_id", sql.explode("deleted_inodes").alias("inode_id")).distinct()
    sizes = (
        deleted.join(held, "inode_id", "left")
        .groupBy("root_id")
        .agg(
            sql.count(sql.lit(1)).alias("deleted_trees"),
            sql.count("blocks").alias("files"),
            add_up("length").alias("length"),
            add_up("raw").alias("raw"),
        )
    )
    joined = roots.join(changed, "root_id", "left").join(sizes, "root_id", "left").drop("root_id")
    return joined.fillna(0, ["changed", "deleted_trees", "files", "length", "raw"])
