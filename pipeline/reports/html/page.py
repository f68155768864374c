"""Renders a report as one page with its style, scripts and data; the page's security policy forbids requests."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from importlib.resources import files
from typing import assert_never

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from console.assets import base_style
from pipeline.reports.headline import TOTALS, headline, single_row
from pipeline.reports.html.values import NUMERIC, cell_text, sort_value, time_text
from pipeline.reports.model import (
    Bars,
    Cell,
    Chart,
    Histogram,
    NamespaceReport,
    ReportColumn,
    ReportTable,
    TimeLine,
    Treemap,
    TreemapNode,
    Unit,
    as_json,
)


def chart_table(chart: Chart) -> ReportTable:
    """Return the numbers of a chart, in the chart's order."""
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


_SCRIPTS = ("format", "squarify", "draw", "treemap", "bars", "timeline", "tables", "main")
"""Scripts of the page, in the order of their dependencies."""


def render(report: NamespaceReport) -> str:
    """Return the page; equal reports give equal pages."""
    script, style = _script(), _style()
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'"
    template = _environment().get_template("page.html.j2")
    return template.render(
        report=report, headline=headline(report, cell_text), policy=policy, script=Markup(script), style=Markup(style)
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        cell=cell_text,
        sort_value=sort_value,
        time=time_text,
        breakable=_breakable,
        chart_data=_chart_data,
        laid_out=_laid_out,
    )
    environment.globals.update(
        NUMERIC=NUMERIC, TOTALS=TOTALS, chart_table=chart_table, meter_level=_meter_level, single_row=single_row
    )
    return environment


@functools.cache
def _script() -> str:
    """Return all scripts in one function, so that they define no global names."""
    parts = [_text(f"{name}.js") for name in _SCRIPTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


@functools.cache
def _style() -> str:
    return base_style() + _text("page.css")


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash source by which a Content-Security-Policy allows an inline text (CSP level 3, section 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _breakable(path: str) -> Markup:
    """Allow line breaks after the slashes of a path."""
    return Markup("/<wbr>").join(escape(part) for part in path.split("/"))


def _laid_out(charts: tuple[Chart, ...]) -> list[tuple[Chart, bool]]:
    """Return each chart and whether it shares its row; two adjacent histograms or bar charts share a row."""
    placed: list[tuple[Chart, bool]] = []
    waiting = list(charts)
    while waiting:
        pair = waiting[:2] if all(isinstance(chart, Histogram | Bars) for chart in waiting[:2]) else waiting[:1]
        placed += [(chart, len(pair) == 2) for chart in pair]
        del waiting[: len(pair)]
    return placed


def _meter_level(column: ReportColumn, percent: float) -> str:
    """Return the colour class of a meter; highlight only meters that show the use of a limit and are near the limit."""
    limited = column.name.endswith("_used")
    return "over" if limited and percent >= 100 else "high" if limited and percent >= 90 else "level"


def _chart_data(chart: Chart) -> Markup:
    """Return a chart as JSON for a script element; escapes for `<`, `>` and `&` keep the JSON from
    ending the element.
    """
    text = json.dumps(as_json(chart), ensure_ascii=True, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
