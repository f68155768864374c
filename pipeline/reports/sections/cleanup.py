"""Section `cleanup`: empty files and directories, and data of a kind that is usually temporary."""

from __future__ import annotations

from pipeline.reports.counts.directory_findings import TEMPORARY, empty_directories, temporary_trees, with_empty
from pipeline.reports.counts.grouping import Order, first, grouped, total_of
from pipeline.reports.counts.namespace import MEASURES
from pipeline.reports.model import ReportSection
from pipeline.reports.rows import CONTENT, bytes_, count, first_rows, path, percent, records, share, table, text
from pipeline.reports.work import ReportData

_EMPTY = (count("empty_files", "Empty files"), count("empty_directories", "Empty directories"))
_TEMPORARY = (
    bytes_("raw", "Space with replicas"),
    percent("share", "Share of space"),
    bytes_("length", "Size of files"),
    count("files", "Files"),
)
_MOST_EMPTY: Order = [("empty", "descending"), ("path", "ascending")]
_LARGEST: Order = [("raw", "descending"), ("names", "descending"), ("path", "ascending")]


def section(work: ReportData) -> ReportSection:
    """Make tables of empty files and directories, and of trash and staging directories, in total and by directory."""
    image, most = work.image, work.options.top
    empty = {"empty_files": image.total["empty_files"], "empty_directories": int(empty_directories(image).sum())}
    trees = temporary_trees(image)
    by_name = records(grouped(trees, ("name",), MEASURES))
    by_name.sort(key=lambda record: (-record["raw"], record["name"]))
    total = {name: total_of(trees[name]) for name in MEASURES}
    largest = records(first(trees, _LARGEST, most + 1))
    for record in (total, *by_name):
        record["share"] = share(record["raw"], image.total["raw"])
    return ReportSection(
        "cleanup",
        "Cleanup",
        "Empty files and directories, and directories for temporary data.",
        (
            table("empty", "Empty files and directories", _EMPTY, [empty]),
            first_rows(
                "empty_by_directory",
                "Directories with the most empty children",
                (path(), *_EMPTY),
                records(first(with_empty(image), _MOST_EMPTY, most + 1)),
                most=most,
            ),
            table("temporary", "Temporary data in total", _TEMPORARY, [total]),
            table("temporary_by_name", "By name of the directory", (text("name", "Name"), *_TEMPORARY), by_name),
            first_rows(
                "temporary_trees",
                "Largest temporary directories",
                (path(), *CONTENT, text("owner", "Owner")),
                largest,
                most=most,
            ),
        ),
        notes=(
            (
                f"Directories named {', '.join(TEMPORARY)} and everything below them count as temporary. "
                "Check that no job uses a directory before you delete it."
            ),
        ),
    )
