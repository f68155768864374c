"""Converts rows of Arrow tables to values of a report, and builds the report's columns, tables and charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from hadoop_common.quantities import counted
from pipeline.reports.model import Bar, Bars, Cell, ReportColumn, ReportTable, Unit

Record = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records(rows: pa.Table) -> list[Record]:
    """Return the rows of a table; times are aware and in UTC."""
    times = {field.name for field in rows.schema if pa.types.is_timestamp(field.type)}
    for name in times:
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(pa.int64()))
    found: list[Record] = rows.to_pylist()
    for record in found:
        for name in times:
            record[name] = _time(record[name])
    return found


def _time(micros: int | None) -> datetime | None:
    """Convert microseconds since 1970; None for None and for a time outside of Python's range."""
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def table(
    name: str, title: str, columns: tuple[ReportColumn, ...], records: Iterable[Mapping[str, Cell]], text: str = ""
) -> ReportTable:
    """Make a table of the keys of `records` that `columns` name."""
    rows = tuple(tuple(record[column.name] for column in columns) for record in records)
    return ReportTable(name, title, columns, rows, text)


def first_rows(
    name: str,
    title: str,
    columns: tuple[ReportColumn, ...],
    records: Sequence[Mapping[str, Cell]],
    *,
    most: int,
    text: str = "",
) -> ReportTable:
    """Make a table of the first `most` records. If there are more records, the text mentions `--top`."""
    cut = len(records) > most
    if cut:
        text = f"{text} Only the first {counted(most, 'row')}; --top shows more.".lstrip()
    return replace(table(name, title, columns, records[:most], text), cut=cut)


def first_bars(
    title: str, label: str, value: str, records: Sequence[Mapping[str, Any]], *, unit: Unit = "count", most: int
) -> tuple[Bars, ...]:
    """Make a chart of the first `most` records, without zeros; no chart if nothing remains.

    Args:
        label, value: keys of the records.
    """
    bars = tuple(Bar(record[label] or "", record[value]) for record in records[:most] if record[value])
    return (Bars(f"{title}, the first {most}" if len(records) > most else title, bars, unit),) if bars else ()


def share(part: int, whole: int | None) -> float | None:
    """Return the percentage of a whole; None if the whole is 0 or unknown."""
    return round(100 * part / whole, 2) if whole else None


def path(name: str = "path", title: str = "Directory") -> ReportColumn:
    return ReportColumn(name, "path", title)


def text(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "text", title)


def count(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "count", title)


def bytes_(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "bytes", title)


def percent(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "percent", title)


def time(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "time", title)


CONTENT = (
    bytes_("raw", "Space with replicas"),
    bytes_("length", "Size of files"),
    count("files", "Files"),
    count("directories", "Directories"),
    count("blocks", "Blocks"),
)
"""Columns for the content of a directory or an owner."""
