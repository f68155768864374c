"""Values of a report as plain text."""

from __future__ import annotations

from datetime import datetime

from pipeline.reports.model import Cell, ValueKind

RIGHT: frozenset[ValueKind] = frozenset({"count", "bytes", "percent"})
"""Kinds of right-aligned cells."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def cell_text(value: Cell, kind: ValueKind) -> str:
    """Return the text of a cell; "" for None."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, str):
        return value
    if kind == "bytes":
        return _bytes(int(value))
    return f"{value:,.1f} %" if kind == "percent" else f"{value:,}"


def _bytes(number: int) -> str:
    size, unit = float(abs(number)), 0
    while size >= 1023.95 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    sign = "-" if number < 0 else ""
    return f"{sign}{size:.0f} {_UNITS[0]}" if unit == 0 else f"{sign}{size:.1f} {_UNITS[unit]}"
