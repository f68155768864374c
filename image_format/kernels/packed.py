"""Kernels for packed columns of numbers; where possible, 64 numbers are stored as 16-bit differences from one base."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.kernels.jit import kernel, lean_kernel

BLOCK = 64
"""Count of numbers that share a base."""

_SHIFT = 6


class Columns(NamedTuple):
    """Rows of non-negative numbers.

    Attributes:
        low: uint16: the difference of each number from the base of its block.
        bases: int64: the smallest number of each block of 64 rows. A block whose range exceeds 16 bits has `~n`
            instead, and is stored as block `n` of `wide`.
        wide: int64: the numbers of blocks with a larger range, 64 rows each.
    """

    low: npt.NDArray[np.uint16]
    bases: npt.NDArray[np.int64]
    wide: npt.NDArray[np.int64]


_LARGEST = 0xFFFF
_MISSING = -1


@lean_kernel
def packed_at(packed, i):
    """Return the number in row `i`."""
    base = packed.bases[np.uint64(i >> _SHIFT)]
    if base >= 0:
        return base + np.int64(packed.low[np.uint64(i)])
    return packed.wide[np.uint64((~base << _SHIFT) + (i & (BLOCK - 1)))]


@lean_kernel
def _first_of(packed, block):
    """Return the first number of a block of an increasing column."""
    base = packed.bases[np.uint64(block)]
    return base if base >= 0 else packed.wide[np.uint64(~base << _SHIFT)]


@lean_kernel
def find_packed(packed, wanted):
    """Return the row of `wanted` in a strictly increasing column, or -1 if it is missing."""
    size = packed.low.size
    if size == 0:
        return np.int64(_MISSING)
    first = packed_at(packed, 0)
    last = packed_at(packed, size - 1)
    if wanted < first or wanted > last:
        return np.int64(_MISSING)
    # Distinct ascending integers limit the place from both sides; a dense image leaves only one candidate.
    low = max(0, size - 1 - (last - wanted)) >> _SHIFT
    high = min(size - 1, wanted - first) >> _SHIFT
    while low < high:
        middle = (low + high + 1) >> 1
        if _first_of(packed, middle) <= wanted:
            low = middle
        else:
            high = middle - 1
    row = low << _SHIFT
    high = min(row + BLOCK, size) - 1
    high = min(high, row + (wanted - _first_of(packed, low)))
    if packed_at(packed, high) == wanted:
        return np.int64(high)
    while row < high:
        middle = (row + high) >> 1
        if packed_at(packed, middle) < wanted:
            row = middle + 1
        else:
            high = middle
    return np.int64(row if packed_at(packed, row) == wanted else _MISSING)


@lean_kernel
def find_slot(ids, slots, inode_id):
    """Return the slot of an inode from the columns of `IndexArrays`, or -1 for an unknown id."""
    row = find_packed(ids, inode_id)
    return np.int64(slots[row]) if row >= 0 and slots.size else row


@lean_kernel
def is_in_slot(ids, slots, inode_id, slot):
    """Return whether an inode is certainly in a slot, which is known only if the slots are in the order of the ids."""
    return slots.size == 0 and 0 <= slot < ids.low.size and packed_at(ids, slot) == inode_id


@lean_kernel
def find_slot_near(ids, slots, inode_id, near):
    """Return the result of `find_slot` for an inode whose slot is most likely `near`.

    Children of a directory were usually created together, so the slots of consecutive children usually differ by as
    much as their ids.
    """
    return np.int64(near) if is_in_slot(ids, slots, inode_id, near) else find_slot(ids, slots, inode_id)


@kernel
def find_packed_all(packed, wanted):
    """Return the result of `find_packed` for each number of `wanted`."""
    found = np.empty(wanted.size, np.int64)
    for i in range(wanted.size):
        found[i] = find_packed(packed, wanted[i])
    return found


@lean_kernel
def pack_blocks(values, low, bases, wide):
    """Pack non-negative numbers block by block; the last block may be incomplete.

    Args:
        values: the numbers, one for each row of `low`.
        low, bases: results (see `Columns`); `bases` numbers the blocks in `wide` from 0, inverted.
        wide: result, with space for all blocks.

    Returns:
        Number of rows of `wide` that were filled, in complete blocks.
    """
    used = 0
    for block in range(bases.size):
        start = block << _SHIFT
        stop = min(start + BLOCK, values.size)
        least = values[np.uint64(start)]
        most = least
        for i in range(start + 1, stop):
            value = values[np.uint64(i)]
            least = min(least, value)
            most = max(most, value)
        if most - least <= _LARGEST:
            bases[np.uint64(block)] = least
            for i in range(start, stop):
                low[np.uint64(i)] = values[np.uint64(i)] - least
        else:
            bases[np.uint64(block)] = ~np.int64(used >> _SHIFT)
            for i in range(start, stop):
                wide[np.uint64(used + i - start)] = values[np.uint64(i)]
            used += BLOCK
    return used


@lean_kernel
def unpack(packed, first, out):
    """Fill `out` with the numbers from row `first`."""
    for i in range(out.size):
        out[np.uint64(i)] = packed_at(packed, first + i)


@kernel
def unpack_at(packed, rows):
    """Return the numbers in these rows."""
    out = np.empty(rows.size, np.int64)
    for i in range(rows.size):
        out[i] = packed_at(packed, rows[i])
    return out
