"""The way from a DataFrame to the driver: a bounded number of rows, as plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from pipeline.reports.model import Cell, Column, ReportTable

MOST_ROWS = 10_000
"""Rows that reach the driver in one go at most."""

Record = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def collect(frame: DataFrame, *, limit: int = MOST_ROWS) -> list[Record]:
    """At most `limit` rows; times are aware and in UTC whatever this process's time zone is."""
    times = {field.name for field in frame.schema.fields if isinstance(field.dataType, TimestampType)}
    plain = frame.select(
        *(sql.unix_micros(sql.col(name)).alias(name) if name in times else sql.col(name) for name in frame.columns)
    )
    records = [row.asDict() for row in plain.limit(min(limit, MOST_ROWS)).collect()]
    for record in records:
        for name in times:
            record[name] = _time(record[name])
    return records


def _time(micros: int | None) -> datetime | None:
    """None, too, for a time that lies beyond the years that Python counts."""
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def table(
    name: str, title: str, columns: tuple[Column, ...], records: Iterable[Mapping[str, Cell]], text: str = ""
) -> ReportTable:
    """A table of those keys of `records` that `columns` name."""
    rows = tuple(tuple(record[column.name] for column in columns) for record in records)
    return ReportTable(name, title, columns, rows, text)


def share(part: int, whole: int) -> float | None:
    """Per cent of a whole; None of nothing."""
    return round(100 * part / whole, 2) if whole else None
