"""Charts as tables, for readers who cannot see the charts and for exact values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import assert_never

from pipeline.reports.model import (
    Bars,
    Cell,
    Chart,
    Histogram,
    ReportColumn,
    ReportTable,
    TimeLine,
    Treemap,
    TreemapNode,
    Unit,
)


def chart_table(chart: Chart) -> ReportTable:
    """Return the numbers of a chart, in its order."""
    match chart:
        case Treemap():
            columns = (ReportColumn("part", "path", "Part"), _value(chart.unit))
            return _table(chart, columns, tuple(_parts(chart.root, "")))
        case Histogram():
            return _table(chart, (ReportColumn("class", "text", "Class"), _value(chart.unit)), _pairs(chart))
        case Bars():
            return _table(chart, (ReportColumn("name", "text", "Name"), _value(chart.unit)), _pairs(chart))
        case TimeLine():
            return _table(chart, *_times(chart))
        case _:
            assert_never(chart)


def _table(chart: Chart, columns: tuple[ReportColumn, ...], rows: tuple[tuple[Cell, ...], ...]) -> ReportTable:
    return ReportTable(chart.kind, chart.title, columns, rows)


def _value(unit: Unit) -> ReportColumn:
    return ReportColumn("value", unit, "Space" if unit == "bytes" else "Count")


def _pairs(chart: Histogram | Bars) -> tuple[tuple[Cell, ...], ...]:
    items = chart.bins if isinstance(chart, Histogram) else chart.bars
    return tuple((item.label, item.value) for item in items)


def _parts(node: TreemapNode, above: str) -> Iterator[tuple[Cell, ...]]:
    path = f"{above.rstrip('/')}/{node.name.lstrip('/')}" if above else node.name
    yield path, node.value
    for part in node.children:
        yield from _parts(part, path)


def _times(chart: TimeLine) -> tuple[tuple[ReportColumn, ...], tuple[tuple[Cell, ...], ...]]:
    """Return the columns (time and one for each series) and one row for each time."""
    missing = None if chart.step is None else 0
    values: list[dict[datetime, int]] = [{point.time: point.value for point in line.points} for line in chart.series]
    times = sorted({time for line in values for time in line})
    columns = [ReportColumn(f"series_{number}", chart.unit, line.name) for number, line in enumerate(chart.series)]
    rows = tuple((time, *(line.get(time, missing) for line in values)) for time in times)
    return (ReportColumn("time", "time", "Time (UTC)"), *columns), rows
