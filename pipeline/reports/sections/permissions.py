"""Section `permissions`: world-writable files and directories."""

from __future__ import annotations

from pipeline.reports.counts.directory_findings import writable_by_everybody
from pipeline.reports.counts.grouping import Order, first, more_than_none, total_of
from pipeline.reports.model import ReportSection
from pipeline.reports.rows import count, first_rows, path, records, table, text
from pipeline.reports.work import ReportData

_TOTAL = (
    count("writable_files", "Files"),
    count("writable_directories", "Directories"),
    count("without_sticky_bit", "Directories without the sticky bit"),
)
_DIRECTORIES = (path(), text("mode", "Permission"), text("owner", "Owner"), count("names", "Names below"))
_FILES = (path(), count("writable_files", "World-writable files"), count("files", "All files"))
_WORST: Order = [("sticky", "ascending"), ("names", "descending"), ("path", "ascending")]
_MOST_FILES: Order = [("writable_files", "descending"), ("path", "ascending")]


def section(work: ReportData) -> ReportSection:
    """Make tables of world-writable inodes: totals, directories, and the directories with most world-writable files."""
    image, most = work.image, work.options.top
    directories = writable_by_everybody(image)
    number, sticky = directories.num_rows, total_of(directories["sticky"])
    total = {
        "writable_files": image.total["writable_files"],
        "writable_directories": number,
        "without_sticky_bit": number - sticky,
    }
    worst = records(first(directories, _WORST, most + 1))
    for record in worst:
        record["mode"] = f"{record['permission']:04o}"
    files = records(first(more_than_none(image.by_directory, "writable_files"), _MOST_FILES, most + 1))
    return ReportSection(
        "permissions",
        "World-writable paths",
        "Files and directories that every user may write.",
        (
            table("world_writable", "In total", _TOTAL, [total]),
            first_rows(
                "writable_directories",
                "World-writable directories, those without the sticky bit first",
                _DIRECTORIES,
                worst,
                most=most,
            ),
            first_rows(
                "writable_files_by_directory",
                "Directories with the most world-writable files",
                _FILES,
                files,
                most=most,
            ),
        ),
        notes=(
            (
                "Only the permission bits count. An inaccessible directory above protects a path, and an ACL may grant "
                "more. With the sticky bit, users can delete and rename only their own files in a directory."
            ),
        ),
    )
