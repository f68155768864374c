"""Record batches from rows and from columns, and conversions of their values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hadoop_common.java_numbers import signed64
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import java_text
from pipeline.schema import Table

BATCH_ROWS = 8192
_MICROS = 1000
_MAX_LONG = (1 << 63) - 1
NO_ACK = _MAX_LONG
"""Size of a deleted block, which a NameNode may save in an image (BlockCommand.NO_ACK)."""
_MAX_MILLIS = _MAX_LONG // _MICROS

Row = Mapping[str, object]


def rows_to_batches(
    table: Table, columns: Sequence[str], rows: Iterable[Row], size: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most `size` rows with these columns; a row maps column names to values, missing names are
    null.

    Raises:
        KeyError: a name is not a column of the table.
    """
    schema = table.select(columns).arrow_schema()
    source = iter(rows)
    while batch := list(itertools.islice(source, size)):
        yield pa.RecordBatch.from_pylist(batch, schema=schema)


def to_batch(table: Table, columns: Sequence[str], arrays: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return a batch of these columns of `arrays`."""
    schema = table.select(columns).arrow_schema()
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], schema=schema)


def numbers(values: npt.NDArray[np.generic], kind: pa.DataType, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array of numbers, null where `nulls` is true."""
    array: pa.Array = pa.array(values, mask=nulls)
    return array.cast(kind, safe=False)


def to_micros(millis: int) -> int | None:
    """Convert a protobuf uint64 of milliseconds since 1970 to a timestamp; None if a timestamp cannot represent it."""
    signed = signed64(millis)
    return signed * _MICROS if -_MAX_MILLIS <= signed <= _MAX_MILLIS else None


def total_bytes(blocks: Iterable[pb.BlockProto]) -> int | None:
    """Sum the sizes of blocks that are not deleted; None if the sum does not fit into a long."""
    total = sum(block.numBytes for block in blocks if block.numBytes != NO_ACK)
    return total if total <= _MAX_LONG else None


def text(value: str | bytes | None) -> str | None:
    """Decode text as Java does, with U+FFFD for invalid UTF-8."""
    return None if value is None else java_text(value)
