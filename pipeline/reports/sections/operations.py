"""Section `operations`: what happened in the edits."""

from __future__ import annotations

from dataclasses import replace

from pipeline.reports.model import Column, Point, ReportTable, Section, Series, TimeLine
from pipeline.reports.queries.operations import KINDS, busiest, by_hour, by_type
from pipeline.reports.rows import Record, collect, first_bars, first_rows, share, table
from pipeline.reports.sections.heads import count, path, percent, text, time
from pipeline.reports.work import Work

_HOURS = 24 * 62
_KINDS: tuple[Column, ...] = tuple(count(name, name.capitalize()) for name in KINDS)
_TYPES = (
    text("op", "Operation"),
    count("count", "Transactions"),
    percent("share", "Of all"),
    count("directories", "Directories"),
)


def section(work: Work) -> Section:
    """Transactions by type and by hour, and the directories in which most happens."""
    types = collect(by_type(work.activity))
    whole = sum(record["count"] for record in types)
    for record in types:
        record["share"] = share(record["count"], whole)
    hours = collect(by_hour(work.activity, limit=_HOURS + 1))
    most = work.options.top
    busy = collect(busiest(work.activity, limit=most + 1))
    total = count("count", "Transactions")
    heads = (path("directory"), total, *_KINDS)
    series = [
        Series(name, tuple(Point(record["hour"], record[name]) for record in hours[-_HOURS:]))
        for name in (*KINDS, "other")
        if any(record[name] for record in hours[-_HOURS:])
    ]
    return Section(
        "operations",
        "Operations",
        f"The {whole} transactions of the edits.",
        (
            table("operations_by_type", "By type", _TYPES, types),
            first_rows("busiest_directories", "Busiest directories", heads, busy, most=most),
            _by_hour((time("hour", "Hour"), total, *_KINDS, count("other", "Other")), hours),
        ),
        (
            *([TimeLine("Transactions an hour", tuple(series), "count", 3600)] if series else []),
            *first_bars("Transactions by type", "op", "count", types, most=most),
        ),
        (
            (
                "Where an operation has no time of its own, that of the nearest earlier transaction counts; "
                "a directory's operations are those on the names directly in it."
            ),
        ),
    )


def _by_hour(heads: tuple[Column, ...], hours: list[Record]) -> ReportTable:
    """The newest hours; a record more than `_HOURS` tells that there are older ones."""
    text = f"The newest {_HOURS} hours that have any." if len(hours) > _HOURS else ""
    return replace(table("operations_by_hour", "By hour", heads, hours[-_HOURS:], text), cut=len(hours) > _HOURS)
