"""Small charts as SVG: grouped bars, and lines over a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 360, 80, 56, 64
_GROUP_WIDTH = 130
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
_STYLE = "text{font:12px sans-serif;fill:#333}.t{font-size:15px}.g{stroke:#ddd}"
_FLOOR_HEIGHT = 2.0


def bars(title: str, unit: str, groups: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Draw grouped bars with their values on a logarithmic axis.

    Args:
        series: values above 0, one for each group, by name of the series.
    """
    values = [value for row in series.values() for value in row]
    low, high = _decades(values)
    page = max(_WIDTH, _LEFT + 20 + _GROUP_WIDTH * len(groups))
    parts = _frame(title, unit, low, high, series, page)
    step = (page - _LEFT - 20) / len(groups)
    width = step * 0.8 / len(series)
    for number, group in enumerate(groups):
        start = _LEFT + number * step + step * 0.1
        parts.append(_text(start + step * 0.4, _HEIGHT - _BOTTOM + 20, group, "middle"))
        for place, row in enumerate(series.values()):
            top = min(_y(row[number], low, high), _HEIGHT - _BOTTOM - _FLOOR_HEIGHT)
            left = start + place * width
            height = _HEIGHT - _BOTTOM - top
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{width - 2:.1f}" height="{height:.1f}"'
                f' fill="{_COLOURS[place % len(_COLOURS)]}"/>'
            )
            parts.append(_text(left + width / 2 - 1, top - 4, f"{row[number]:.3g}", "middle"))
    return _document(parts, page)


def lines(title: str, unit: str, xs: Sequence[float], series: Mapping[str, Sequence[float]]) -> str:
    """Draw a line for each series on logarithmic axes; `xs` are positive and increase."""
    values = [value for row in series.values() for value in row]
    low, high = _decades(values)
    parts = _frame(title, unit, low, high, series, _WIDTH)
    first, span = math.log10(xs[0]), max(math.log10(xs[-1] / xs[0]), 1e-9)
    places = [_LEFT + 30 + (math.log10(x) - first) / span * (_WIDTH - _LEFT - 80) for x in xs]
    for place, x in zip(places, xs, strict=True):
        parts.append(_text(place, _HEIGHT - _BOTTOM + 20, f"{x:,.0f}", "middle"))
    for number, row in enumerate(series.values()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [(place, _y(value, low, high)) for place, value in zip(places, row, strict=True)]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), value in zip(points, row, strict=True):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            parts.append(_text(x, y - 8, f"{value:.3g}", "middle"))
    return _document(parts, _WIDTH)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _y(value: float, low: int, high: int) -> float:
    share = (math.log10(value) - low) / (high - low)
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _frame(title: str, unit: str, low: int, high: int, series: Mapping[str, Sequence[float]], page: int) -> list[str]:
    """Return the picture with title, legend, and a line for each power of ten."""
    parts = [f'<text class="t" x="{_LEFT}" y="20">{escape(title)}</text>', _text(8, 40, unit, "start")]
    for number, name in enumerate(series):
        left = _LEFT + number * 150
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<rect x="{left}" y="{_HEIGHT - 26}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(left + 18, _HEIGHT - 16, name, "start"))
    for power in range(low, high + 1):
        y = _y(10.0**power, low, high)
        parts.append(f'<line class="g" x1="{_LEFT}" x2="{page - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{10.0**power:g}", "end"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _document(parts: Sequence[str], page: int) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {page} {_HEIGHT}" width="{page}">'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", ground, *parts, "</svg>"]) + "\n"
