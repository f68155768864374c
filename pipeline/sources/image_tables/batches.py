"""Record batches of rows and of columns, and values as tables show them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import java_text, signed64
from pipeline.schema import Table

BATCH_ROWS = 8192
_MICROS = 1000
_MOST = (1 << 63) - 1
NO_ACK = _MOST
"""Size that a NameNode gives to a block it has deleted, which it may still save (BlockCommand.NO_ACK)."""
_LATEST = _MOST // _MICROS

Row = Mapping[str, object]


def rows_to_batches(
    table: Table, columns: Sequence[str], rows: Iterable[Row], size: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Batches of at most `size` rows with these columns; a row is a value by column name, absent ones are null.

    Raises:
        KeyError: the table has no such column.
    """
    schema = table.select(columns).arrow_schema()
    source = iter(rows)
    while batch := list(itertools.islice(source, size)):
        yield pa.RecordBatch.from_pylist(batch, schema=schema)


def to_batch(table: Table, columns: Sequence[str], arrays: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """One batch of these columns, each of which stands in `arrays`."""
    schema = table.select(columns).arrow_schema()
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], schema=schema)


def numbers(values: npt.NDArray[np.generic], kind: pa.DataType, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """An Arrow array of numbers, null where `nulls` is set."""
    array: pa.Array = pa.array(values, mask=nulls)
    return array.cast(kind, safe=False)


def to_micros(millis: int) -> int | None:
    """A protobuf uint64 of milliseconds since 1970 as a timestamp; None for a time that no timestamp can hold."""
    signed = signed64(millis)
    return signed * _MICROS if -_LATEST <= signed <= _LATEST else None


def total_bytes(blocks: Iterable[pb.BlockProto]) -> int | None:
    """Sum of blocks' sizes, deleted ones left out; None where it does not fit a long."""
    total = sum(block.numBytes for block in blocks if block.numBytes != NO_ACK)
    return total if total <= _MOST else None


def text(value: str | bytes | None) -> str | None:
    """Text as Java decodes it: U+FFFD stands for what is not UTF-8."""
    return None if value is None else java_text(value)
