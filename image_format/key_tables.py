"""Hash tables that Python and kernels share: rows by inode id, and numbers of byte strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator, GrowableArray
from image_format.kernels.tables import (
    LINK_DTYPE,
    UNKNOWN,
    find_link,
    find_number,
    find_numbers,
    hash_name,
    move_links,
    move_numbers,
    put_items,
    put_link,
    put_number,
)

_FIRST_IDS = 1 << 10
_FIRST_STRINGS = 1 << 6
_FIRST_BYTES = 1 << 12
_MAX_LENGTH = 0xFFFF
_NO_LINKS = np.zeros(0, LINK_DTYPE)
_NO_BYTES = np.zeros(0, np.uint8)
Slots = npt.NDArray[np.int64]


def enlarged(slots: Slots, needed: int, allocator: ArrayAllocator, move: Callable[[Slots, Slots], object]) -> Slots:
    """Return the slots of a hash table with space for `needed` entries.

    At most three quarters of the places are filled.

    Args:
        move: copies entries from old slots to new slots.
    """
    size = slots.shape[0]
    while needed * 4 > size * 3:
        size *= 2
    if size == slots.shape[0]:
        return slots
    wider: Slots = allocator.zeros((size, *slots.shape[1:]), np.int64)
    # Touching the pages in ascending order is faster than touching them in the order of the hashes.
    wider.fill(0)
    move(slots, wider)
    return wider


class IdTable:
    """Rows by inode id; entries are never removed.

    Attributes:
        slots: pairs of an id and a row; see `kernels.tables.find_number`.
    """

    def __init__(self, allocator: ArrayAllocator) -> None:
        self._allocator = allocator
        self.slots: npt.NDArray[np.int64] = allocator.zeros((_FIRST_IDS, 2), np.int64)
        self.count = 0

    def get(self, inode_id: int) -> int | None:
        """Return the row of an id, or None if it has no row."""
        row = int(find_number(self.slots, inode_id))
        return None if row == UNKNOWN else row

    def get_all(self, inode_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the row of each id, with `UNKNOWN` for ids without a row."""
        found: npt.NDArray[np.int64] = find_numbers(self.slots, inode_ids)
        return found

    def __contains__(self, inode_id: int) -> bool:
        return int(find_number(self.slots, inode_id)) != UNKNOWN

    def add(self, inode_id: int, row: int) -> None:
        """Set the row of an id that has no row."""
        self.reserve(1)
        put_number(self.slots, inode_id, row)
        self.count += 1

    def reserve(self, more: int) -> None:
        self.slots = enlarged(self.slots, self.count + more, self._allocator, move_numbers)


class BytesTable:
    """Byte strings in insertion order, numbered from 0; equal strings may exist in several groups.

    Attributes:
        items: array of `LINK_DTYPE`; its first `count` items are used. `directory` is the group.
        slots: see `kernels.tables.find_link`.
        arena: array with the bytes of the strings, of which the first `used` bytes are used.
    """

    def __init__(self, allocator: ArrayAllocator) -> None:
        self._allocator = allocator
        self._items, self._arena = (
            GrowableArray(allocator, LINK_DTYPE, _FIRST_STRINGS),
            GrowableArray(allocator, np.uint8, _FIRST_BYTES),
        )
        self.items = self._items.array
        self.slots: npt.NDArray[np.int64] = allocator.zeros(2 * _FIRST_STRINGS, np.int64)
        self.arena: npt.NDArray[np.uint8] = self._arena.array
        self.count = 0
        self.used = 0

    def find(self, key: bytes, group: int = 0) -> int:
        """Return the number of `key`, or -1 if it is not in the table."""
        wanted = np.frombuffer(key, np.uint8)
        hashed = hash_name(group, wanted, 0, wanted.size)
        return int(find_link(self.slots, self.items, self.arena, hashed, group, wanted, 0, wanted.size))

    def add(self, key: bytes, group: int = 0) -> int:
        """Add a new `key` and return its number.

        Raises:
            ValueError: the key has more than 65535 bytes.
        """
        if len(key) > _MAX_LENGTH:
            raise ValueError(f"a string of {len(key)} bytes is too long")
        self.reserve(1, len(key))
        wanted = np.frombuffer(key, np.uint8)
        number = self.count
        self.items[number] = (self.used, group, 0, 0, wanted.size, 0)
        self.arena[self.used : self.used + wanted.size] = wanted
        put_link(self.slots, hash_name(group, wanted, 0, wanted.size), number)
        self.used += wanted.size
        self.count += 1
        return number

    def add_all(self, keys: Sequence[bytes], groups: Sequence[int]) -> None:
        """Add new keys, each to its group, as `add` does, but faster for many keys."""
        if max(map(len, keys), default=0) > _MAX_LENGTH:
            raise ValueError("a string is too long")
        data = b"".join(keys)
        self.reserve(len(keys), len(data))
        ends = np.cumsum([self.used, *map(len, keys)])
        first, behind = self.count, self.count + len(keys)
        added = self.items[first:behind]
        added["directory"], added["name_offset"], added["name_length"] = groups, ends[:-1], np.diff(ends)
        self.arena[self.used : ends[-1]] = np.frombuffer(data, np.uint8)
        put_items(self.slots, self.items, self.arena, first, behind)
        self.count, self.used = behind, int(ends[-1])

    def key(self, number: int) -> bytes:
        item = self.items[number]
        start = int(item["name_offset"])
        return self.arena[start : start + int(item["name_length"])].tobytes()

    def reserve(self, more: int, size: int) -> None:
        """Reserve space for `more` strings of `size` bytes in total."""
        needed = self.count + more
        if needed > self.items.size:
            self.items = _NO_LINKS
            try:
                self._items.grow(self.count, needed)
            finally:
                self.items = self._items.array
        if self.used + size > self.arena.size:
            self.arena = _NO_BYTES
            try:
                self._arena.grow(self.used, self.used + size)
            finally:
                self.arena = self._arena.array
        self.slots = enlarged(self.slots, needed, self._allocator, move_links)
