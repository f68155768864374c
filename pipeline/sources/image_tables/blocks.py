"""The `blocks` table, which a kernel fills from ranges of slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from image_format.erasure_policies import ErasurePolicy, raw_bytes
from image_format.errors import BufferOrigin, RecordError
from image_format.index import Bytes
from image_format.packed import Packed
from pipeline.kernels import blocks as kernel
from pipeline.sources.image_tables.batches import numbers, to_batch
from pipeline.tables.inodes import BLOCKS

_BATCH = 1 << 16
_MAX_BYTES = 1 << 46  # larger than any real block; the size of 2^16 replicas still fits into a long
_NUMBERS = {
    "inode_id": kernel.INODE_ID,
    "index": kernel.INDEX,
    "block_id": kernel.BLOCK_ID,
    "genstamp": kernel.GENSTAMP,
    "bytes": kernel.BYTES,
    "replication": kernel.REPLICATION,
}
_TYPES = {column.name: column.type for column in BLOCKS.columns}


def block_batches(
    buf: Bytes,
    offsets: Packed,
    slots: range,
    columns: Sequence[str],
    policies: dict[int, ErasurePolicy],
    place: BufferOrigin,
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the blocks of the inodes in `slots`.

    Args:
        buf: the INODE section; offsets: offset of each slot's record. policies: erasure coding policies by id. place:
            location of INODE, for errors.

    Raises:
        RecordError: a record is damaged.
    """
    slot, given = slots.start, 0
    while slot < slots.stop:
        out = np.empty((kernel.COLUMNS, _BATCH), np.int64)
        count, slot, given, damaged = kernel.collect_blocks(buf, offsets, slot, slots.stop, given, out)
        if damaged:
            raise place.error(RecordError, "damaged inode record", offsets.item(slot))
        if count:
            yield _batch(out[:, :count], columns, policies)


def _batch(rows: npt.NDArray[np.int64], columns: Sequence[str], policies: dict[int, ErasurePolicy]) -> pa.RecordBatch:
    arrays = {}
    for name in columns:
        if name in _NUMBERS:
            arrays[name] = numbers(rows[_NUMBERS[name]], _TYPES[name])
        elif name == "striped":
            arrays[name] = pa.array(rows[kernel.STRIPED] != 0)
        elif name == "under_construction":
            arrays[name] = pa.array(rows[kernel.UNDER_CONSTRUCTION] != 0)
        elif name == "ec_policy":
            arrays[name] = _policy_names(rows[kernel.POLICY], policies)
        else:
            arrays[name] = _raw_bytes(rows, policies)
    return to_batch(BLOCKS, columns, arrays)


def _policy_names(ids: npt.NDArray[np.int64], policies: dict[int, ErasurePolicy]) -> pa.Array:
    """Return policy names, encoded as a dictionary, because a batch has few policies."""
    present, positions = np.unique(ids, return_inverse=True)
    names = [_name(number, policies) for number in present.tolist()]
    return pa.array(names, pa.string()).take(pa.array(positions))


def _name(number: int, policies: dict[int, ErasurePolicy]) -> str | None:
    if number < 0:
        return None
    policy = policies.get(number)
    return str(number) if policy is None else policy.name


def _raw_bytes(rows: npt.NDArray[np.int64], policies: dict[int, ErasurePolicy]) -> pa.Array:
    data, ids = rows[kernel.BYTES], rows[kernel.POLICY]
    striped = rows[kernel.STRIPED] != 0
    # Deleted blocks have the size NO_ACK; negative and huge sizes are invalid too.
    absurd = (data < 0) | (data > _MAX_BYTES)
    data = np.where(absurd, 0, data)
    raw = data * rows[kernel.REPLICATION]
    unknown = striped | absurd
    for number in np.unique(ids[striped]).tolist():
        if (policy := policies.get(number)) is not None:
            chosen = striped & (ids == number)
            raw[chosen] = raw_bytes(data[chosen], policy)
            unknown[chosen] = absurd[chosen]
    return numbers(raw, pa.int64(), unknown)
