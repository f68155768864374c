"""Children by directory and name, after their first lookup, in a table that kernels share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import GrowableArray, pieces
from image_format.inode_table import NO_ROW, InodeTable
from image_format.kernels.changes import count_changed_names, list_changed_names
from image_format.kernels.inode import DROPPED
from image_format.kernels.tables import LINK_DTYPE, find_name, hash_name, move_links, put_link
from image_format.key_tables import enlarged

Rows = npt.NDArray[np.int64]

_FIRST_SIZE = 1 << 10
_MAX_NAME = 0xFFFF
_MAX_NUMBERS = 1 << 16
_NO_LINKS = np.zeros(0, LINK_DTYPE)


class ChangedNames(NamedTuple):
    """Names that differ from the base image, by directory.

    Attributes:
        directories: rows of the directories with changed names, ascending.
        bounds: start of each directory's names in `spans` and `holders`, followed by the end.
        spans: rows of (offset in `InodeTable.names`, size) of the names.
        holders: current row of each name; `NO_ROW` if the name was removed.
    """

    directories: Rows
    bounds: Rows
    spans: Rows
    holders: Rows


class ChildLinks:
    """Children of touched directories by name; see `Tree`.

    The links of a directory form a chain that starts at the `first_link` column of its row. Names are in the arena of
    the inode table. Links are never deleted; the link of a removed name refers to `NO_ROW`.

    Attributes:
        links: array of `LINK_DTYPE`; the first `count` items are used.
        slots: see `kernels.tables.find_link`.
    """

    def __init__(self, table: InodeTable) -> None:
        self._table = table
        self._links = GrowableArray(table.allocator, LINK_DTYPE, _FIRST_SIZE)
        self._bind(self._links.array)
        self.slots: npt.NDArray[np.int64] = table.allocator.zeros(2 * _FIRST_SIZE, np.int64)
        self.count = 0
        # Link numbers never change, so they can be cached; the cache saves a kernel call, the slowest part of a
        # look-up.
        self._numbers: dict[tuple[int, bytes], int] = {}
        # The last name that was not found, and the number of links at that time; usually that name is added next.
        self._missing: tuple[int, bytes, int] | None = None

    def _bind(self, links: npt.NDArray[Any]) -> None:
        self.links = links
        self._holders: npt.NDArray[np.int64] = links["row"]

    def get(self, directory: int, name: bytes) -> int | None:
        """Return the row of a child, `NO_ROW` if the child does not exist, or None if the name was not looked up."""
        number = self._find(directory, name)
        return None if number < 0 else self._holders.item(number)

    def set(self, directory: int, name: bytes, row: int, *, changed: bool = False) -> None:
        """Set the row of a directory's child by name, or `NO_ROW`; a name that was marked as `changed` keeps this mark.

        Raises:
            ValueError: the name is longer than any name in an operation.
        """
        if len(name) > _MAX_NAME:
            if row == NO_ROW:
                return
            raise ValueError(f"a name of {len(name)} bytes is too long")
        number = self._find(directory, name)
        if number < 0:
            number = self._add(directory, name, row)
        link = self.links[number]
        link["row"] = row
        link["changed"] |= changed

    def items(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """Yield (name, row or `NO_ROW`) of every link of a directory, in the order of their creation."""
        found = []
        number = int(self._table.rows["first_link"][directory]) - 1
        while number >= 0:
            name_offset, _, row, following, size, _ = self.links[number].item()
            found.append((self._table.names[name_offset : name_offset + size].tobytes(), row))
            number = following - 1
        yield from reversed(found)

    def rows(self, directory: int) -> Iterator[int]:
        """Yield the rows of children in the links of a directory, unordered."""
        following = self.links["next"]
        number = self._table.rows["first_link"].item(directory)
        while number:
            row = self._holders.item(number - 1)
            if row != NO_ROW:
                yield row
            number = following.item(number - 1)

    def exceeds(self, directory: int, limit: int) -> bool:
        """Return whether a directory has more than `limit` links, removed names included."""
        following = self.links["next"]
        number = self._table.rows["first_link"].item(directory)
        for _ in range(limit):
            if not number:
                return False
            number = following.item(number - 1)
        return bool(number)

    def reserve(self, more: int) -> None:
        needed = self.count + more
        if needed > self.links.size:
            self._bind(_NO_LINKS)
            try:
                self._links.grow(self.count, needed)
            finally:
                self._bind(self._links.array)
        self.reserve_slots(more)

    def reserve_slots(self, more: int) -> None:
        """Reserve space for `more` links in the hash table only."""
        self.slots = enlarged(self.slots, self.count + more, self._table.allocator, move_links)

    def changes(self) -> ChangedNames:
        """Return all changed names of directories that still exist."""
        table, allocator = self._table, self._table.allocator
        starts = allocator.zeros(table.count, np.int64)
        directory_count, count = count_changed_names(self.links, self.count, table.rows, starts)
        found = ChangedNames(
            allocator.zeros(directory_count, np.int64),
            allocator.zeros(directory_count + 1, np.int64),
            allocator.zeros((count, 2), np.int64),
            allocator.zeros(count, np.int64),
        )
        list_changed_names(self.links, self.count, table.rows, starts, *found)
        return found

    def lost(self) -> list[tuple[int, int]]:
        """Return (directory, row) of removed inodes that existing directories still have as children."""
        flags = self._table.flags
        lost: list[tuple[int, int]] = []
        for piece in pieces(self.count):
            links = self.links[piece]
            held = links["row"] != NO_ROW
            gone = held & (flags[np.where(held, links["row"], 0)] & DROPPED != 0)
            found = links[gone & (flags[links["directory"]] & DROPPED == 0)]
            lost += zip(found["directory"].tolist(), found["row"].tolist(), strict=True)
        return lost

    def _find(self, directory: int, name: bytes) -> int:
        number = self._numbers.get((directory, name), -1)
        if number < 0 and self._missing != (directory, name, self.count):
            number = int(find_name(self.slots, self.links, self._table.names, directory, np.frombuffer(name, np.uint8)))
            if number >= 0:
                self._remember(directory, name, number)
            else:
                self._missing = directory, name, self.count
        return number

    def _remember(self, directory: int, name: bytes, number: int) -> None:
        if len(self._numbers) == _MAX_NUMBERS:
            self._numbers.clear()
        self._numbers[directory, name] = number

    def _add(self, directory: int, name: bytes, row: int) -> int:
        self.reserve(1)
        number, table = self.count, self._table
        self.count += 1
        offset = table.name_offset(row) if row != NO_ROW and table.name(row) == name else table.keep_name(name)
        first_links = table.rows["first_link"]
        self.links[number] = (offset, directory, row, first_links[directory], len(name), 0)
        first_links[directory] = number + 1
        wanted = np.frombuffer(name, np.uint8)
        put_link(self.slots, hash_name(directory, wanted, 0, wanted.size), number)
        self._remember(directory, name, number)
        return number
