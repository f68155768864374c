"""Section `snapshots`: files and directories that exist only in snapshots."""

from __future__ import annotations

from pipeline.reports.counts.snapshots import held_by_directory
from pipeline.reports.model import ReportSection
from pipeline.reports.rows import bytes_, count, first_bars, first_rows, path, records, table, time
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
    title, words = "Snapshots", "Files and directories that exist only in snapshots."
    counts = work.image.tables
    snapshots = records(counts["snapshots"]) if "snapshots" in counts else []
    if not snapshots:
        return ReportSection("snapshots", title, words, notes=("The image has no snapshots.",))
    total = {**work.image.held, "snapshots": len(snapshots), "current_raw": work.image.total["raw"]}
    costs = held_by_directory(snapshots, counts)
    costs.sort(key=lambda row: (-row["raw"], -row["deleted_trees"], row["path"] or ""))
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
                costs,
                most=most,
            ),
        ),
        first_bars(chart, "path", "raw", costs, unit="bytes", most=most),
        (
            (
                "Counted are non-empty files outside of the current tree. The rows by directory contain files that "
                "were deleted individually; files deleted with their directory are only in the total. Older blocks "
                "of files that were truncated or overwritten since a snapshot are not counted."
            ),
        ),
    )
