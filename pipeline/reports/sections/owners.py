"""Section `owners`: users and groups."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.reports.counts.classes import SIZE_LABELS
from pipeline.reports.model import Bars, ReportColumn, ReportSection, ReportTable
from pipeline.reports.rows import CONTENT, Record, bytes_, count, first_bars, first_rows, percent, share, text
from pipeline.reports.sections.dimensions import of_dimension
from pipeline.reports.work import ReportData

MORE = (percent("share", "Share of space"), count("small_files", "Small files"), bytes_("cold_raw", "Cold space"))


_SIZES: tuple[tuple[ReportColumn, range], ...] = (
    (count("empty", "Empty"), range(1)),
    (count("below_1_mib", "< 1 MiB"), range(1, 3)),
    (count("below_32_mib", "1 - 32 MiB"), range(3, 5)),
    (count("below_128_mib", "32 - 128 MiB"), range(5, 6)),
    (count("below_4_gib", "128 MiB - 4 GiB"), range(6, 8)),
    (count("from_4_gib", "≥ 4 GiB"), range(8, len(SIZE_LABELS))),
)
"""Columns of sizes, each with its positions in `SIZE_LABELS`."""

SIZE_COLUMNS = tuple(column for column, _ in _SIZES)


def size_counts(files: Mapping[int, int]) -> dict[str, int]:
    """Return the values of `SIZE_COLUMNS` for numbers of files by size class."""
    return {column.name: sum(files.get(each, 0) for each in classes) for column, classes in _SIZES}


def section(work: ReportData) -> ReportSection:
    """Make tables of space and counts by owner and by group."""
    tables = []
    charts: list[Bars] = []
    for dimension, title in (("owner", "Owner"), ("group", "Group")):
        records = of_dimension(work, dimension)
        for record in records:
            record["share"] = share(record["raw"], work.image.total["raw"])
        most = work.options.top
        heads = (text("value", title), *CONTENT, *MORE)
        tables.append(first_rows(f"by_{dimension}", f"By {dimension}", heads, records, most=most))
        tables.append(_sizes(work, dimension, title, records))
        chart = f"Space with replicas by {dimension}"
        charts += first_bars(chart, "value", "raw", records, unit="bytes", most=most)
    return ReportSection(
        "owners", "Owners and groups", "Ownership of files and directories.", tuple(tables), tuple(charts)
    )


def _sizes(work: ReportData, dimension: str, title: str, records: list[Record]) -> ReportTable:
    """Make a table of file sizes for the first owners or groups."""
    found = work.image.sizes(dimension)
    rows = [{"value": record["value"], **size_counts(found.get(record["value"], {}))} for record in records]
    heads = (text("value", title), *SIZE_COLUMNS)
    return first_rows(f"sizes_by_{dimension}", f"Files by size and {dimension}", heads, rows, most=work.options.top)
