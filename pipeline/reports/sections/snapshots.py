"""Section `snapshots`: data that only snapshots keep, and the space that the deletion of each snapshot would free."""

from __future__ import annotations

from pipeline.reports.model import ReportSection
from pipeline.reports.rows import bytes_, count, first_bars, first_rows, path, table, text, time
from pipeline.reports.work import ReportData

_KEPT = (
    bytes_("raw", "Space only in snapshots"),
    bytes_("length", "Size of these blocks"),
    count("files", "Files only in snapshots"),
)
_TOTAL = (
    count("snapshots", "Snapshots"),
    *_KEPT,
    bytes_("current_raw", "Space of the current tree"),
    count("directories", "Directories only in snapshots"),
)
_BY_SNAPSHOT = (
    path(),
    text("name", "Snapshot"),
    time("time", "Taken"),
    bytes_("raw", "Space freed"),
    bytes_("length", "Size of these blocks"),
    count("files", "Files only in this snapshot"),
)
_BY_DIRECTORY = (
    path(),
    count("snapshots", "Snapshots"),
    time("oldest", "Oldest"),
    time("newest", "Newest"),
    bytes_("raw", "Space only in snapshots"),
    count("files", "Files only in snapshots"),
    count("deleted_trees", "Names deleted since"),
    count("changed", "Inodes changed since"),
)


def section(work: ReportData) -> ReportSection:
    """Make tables of the cost of snapshots, in total, by snapshot and by snapshottable directory."""
    title, words = "Snapshots", "Space that only snapshots keep, and the space that deleting each snapshot would free."
    costs = work.snapshots
    if costs is None:
        return ReportSection("snapshots", title, words, notes=("The image has no snapshots.",))
    if isinstance(costs, str):
        note = f"The snapshots are not counted, because the image is damaged: {costs}"
        return ReportSection("snapshots", title, words, notes=(note,))
    most = work.options.top
    total = {**costs.total, "snapshots": len(costs.snapshots), "current_raw": work.image.total["raw"]}
    alone = sorted(costs.snapshots, key=lambda row: (-row["raw"], -row["files"], row["path"] or "", row["name"]))
    directories = sorted(costs.directories, key=lambda row: (-row["raw"], -row["deleted_trees"], row["path"] or ""))
    return ReportSection(
        "snapshots",
        title,
        words,
        (
            table("snapshots", "Snapshots in total", _TOTAL, [total]),
            first_rows(
                "snapshots_alone",
                "Snapshots that keep the most",
                _BY_SNAPSHOT,
                alone,
                most=most,
                text="Freed counts only blocks that neither another snapshot nor the current tree contains. Blocks "
                "that several snapshots share are freed with the last of these snapshots.",
            ),
            first_rows(
                "snapshots_by_directory",
                "Directories whose snapshots keep the most",
                _BY_DIRECTORY,
                directories,
                most=most,
            ),
        ),
        first_bars("Space only in snapshots, by directory", "path", "raw", directories, unit="bytes", most=most),
        (
            (
                "The tables count files outside of the current tree, older blocks of files that were truncated or "
                "appended to since a snapshot, and the replicas of a higher replication factor at a snapshot. A "
                "NameNode keeps all blocks of a file with the highest factor of its snapshots and of the current file."
            ),
        ),
    )
