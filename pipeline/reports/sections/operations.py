"""Section `operations`: statistics of the edits."""

from __future__ import annotations

from dataclasses import replace

from hadoop_common.quantities import counted
from pipeline.reports.counts.edits import KINDS, ordered
from pipeline.reports.model import Point, ReportColumn, ReportSection, ReportTable, Series, TimeLine
from pipeline.reports.rows import (
    Record,
    count,
    first_bars,
    first_rows,
    path,
    percent,
    records,
    share,
    table,
    text,
    time,
)
from pipeline.reports.work import ReportData

_HOURS = 24 * 62
_KINDS: tuple[ReportColumn, ...] = tuple(count(name, name.capitalize()) for name in KINDS)
_TYPES = (
    text("op", "Operation"),
    count("count", "Transactions"),
    percent("share", "Share"),
    count("directories", "Directories"),
)


def section(work: ReportData) -> ReportSection:
    """Make tables of transactions by type and by hour, and of the directories with the most operations."""
    assert work.edits is not None
    types = records(ordered(work.edits, "types"))
    whole = sum(record["count"] for record in types)
    for record in types:
        record["share"] = share(record["count"], whole)
    hours = records(ordered(work.edits, "hours", _HOURS + 1))[::-1]
    most = work.options.top
    busy = records(ordered(work.edits, "busiest", most + 1))
    total = count("count", "Transactions")
    heads = (path("directory"), total, *_KINDS)
    series = [
        Series(name, tuple(Point(record["hour"], record[name]) for record in hours[-_HOURS:]))
        for name in (*KINDS, "other")
        if any(record[name] for record in hours[-_HOURS:])
    ]
    return ReportSection(
        "operations",
        "Operations",
        f"The {counted(whole, 'transaction')} of the edits.",
        (
            table("operations_by_type", "By type", _TYPES, types),
            first_rows("busiest_directories", "Busiest directories", heads, busy, most=most),
            _by_hour((time("hour", "Hour"), total, *_KINDS, count("other", "Other")), hours),
        ),
        (
            *([TimeLine("Transactions per hour", tuple(series), "count", 3600)] if series else []),
            *first_bars("Transactions by type", "op", "count", types, most=most),
        ),
        (
            (
                "An operation without its own time has the time of the nearest earlier transaction. "
                "The operations of a directory are those on its direct children."
            ),
        ),
    )


def _by_hour(heads: tuple[ReportColumn, ...], hours: list[Record]) -> ReportTable:
    """Make the table of the newest hours; more than `_HOURS` records mean that older hours exist."""
    text = f"The newest {_HOURS} hours with operations." if len(hours) > _HOURS else ""
    return replace(table("operations_by_hour", "By hour", heads, hours[-_HOURS:], text), cut=len(hours) > _HOURS)
