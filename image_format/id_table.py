"""Row of each inode id, in a table that kernels share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.kernels.tables import UNKNOWN, find_number, find_numbers, move_numbers, put_number
from image_format.room import Room

_FIRST_SIZE = 1 << 10


class IdTable:
    """Rows by inode id; nothing is ever taken out.

    Args:
        room: for its array.

    Attributes:
        slots: pairs of id and row, see `kernels.tables.find_number`.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self.slots: npt.NDArray[np.int64] = room.zeros((_FIRST_SIZE, 2), np.int64)
        self.count = 0

    def get(self, inode_id: int) -> int | None:
        """The row, None where the id has none."""
        row = int(find_number(self.slots, inode_id))
        return None if row == UNKNOWN else row

    def get_all(self, inode_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The row of each, `UNKNOWN` where an id has none."""
        found: npt.NDArray[np.int64] = find_numbers(self.slots, inode_ids)
        return found

    def __contains__(self, inode_id: int) -> bool:
        return int(find_number(self.slots, inode_id)) != UNKNOWN

    def add(self, inode_id: int, row: int) -> None:
        """Set the row of an id that has none."""
        self.reserve(1)
        put_number(self.slots, inode_id, row)
        self.count += 1

    def reserve(self, more: int) -> None:
        """Make room for so many more ids: three of four places are filled at most."""
        size = self.slots.shape[0]
        while (self.count + more) * 4 > size * 3:
            size *= 2
        if size != self.slots.shape[0]:
            wider = self._room.zeros((size, 2), np.int64)
            # Pages come faster in their order than as hashes want them.
            wider.fill(0)
            move_numbers(self.slots, wider)
            self.slots = wider
