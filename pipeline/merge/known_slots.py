"""The known slots of inodes: single inodes in a dictionary, those of subtrees in sorted arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

_FEW = 64


class KnownSlots:
    """Slots by inode id; -1 for an id that the image does not contain."""

    UNKNOWN = -2

    def __init__(self) -> None:
        self._single: dict[int, int] = {}
        self._pending: list[tuple[Ids, Ids]] = []
        self._ids: Ids = np.zeros(0, np.int64)
        self._slots: Ids = np.zeros(0, np.int64)

    def add(self, inode_ids: Ids, slots: Ids) -> None:
        """Add inodes with their slots."""
        self._single.update(zip(inode_ids.tolist(), slots.tolist(), strict=True))

    def lack(self, inode_ids: Iterable[int]) -> None:
        """Record ids that the image does not contain."""
        self._single.update(dict.fromkeys(inode_ids, -1))

    def add_many(self, inode_ids: Ids, slots: Ids) -> None:
        """Add inodes that are seldom looked up one by one."""
        if inode_ids.size < _FEW:
            self.add(inode_ids, slots)
        else:
            self._pending.append((inode_ids, slots))

    def get(self, inode_id: int) -> int | None:
        """Return the slot of an inode, None if unknown."""
        slot = self._single.get(inode_id)
        if slot is None:
            found = int(self._look_up(np.array([inode_id], np.int64))[0])
            slot = None if found == self.UNKNOWN else found
        return slot

    def many(self, inode_ids: Ids) -> Ids:
        """Return the slot of each inode: -1 if the image does not contain it, `UNKNOWN` if that is not known."""
        found = self._look_up(inode_ids)
        for at in np.flatnonzero(found == self.UNKNOWN).tolist():
            found[at] = self._single.get(int(inode_ids[at]), self.UNKNOWN)
        return found

    def _look_up(self, inode_ids: Ids) -> Ids:
        if self._pending:
            ids = np.concatenate([self._ids, *(ids for ids, _ in self._pending)])
            slots = np.concatenate([self._slots, *(slots for _, slots in self._pending)])
            self._ids, first = np.unique(ids, return_index=True)
            self._slots = slots[first]
            self._pending.clear()
        if not self._ids.size:
            return np.full(inode_ids.size, self.UNKNOWN, np.int64)
        at = np.minimum(np.searchsorted(self._ids, inode_ids), self._ids.size - 1)
        return np.where(self._ids[at] == inode_ids, self._slots[at], self.UNKNOWN)
