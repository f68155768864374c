"""A report as plain values: sections of tables and charts, independent of Spark, and the text of values."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypeAlias

ValueKind: TypeAlias = Literal["text", "count", "bytes", "time", "percent", "path"]
"""Kind of a value: `count` and `bytes` are integers, `percent` a float of 0 .. 100 (or more), `time` an aware datetime
in UTC, `text` and `path` strings. A missing value is None.
"""

Unit: TypeAlias = Literal["count", "bytes"]
"""Unit of the values of a chart."""

Cell: TypeAlias = str | int | float | datetime | None

SECTIONS = {
    "space": "",
    "owners": "",
    "files": "",
    "small-files": "",
    "cold": "",
    "paths": "paths",
    "cleanup": "",
    "permissions": "",
    "attributes": "file",
    "open-files": "file",
    "growth": "before",
    "operations": "edits",
    "snapshots": "file",
    "findings": "file",
}
"""Ids of all sections in the order of a report, each with the input that it needs besides an image. "file" means an
image outside a lake; the other inputs are "before", "edits" and "paths".
"""

FULL, NEARLY_FULL = "used up", "nearly used up"
"""Levels of quotas in the table `quota_levels`."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """Header of a table's column.

    Attributes:
        name: key in JSON, CSV and Parquet, lower case with underscores.
        title: heading for people.
    """

    name: str
    kind: ValueKind
    title: str

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), self.name


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a section.

    Attributes:
        name: unique in the report, valid as a file name.
        rows: cells in the order of `columns`, the most important row first.
        text: one sentence on how to read the table, "" if the title is enough.
        cut: whether the table omits further rows.
    """

    name: str
    title: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    text: str = ""
    cut: bool = False

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), self.name
        assert all(len(row) == len(self.columns) for row in self.rows), self.name


@dataclass(frozen=True, slots=True)
class TreemapNode:
    """A part of a treemap; `value` includes everything below, so it may exceed the sum of `children`."""

    name: str
    value: int
    children: tuple[TreemapNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Treemap:
    """A chart of nested parts of a whole."""

    kind: ClassVar[str] = "treemap"
    title: str
    root: TreemapNode
    unit: Unit = "bytes"


@dataclass(frozen=True, slots=True)
class Bin:
    """A class of a histogram, e.g. "1 MB - 8 MB"."""

    label: str
    value: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """A chart of ordered classes and their values; empty classes have the value 0."""

    kind: ClassVar[str] = "histogram"
    title: str
    bins: tuple[Bin, ...]
    unit: Unit = "count"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar; a negative value means a decrease."""

    label: str
    value: int


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar chart of items without a natural order, the largest first."""

    kind: ClassVar[str] = "bars"
    title: str
    bars: tuple[Bar, ...]
    unit: Unit = "count"


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time (UTC), or in the step that begins at that time."""

    time: datetime
    value: int


@dataclass(frozen=True, slots=True)
class Series:
    """A line; its points are sorted by time."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class TimeLine:
    """A chart of values over time, one line for each series.

    Attributes:
        step: seconds between points that are sums over a step; steps without a point are 0. None for other values.
    """

    kind: ClassVar[str] = "timeline"
    title: str
    series: tuple[Series, ...]
    unit: Unit = "count"
    step: int | None = None


Chart: TypeAlias = Treemap | Histogram | Bars | TimeLine


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of a report: one question and its answer.

    Attributes:
        id: name for `--only`, valid as an anchor.
        text: one sentence on the content.
        notes: remarks on the numbers, e.g. that access times are off.
    """

    id: str
    title: str
    text: str
    tables: tuple[ReportTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamespaceReport:
    """A complete report.

    Attributes:
        cluster: name or id of the cluster, "" if unknown.
        image: path of the image.
        txid: last transaction in the image.
        image_time: modification time of the image, None if unknown.
        before: path of the older image or report for growth, "" if there is none.
        edits: directory of the edits, "" if there is none.
        generated: time of the report, UTC.
        namespace: id of the namespace, "" if unknown.
    """

    title: str
    image: str
    txid: int
    image_time: datetime | None
    generated: datetime
    sections: tuple[ReportSection, ...] = ()
    before: str = ""
    edits: str = ""
    cluster: str = ""
    namespace: str = ""


def as_json(value: Any) -> Any:
    """Convert a value of this module for `json.dumps`; times become ISO 8601 in UTC, charts include their `kind`."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if isinstance(value, ReportTable):
        names = [column.name for column in value.columns]
        rows = [dict(zip(names, as_json(row), strict=True)) for row in value.rows]
        return {**_fields(value, leave="rows"), "rows": rows}
    if hasattr(value, "__dataclass_fields__"):
        return _fields(value)
    return value


def _fields(value: Any, leave: str = "") -> dict[str, Any]:
    content = {item.name: as_json(getattr(value, item.name)) for item in fields(value) if item.name != leave}
    return {"kind": value.kind, **content} if isinstance(value, Chart) else content


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
