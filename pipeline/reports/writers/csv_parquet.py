"""A report as a folder with a CSV or Parquet file for each table; the folder appears complete or not at all."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hadoop_common.durable import TEMPORARY_SUFFIX, rename_durably, write_atomically
from pipeline.reports.model import NamespaceReport, ReportTable, ValueKind, as_json

_TYPES: dict[ValueKind, pa.DataType] = {
    "text": pa.string(),
    "path": pa.string(),
    "count": pa.int64(),
    "bytes": pa.int64(),
    "percent": pa.float64(),
    "time": pa.timestamp("us", tz="UTC"),
}


def _csv(table: ReportTable) -> bytes:
    """Return a table as CSV (RFC 4180, UTF-8) with a header; times in ISO 8601, bytes as plain numbers, None as an
    empty field.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([column.name for column in table.columns])
    for row in table.rows:
        writer.writerow([as_json(value) if isinstance(value, datetime) else value for value in row])
    return out.getvalue().encode()


def _parquet(table: ReportTable) -> bytes:
    fields = [pa.field(column.name, _TYPES[column.kind]) for column in table.columns]
    values = [[row[position] for row in table.rows] for position in range(len(fields))]
    arrays = [pa.array(cells, field.type) for cells, field in zip(values, fields, strict=True)]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), out)
    return out.getvalue()


FOLDER_FORMATS: dict[str, Callable[[ReportTable], bytes]] = {"csv": _csv, "parquet": _parquet}
"""Encoders of tables by file extension."""


def write_folder(report: NamespaceReport, folder: Path, extension: str) -> list[Path]:
    """Write `TABLE.extension` for each table; replace an existing folder with all its files.

    Raises:
        OSError: the folder cannot be written; an existing folder is unchanged.
    """
    fresh = folder.with_name(folder.name + TEMPORARY_SUFFIX)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir()
        tables = [table for section in report.sections for table in section.tables]
        for table in tables:
            write_atomically(fresh / f"{table.name}.{extension}", FOLDER_FORMATS[extension](table))
        _put(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return [folder / f"{table.name}.{extension}" for table in tables]


def _put(fresh: Path, folder: Path) -> None:
    """Rename the new folder; first set an old folder aside, because a rename replaces only empty folders."""
    if not folder.exists():
        rename_durably(fresh, folder)
        return
    old = folder.with_name(f"{folder.name}.old{TEMPORARY_SUFFIX}")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    try:
        rename_durably(fresh, folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)
