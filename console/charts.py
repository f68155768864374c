"""SVG charts rendered on the server: bars over time, stacked by series, with failures and events."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import escape

_WIDTH: Final = 960
_HEIGHT: Final = 230
_LEFT: Final = 74
_BOTTOM: Final = 24
_TOP: Final = 36
_RIGHT: Final = 8
_MAX_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class ChartBar:
    """Bar with its time (seconds since the epoch), one value for each series, a failure flag and a tooltip."""

    at: float
    values: tuple[float, ...]
    failed: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class ChartEvent:
    """Moment that the chart marks with a line, with the line's tooltip."""

    at: float
    text: str


def bar_chart(
    title: str,
    bars: Sequence[ChartBar],
    series: Sequence[str],
    *,
    since: float,
    until: float,
    label: Callable[[float], str],
    when: Callable[[float], str],
    events: Sequence[ChartEvent] = (),
) -> str:
    """Return an SVG of `bars` between two moments; `label` formats values, and `when` formats moments.

    The SVG contains neither script nor style. The page should also show the numbers in a table.
    """
    span = max(until - since, 1.0)
    highest = max((sum(bar.values) for bar in bars), default=0.0) or 1.0
    between = _round_step(highest)
    lines = math.ceil(highest / between)
    top = between * lines
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step = max(2.0, min(18.0, width / max(len(bars), 1) - 1))

    def x(at: float) -> float:
        return _LEFT + (at - since) / span * (width - step)

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text x="0" y="14">{escape(title)}</text>',
    ]
    parts += _legend(series) if len(series) > 1 else []
    for number in range(lines + 1):
        y = _TOP + height * (1 - number / lines)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        value = escape(label(between * number))
        parts.append(f'<text class="quiet" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for event in events:
        place = f"{x(event.at):.1f}"
        parts.append(f'<line class="event" x1="{place}" x2="{place}" y1="{_TOP}" y2="{_TOP + height}">')
        parts.append(f"<title>{escape(event.text)}</title></line>")
    for bar in bars:
        parts += _bar(bar, x(bar.at), step, height, top)
    for bar in bars:
        # drawn last, because bars would cover the line
        parts += _failure(bar, x(bar.at) + step / 2, height) if bar.failed else []
    for at, anchor in ((since, "start"), (until, "end")):
        edge = _LEFT if anchor == "start" else _WIDTH - _RIGHT
        parts.append(
            f'<text class="quiet" x="{edge}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{escape(when(at))}</text>'
        )
    return "".join([*parts, "</svg>"])


def _round_step(highest: float) -> float:
    """Return the spacing of grid lines: the smallest round number for which `_MAX_LINES` lines reach `highest`."""
    unit = 10.0 ** math.floor(math.log10(highest / _MAX_LINES))
    return next(unit * each for each in (1, 2, 5, 10, 20) if unit * each * _MAX_LINES >= highest)


def _bar(bar: ChartBar, x: float, step: float, height: float, top: float) -> list[str]:
    parts, y = [f"<g><title>{escape(bar.text)}</title>"], _TOP + height
    for number, value in enumerate(bar.values):
        tall = value / top * height
        y -= tall
        parts.append(f'<rect class="bar-{number}" x="{x:.1f}" y="{y:.1f}" width="{step:.1f}" height="{tall:.1f}"/>')
    return [*parts, "</g>"]


def _failure(bar: ChartBar, x: float, height: float) -> list[str]:
    place = f"M{x:.1f} {_TOP + height - 14:.1f}l7 12h-14z"
    return [f'<path class="failed" d="{place}"><title>{escape(bar.text)}</title></path>']


def _legend(series: Sequence[str]) -> list[str]:
    parts, x = [], _WIDTH - 96 * len(series)
    for number, name in enumerate(series):
        parts.append(f'<rect class="bar-{number}" x="{x + 96 * number}" y="5" width="10" height="10"/>')
        parts.append(f'<text x="{x + 96 * number + 15}" y="14">{escape(name)}</text>')
    return parts
