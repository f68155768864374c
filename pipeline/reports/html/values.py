"""Values as readable text; format.js produces the same strings for charts."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

from pipeline.reports.model import Cell, ValueKind

NUMERIC: frozenset[ValueKind] = frozenset({"count", "bytes", "time", "percent"})
"""Kinds to sort by number and to align right."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_MINUS = "\N{MINUS SIGN}"
_SPACE = "\N{NO-BREAK SPACE}"
_THIN = "\N{NARROW NO-BREAK SPACE}"


def bytes_text(value: int) -> str:
    """Return a size with three digits and a unit; a KiB is 1024 bytes."""
    size, unit = float(abs(value)), 0
    while unit < len(_UNITS) - 1 and size >= 1024 * 0.9995:
        size, unit = size / 1024, unit + 1
    digits = 0 if unit == 0 or size >= 99.95 else 1 if size >= 9.995 else 2
    # The page's scripts round in the same way.
    text = str(Decimal(size).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    text = text.rstrip("0").rstrip(".") if digits else text
    return f"{_sign(value)}{text}{_SPACE}{_UNITS[unit]}"


def count_text(value: int) -> str:
    """Return a count with all digits, in groups of three."""
    return _sign(value) + f"{abs(value):,}".replace(",", _THIN)


def time_text(value: datetime) -> str:
    """Return a time to the minute, in UTC."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def cell_text(value: Cell, kind: ValueKind) -> str:
    """Return the text of a cell; a dash for a missing value."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, str):
        return value
    if kind == "percent":
        return f"{_sign(value)}{abs(value):.1f}{_SPACE}%"
    return bytes_text(int(value)) if kind == "bytes" else count_text(int(value))


def sort_value(value: Cell) -> str | None:
    """Return the sort key of a cell: milliseconds since 1970 for times, otherwise the value; None sorts last."""
    if isinstance(value, datetime):
        return str(round(value.timestamp() * 1000))
    return None if value is None else str(value)


def _sign(value: float) -> str:
    return _MINUS if value < 0 else ""
