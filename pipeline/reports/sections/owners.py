"""Section `owners`: users and groups."""

from __future__ import annotations

from pipeline.reports.model import Bars, ReportSection
from pipeline.reports.rows import CONTENT, bytes_, count, first_bars, first_rows, percent, share, text
from pipeline.reports.sections.dimensions import of_dimension
from pipeline.reports.work import ReportData

_MORE = (percent("share", "Share of space"), count("small_files", "Small files"), bytes_("cold_raw", "Cold space"))


def section(work: ReportData) -> ReportSection:
    """Make tables of space and counts by owner and by group."""
    tables = []
    charts: list[Bars] = []
    for dimension, title in (("owner", "Owner"), ("group", "Group")):
        records = of_dimension(work, dimension)
        for record in records:
            record["share"] = share(record["raw"], work.image.total["raw"])
        most = work.options.top
        heads = (text("value", title), *CONTENT, *_MORE)
        tables.append(first_rows(f"by_{dimension}", f"By {dimension}", heads, records, most=most))
        chart = f"Space with replicas by {dimension}"
        charts += first_bars(chart, "value", "raw", records, unit="bytes", most=most)
    return ReportSection(
        "owners", "Owners and groups", "Ownership of files and directories.", tuple(tables), tuple(charts)
    )
