"""Sums of Arrow tables by key. Sums saturate at the largest long, because an image may contain absurd sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Order = Sequence[tuple[str, Literal["ascending", "descending"]]]

MAX_LONG = (1 << 63) - 1
_EXACT = float(1 << 53)
"""Bound below which sums are exact as doubles, which NumPy adds fastest."""


def numbers(column: pa.Array | pa.ChunkedArray, missing: int = 0) -> Numbers:
    """Return a column as 64-bit integers, with `missing` for null; times are microseconds."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(missing)
    found: Numbers = column.to_numpy(zero_copy_only=False)
    return found


def codes_of(column: pa.Array | pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """Return the number of each row's value, and the distinct values; null is a value."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.DictionaryArray):
        if not column.indices.null_count:
            return numbers(column.indices), column.dictionary
        column = column.dictionary_decode()
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return numbers(encoded.indices), encoded.dictionary


def groups_of(columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Numbers, Numbers]:
    """Return (group of each row, first row of each group) of rows with equal values in all columns."""
    groups, found = codes_of(columns[0])
    size = len(found)
    for column in columns[1:]:
        codes, values = codes_of(column)
        if size * len(values) > MAX_LONG:
            groups, found = codes_of(pa.array(groups))
            size = len(found)
        groups = groups * len(values) + codes
        size *= len(values)
    if len(columns) > 1:
        groups, found = codes_of(pa.array(groups))
    firsts = np.empty(len(found), np.int64)
    firsts[groups[::-1]] = np.arange(groups.size - 1, -1, -1)
    return groups, firsts


def add_up(values: Numbers, groups: Numbers, count: int) -> Numbers:
    """Return the sum of each of `count` groups; values are not negative.

    A sum that overflows a long becomes the largest long.
    """
    total = float(values.sum(dtype=np.float64))
    if total < _EXACT:
        return np.bincount(groups, values, count).astype(np.int64)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, values)
    if total >= MAX_LONG / 2:
        about = np.bincount(groups, values, count)
        # A sum of doubles is inexact by far less than a quarter of a long's range, so a wrapped sum is recognised.
        sums[((sums < 0) & (about > 0.75 * MAX_LONG)) | (about > 1.5 * MAX_LONG)] = MAX_LONG
    return sums


def total_of(column: pa.Array | pa.ChunkedArray) -> int:
    """Return the sum of a column, or 0 if there are no rows; see `add_up`."""
    values = numbers(column)
    return int(add_up(values, np.zeros(values.size, np.int64), 1)[0])


def highest(values: Numbers, groups: Numbers, count: int) -> Numbers:
    """Return the largest value of each of `count` groups, at least 0."""
    found = np.zeros(count, np.int64)
    np.maximum.at(found, groups, values)
    return found


def grouped(rows: pa.Table, keys: Sequence[str], sums: Iterable[str]) -> pa.Table:
    """Return a row for each combination of `keys`, with the sums of other columns."""
    groups, firsts = groups_of([rows[key] for key in keys])
    columns: dict[str, Any] = {key: rows[key].take(pa.array(firsts)) for key in keys}
    columns |= {name: add_up(numbers(rows[name]), groups, firsts.size) for name in sums}
    return pa.table(columns)


def first(rows: pa.Table, order: Order, limit: int) -> pa.Table:
    """Return the first `limit` rows in an order; null is last."""
    name, direction = order[0]
    if direction == "descending" and rows.num_rows > 4 * limit:
        values = numbers(rows[name])
        rows = rows.filter(pa.array(values >= np.partition(values, -limit)[-limit]))
    return rows.sort_by(list(order)).slice(0, limit)


def more_than_none(rows: pa.Table, name: str) -> pa.Table:
    """Return the rows with a positive number in a column."""
    return rows.filter(pa.array(numbers(rows[name]) > 0))


def with_columns(rows: pa.Table, columns: Mapping[str, Numbers]) -> pa.Table:
    for name, values in columns.items():
        rows = rows.append_column(name, pa.array(values))
    return rows


def pack(tables: Mapping[str, pa.Table]) -> dict[str, bytes]:
    """Return tables as compressed Arrow IPC streams."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    found = {}
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        found[name] = sink.getvalue().to_pybytes()
    return found


def unpack(parts: Iterable[Mapping[str, bytes]]) -> dict[str, pa.Table]:
    """Return the tables of all parts; join tables with the same name."""
    found: dict[str, list[pa.Table]] = {}
    for part in parts:
        for name, content in part.items():
            found.setdefault(name, []).append(pa.ipc.open_stream(content).read_all())
    return {name: pa.concat_tables(tables) for name, tables in found.items()}
