"""A report as plain values, sections of tables and charts: without Spark, so that every writer can be fed by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypeAlias

Kind: TypeAlias = Literal["text", "count", "bytes", "time", "percent", "path"]
"""How a value is to be shown: `count` and `bytes` are integers, `percent` a float of 0 .. 100 (or more), `time` an
aware datetime in UTC, `text` and `path` strings. Any of them may be None where there is no value."""

Unit: TypeAlias = Literal["count", "bytes"]
"""What the values of a chart count."""

Cell: TypeAlias = str | int | float | datetime | None

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a table's column.

    Attributes:
        name: key in JSON, CSV and Parquet: lower case with underscores.
        title: what people read.
    """

    name: str
    kind: Kind
    title: str

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), self.name


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a section.

    Attributes:
        name: unique in the report, fit for a file name.
        rows: cells in the order of `columns`, the most important row first.
        text: one sentence on how to read it, "" where the title says all.
        cut: whether more rows exist than these first ones.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    text: str = ""
    cut: bool = False

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), self.name
        assert all(len(row) == len(self.columns) for row in self.rows), self.name


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a treemap; `value` is that of everything below it too, so it may be more than the sum of `children`."""

    name: str
    value: int
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Treemap:
    """Nested parts of a whole."""

    kind: ClassVar[str] = "treemap"
    title: str
    root: Node
    unit: Unit = "bytes"


@dataclass(frozen=True, slots=True)
class Bin:
    """A class of a histogram, e.g. "1 MB - 8 MB"."""

    label: str
    value: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Ordered classes and what falls into each; empty classes are there, with 0."""

    kind: ClassVar[str] = "histogram"
    title: str
    bins: tuple[Bin, ...]
    unit: Unit = "count"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar; negative values are allowed (what shrank)."""

    label: str
    value: int


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars without an order of their own, the largest first."""

    kind: ClassVar[str] = "bars"
    title: str
    bars: tuple[Bar, ...]
    unit: Unit = "count"


@dataclass(frozen=True, slots=True)
class Point:
    """A value at (or in the step that begins at) a time, UTC."""

    time: datetime
    value: int


@dataclass(frozen=True, slots=True)
class Series:
    """A line; its points are in the order of time."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Values over time, one line a series.

    Attributes:
        step: seconds from a point to the next; steps without a point are 0. None where points are no sums over a step.
    """

    kind: ClassVar[str] = "timeline"
    title: str
    series: tuple[Series, ...]
    unit: Unit = "count"
    step: int | None = None


Chart: TypeAlias = Treemap | Histogram | Bars | TimeLine


@dataclass(frozen=True, slots=True)
class Section:
    """One question and its answer.

    Attributes:
        id: what `--only` names it by; fit for an anchor.
        text: one sentence on what is shown.
        notes: what to know about these numbers, e.g. that access times are off.
    """

    id: str
    title: str
    text: str
    tables: tuple[ReportTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a report says.

    Attributes:
        cluster: name or id of the cluster, "" where neither is known.
        image: path of the image.
        txid: newest transaction of it.
        image_time: when the image was written, where that is known.
        before: path of the older image that growth is measured from, "" for none.
        edits: directory of the edits, "" for none.
        generated: when the report was made, UTC.
    """

    title: str
    image: str
    txid: int
    image_time: datetime | None
    generated: datetime
    sections: tuple[Section, ...] = ()
    before: str = ""
    edits: str = ""
    cluster: str = ""


def as_json(value: Any) -> Any:
    """A value of this module as what `json.dumps` takes; times are ISO 8601 in UTC, charts carry their `kind`."""
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
