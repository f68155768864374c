"""Section `owners`: users and groups."""

from __future__ import annotations

from pipeline.reports.model import Bar, Bars, Section
from pipeline.reports.rows import share, table
from pipeline.reports.sections.dimensions import of_dimension
from pipeline.reports.sections.heads import CONTENT, bytes_, count, percent, text
from pipeline.reports.work import Work

_MORE = (percent("share", "Of all space"), count("small_files", "Small files"), bytes_("cold_raw", "Cold space"))


def section(work: Work) -> Section:
    """Space and counts by owner and by group."""
    tables = []
    charts = []
    for dimension, title in (("owner", "Owner"), ("group", "Group")):
        records = of_dimension(work, dimension)
        for record in records:
            record["share"] = share(record["raw"], work.image.total["raw"])
        shown = records[: work.options.top]
        tables.append(table(f"by_{dimension}", f"By {dimension}", (text("value", title), *CONTENT, *_MORE), shown))
        bars = tuple(Bar(record["value"] or "", record["raw"]) for record in shown if record["raw"])
        charts.append(Bars(f"Space with replicas by {dimension}", bars, "bytes"))
    return Section(
        "owners",
        "Owners and groups",
        "Whose the files and directories are.",
        tuple(tables),
        tuple(chart for chart in charts if chart.bars),
    )
