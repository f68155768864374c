"""Renders a report as one self-contained page: style, scripts and data are in it, and its policy forbids requests."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pipeline.reports.headline import TOTALS, headline, single_row
from pipeline.reports.html.chart_tables import chart_table
from pipeline.reports.html.values import NUMERIC, cell_text, sort_value, time_text
from pipeline.reports.model import Bars, Chart, Column, Histogram, Report, as_json

_SCRIPTS = ("format", "squarify", "draw", "treemap", "bars", "timeline", "tables", "main")
"""In the order in which they need each other."""


def render(report: Report) -> str:
    """The page; the same report gives the same text."""
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
    """All scripts in one function, so that they leave no names behind."""
    parts = [_text(f"{name}.js") for name in _SCRIPTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


@functools.cache
def _style() -> str:
    return _text("page.css")


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source of a Content-Security-Policy that allows this one inline text (CSP level 3, section 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _breakable(path: str) -> Markup:
    """A path that may be broken after its slashes."""
    return Markup("/<wbr>").join(escape(part) for part in path.split("/"))


def _laid_out(charts: tuple[Chart, ...]) -> list[tuple[Chart, bool]]:
    """Charts, and whether each stands at the side of another one: two neighbours that need little width do."""
    placed: list[tuple[Chart, bool]] = []
    waiting = list(charts)
    while waiting:
        pair = waiting[:2] if all(isinstance(chart, Histogram | Bars) for chart in waiting[:2]) else waiting[:1]
        placed += [(chart, len(pair) == 2) for chart in pair]
        del waiting[: len(pair)]
    return placed


def _meter_level(column: Column, percent: float) -> str:
    """How a meter is coloured: what is used of a limit warns near it, other shares never do."""
    limited = column.name.endswith("_used")
    return "over" if limited and percent >= 100 else "high" if limited and percent >= 90 else "level"


def _chart_data(chart: Chart) -> Markup:
    """JSON that cannot end the script element it stands in: `<`, `>` and `&` are written as escapes."""
    text = json.dumps(as_json(chart), ensure_ascii=True, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
