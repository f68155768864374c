"""Section `snapshots`: files and directories that exist only in snapshots."""

from __future__ import annotations

from pyspark.sql import functions as sql

from pipeline.reports.model import ReportSection
from pipeline.reports.queries.classes import add_up
from pipeline.reports.queries.snapshots import (
    DIFF_COLUMNS,
    SNAPSHOT_COLUMNS,
    held_by_directory,
    held_directories,
    held_files,
)
from pipeline.reports.rows import bytes_, collect, count, first_bars, first_rows, path, table, time
from pipeline.reports.work import ReportData

_TOTAL = (
    count("snapshots", "Snapshots"),
    bytes_("raw", "Space only in snapshots"),
    bytes_("current_raw", "Space of the current tree"),
    bytes_("length", "Size of these files"),
    count("files", "Files only in snapshots"),
    count("directories", "Directories only in snapshots"),
)
_BY_DIRECTORY = (
    path(),
    count("snapshots", "Snapshots"),
    time("oldest", "Oldest"),
    time("newest", "Newest"),
    bytes_("raw", "Space of files deleted since"),
    count("files", "Files deleted since"),
    count("deleted_trees", "Names deleted since"),
    count("changed", "Inodes changed since"),
)


def section(work: ReportData) -> ReportSection:
    """Make tables of the cost of snapshots, in total and by snapshottable directory."""
    snapshots = work.image.keep(work.tables("snapshots", SNAPSHOT_COLUMNS))
    number = snapshots.count()
    title, words = "Snapshots", "Files and directories that exist only in snapshots."
    if number == 0:
        return ReportSection("snapshots", title, words, notes=("The image has no snapshots.",))
    blocks = work.tables("blocks", ("inode_id", "bytes", "raw_bytes"))
    held = work.image.keep(held_files(blocks, work.tables("inodes", ("id",))))
    sums = (sql.coalesce(add_up(name), sql.lit(0)).alias(name) for name in ("raw", "length"))
    total = collect(held.agg(sql.count(sql.lit(1)).alias("files"), *sums), limit=1)[0]
    total["directories"] = held_directories(work.tables("directories", ("id", "path"))).count()
    total["snapshots"], total["current_raw"] = number, work.image.total["raw"]
    diffs = work.tables("snapshot_diffs", DIFF_COLUMNS)
    costs = held_by_directory(diffs, snapshots, held).orderBy(sql.desc("raw"), sql.desc("deleted_trees"), "path")
    records = collect(costs, limit=work.options.top + 1)
    most = work.options.top
    chart = "Space of files deleted since, by snapshottable directory"
    return ReportSection(
        "snapshots",
        title,
        words,
        (
            table("snapshots", "Snapshots in total", _TOTAL, [total]),
            first_rows(
                "snapshots_by_directory",
                "Snapshottable directories with most deleted files",
                _BY_DIRECTORY,
                records,
                most=most,
            ),
        ),
        first_bars(chart, "path", "raw", records, unit="bytes", most=most),
        (
            (
                "Counted are non-empty files outside of the current tree. The rows by directory contain files that "
                "were deleted individually; files deleted with their directory are only in the total. Older blocks "
                "of files that were truncated or overwritten since a snapshot are not counted."
            ),
        ),
    )
