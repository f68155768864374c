"""Section `cold`: files that have not been used for a long time."""

from __future__ import annotations

import pyarrow as pa

from pipeline.reports.counts.classes import AGE_LABELS
from pipeline.reports.counts.grouping import Order, first, more_than_none
from pipeline.reports.counts.path_groups import owned_subtrees
from pipeline.reports.model import Bin, Chart, Histogram, ReportSection
from pipeline.reports.rows import (
    Record,
    bytes_,
    count,
    first_bars,
    first_rows,
    path,
    percent,
    records,
    share,
    table,
    text,
)
from pipeline.reports.sections.dimensions import classes, of_dimension
from pipeline.reports.work import ReportData

_COLD = (
    bytes_("cold_raw", "Cold space with replicas"),
    percent("share", "Share of space"),
    bytes_("cold_length", "Size of cold files"),
    count("cold_files", "Cold files"),
    count("files", "All files"),
)
_ATIME_KEY = "dfs.namenode.accesstime.precision"


def section(work: ReportData) -> ReportSection:
    """Make tables of the directories and owners with the most space of files unused for `cold_days`."""
    days, top = work.options.cold_days, work.options.top
    by_path = most_cold(work.image.by_directory, "path", top + 1)
    by_owner = most_cold(work.image.by_owner, "owner", top + 1)
    by_subtree = most_cold(owned_subtrees(work.image), "path", top + 1)
    total = dict(work.image.total)
    for record in [total, *by_path, *by_owner, *by_subtree]:
        record["share"] = share(record["cold_raw"], record["raw"])
    uses = classes(work, "use_class", AGE_LABELS)
    charts: list[Chart] = [
        Histogram("Space with replicas by last use", tuple(Bin(use["value"], use["raw"]) for use in uses), "bytes"),
        *first_bars("Cold space by directory", "path", "cold_raw", by_path, unit="bytes", most=top),
    ]
    owner = text("owner", "Owner")
    return ReportSection(
        "cold",
        "Cold data",
        f"Files that were neither read nor written in the {days} days before {work.options.as_of:%Y-%m-%d}.",
        (
            table("cold", "Cold data in total", (*_COLD, bytes_("raw", "All space with replicas")), [total]),
            first_rows("cold_by_directory", "Directories with the most cold data", (path(), *_COLD), by_path, most=top),
            first_rows(
                "cold_by_subtree",
                "Subtrees of one owner with the most cold data",
                (path(), owner, *_COLD),
                by_subtree,
                most=top,
                text="A subtree begins at a directory whose owner differs from the parent's owner.",
            ),
            first_rows("cold_by_owner", "Owners with the most cold data", (owner, *_COLD), by_owner, most=top),
        ),
        tuple(charts),
        (_about_access_times(work),),
    )


def most_cold(rows: pa.Table, key: str, limit: int) -> list[Record]:
    """Return the `limit` rows with the most cold space."""
    cold: Order = [("cold_raw", "descending"), ("cold_files", "descending"), (key, "ascending")]
    return records(first(more_than_none(rows, "cold_files"), cold, limit))


def _about_access_times(work: ReportData) -> str:
    read = sum(record["read_files"] for record in of_dimension(work, "use_class"))
    if read:
        return (
            "The last use is the later of access and modification time. A NameNode records access times with the "
            f"precision of {_ATIME_KEY} (default: one hour)."
        )
    return (
        "No file was accessed after its last modification: access times are switched off "
        f"({_ATIME_KEY} is 0), so the last use is the last modification."
    )
