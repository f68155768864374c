"""Columns of numbers that differ little from their neighbours, stored in two bytes each instead of eight."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator, GrowableArray
from image_format.kernels.packed import (
    BLOCK,
    Columns,
    find_packed,
    find_packed_all,
    pack_blocks,
    packed_at,
    unpack,
    unpack_at,
)

__all__ = ["BLOCK", "Packed", "Packer"]

Numbers = npt.NDArray[np.int64]

_FIRST_WIDE = 1 << 10
_PIECE = 1 << 17


class Packed(Columns):
    """Column of non-negative numbers, which kernels accept directly."""

    __slots__ = ()

    @classmethod
    def joined(cls, pieces: Iterable[Numbers], most: int, allocator: ArrayAllocator) -> Packed:
        """Pack the concatenation of arrays, with at most `most` numbers; raise the same errors as `of`."""
        packer = Packer(most, allocator)
        row, left = 0, np.zeros(0, np.int64)
        for piece in pieces:
            values = np.concatenate([left, piece])
            whole = values.size - values.size % BLOCK
            packer.put(row, values[:whole])
            row, left = row + whole, values[whole:]
        packer.put(row, left)
        return packer.packed(row + left.size)

    @classmethod
    def of(cls, values: Numbers, allocator: ArrayAllocator | None = None) -> Packed:
        """Pack an array; raise the same errors as `ArrayAllocator.zeros`."""
        packer = Packer(values.size, ArrayAllocator() if allocator is None else allocator)
        packer.put(0, values)
        return packer.packed(values.size)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.low.size

    @property
    def nbytes(self) -> int:
        return self.low.nbytes + self.bases.nbytes + self.wide.nbytes

    def find(self, wanted: int) -> int:
        """Return the row of a number in a strictly increasing column, or -1 if it is missing."""
        return int(find_packed(self, wanted))

    def find_all(self, wanted: Numbers) -> Numbers:
        found: Numbers = find_packed_all(self, wanted)
        return found

    def item(self, row: int) -> int:
        """Return the number in a row; raise IndexError for a missing row."""
        self._check(row, row)
        return int(packed_at(self, row))

    def at(self, rows: Numbers) -> Numbers:
        """Return the numbers in these rows; raise IndexError for a missing row."""
        if rows.size:
            self._check(int(rows.min()), int(rows.max()))
        found: Numbers = unpack_at(self, rows)
        return found

    def part(self, first: int, behind: int) -> Numbers:
        """Return the numbers in the existing rows `first` to `behind` - 1; raise IndexError for a negative row."""
        if first < 0:
            raise IndexError(first)
        out: Numbers = np.empty(max(0, min(behind, self.size) - first), np.int64)
        unpack(self, first, out)
        return out

    def all(self) -> Numbers:
        """Return all numbers."""
        return self.part(0, self.size)

    def _check(self, least: int, most: int) -> None:
        # kernels do not check bounds
        if not 0 <= least <= most < self.size:
            raise IndexError(f"rows {least} to {most} of {self.size}")


class Packer:
    """Packer of a column; several threads may pack different rows.

    Args:
        capacity: maximum number of rows.
        allocator: allocator of the column's arrays.

    Raises:
        ImageStorageError, MemoryError: see `ArrayAllocator.zeros`; the methods also raise them.
    """

    def __init__(self, capacity: int, allocator: ArrayAllocator) -> None:
        self._low: npt.NDArray[np.uint16] = allocator.zeros(capacity, np.uint16)
        self._bases: Numbers = allocator.zeros(_blocks(capacity), np.int64)
        self._wide = GrowableArray(allocator, np.int64, _FIRST_WIDE)
        self._wide_used = 0
        self._guard = threading.Lock()

    @property
    def capacity(self) -> int:
        return self._low.size

    def put(self, row: int, values: Numbers) -> None:
        """Pack numbers into the rows from `row`, the first row of a block; only the last block may be incomplete."""
        for first in range(0, values.size, _PIECE):
            self._put(row + first, values[first : first + _PIECE])

    def _put(self, row: int, values: Numbers) -> None:
        block, count = row // BLOCK, _blocks(values.size)
        bases, wide = self._bases[block : block + count], np.empty(count * BLOCK, np.int64)
        used = int(pack_blocks(values, self._low[row : row + values.size], bases, wide))
        if used:
            with self._guard:
                self._keep(bases, wide[:used])

    def _keep(self, bases: Numbers, wide: Numbers) -> None:
        """Append blocks to `wide`, and record their numbers in `bases`."""
        before, behind = self._wide_used, self._wide_used + wide.size
        if behind > self._wide.array.size:
            self._wide.grow(before, behind, most=_blocks(self.capacity) * BLOCK)
        self._wide.array[before:behind] = wide
        bases[bases < 0] -= before // BLOCK
        self._wide_used = behind

    def packed(self, size: int) -> Packed:
        """Return the column of the first `size` rows, all of which must be packed."""
        return Packed(self._low[:size], self._bases[: _blocks(size)], self._wide.array[: self._wide_used])


def _blocks(size: int) -> int:
    return -(-size // BLOCK)
