"""Section `operations`: what happened in the edits."""

from __future__ import annotations

from pipeline.reports.model import Bar, Bars, Column, Point, Section, Series, TimeLine
from pipeline.reports.queries.operations import KINDS, busiest, by_hour, by_type
from pipeline.reports.rows import collect, share, table
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
    hours = collect(by_hour(work.activity, limit=_HOURS))
    busy = collect(busiest(work.activity, limit=work.options.top))
    total = count("count", "Transactions")
    series = [
        Series(name, tuple(Point(record["hour"], record[name]) for record in hours))
        for name in (*KINDS, "other")
        if any(record[name] for record in hours)
    ]
    bars = tuple(Bar(record["op"], record["count"]) for record in types[: work.options.top])
    return Section(
        "operations",
        "Operations",
        f"The {whole} transactions of the edits.",
        (
            table("operations_by_type", "By type", _TYPES, types),
            table("busiest_directories", "Busiest directories", (path("directory"), total, *_KINDS), busy),
            table(
                "operations_by_hour", "By hour", (time("hour", "Hour"), total, *_KINDS, count("other", "Other")), hours
            ),
        ),
        (
            *([TimeLine("Transactions an hour", tuple(series), "count", 3600)] if series else []),
            *([Bars("Transactions by type", bars)] if bars else []),
        ),
        (
            (
                "Where an operation has no time of its own, that of the nearest earlier transaction counts; "
                "a directory's operations are those on the names directly in it."
            ),
        ),
    )
