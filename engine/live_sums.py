"""Sums of every directory of a warm namespace: those of its image, brought up to date with the rows of touched inodes.

The sums are brought up to date when a reader needs them, in one pass over the rows. Replay does not maintain them.

Sums are exact below directories without inodes that snapshots know: what a NameNode counts there depends on diffs,
which only a walk reads. Such inodes are marked, and the number of marked inodes is kept with the sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.namespace import Namespace
from image_format.array_allocator import ArrayAllocator
from image_format.index import Ids, ImageIndex
from image_format.inode_table import InodeTable
from image_format.kernels.inode import DIRECTORY
from image_format.kernels.scan import find_ids
from image_format.policies import ErasurePolicy
from image_tools.directory_sums import DirectorySums, leaves_at, policy_units
from image_tools.kernels.subtree_sums import HELD_DTYPE, settle
from image_tools.namespace_browser import SubtreeTotals

_SPARE = 1 << 12
"""Smallest number of unused rows after a growth; there is also one for each eight that are used."""


class LiveSums:
    """Sums below the directories of a namespace, for the thread that holds its gate.

    They take 40 bytes for each directory with children, 4 for each inode of the image and 32 for each touched inode.

    Args:
        base: sums of the image; this object changes them.
        marked: ascending ids of the inodes of the image that snapshots know, which `base` counts as marked.
    """

    def __init__(
        self, base: DirectorySums, index: ImageIndex, namespace: Namespace, marked: Ids, allocator: ArrayAllocator
    ) -> None:
        self._index, self._namespace, self._marked, self._allocator = index, namespace, marked, allocator
        self._ids, self._parents = base.ids, base.parents
        self._totals, self._marks, self._above = base.totals, base.marks, base.above
        self._used = base.ids.size
        self._held = np.zeros(0, HELD_DTYPE)
        # rows that are counted, and the transaction up to which they are; -1 while they are brought up to date
        self._count, self._txid = 0, -1

    def below(self, ids: Ids, policies: Mapping[int, ErasurePolicy]) -> tuple[SubtreeTotals, list[int]]:
        """Return the sum of what is below some directories, and the directories that must be walked instead.

        Args:
            policies: erasure coding policies by id.

        Raises:
            RecordError: a record is damaged.
        """
        table = self._namespace.table
        if self._txid != self._namespace.last_txid or self._count != table.count:
            self._update(table, policies)
        rows = table.row_of.get_all(ids)
        touched = rows >= 0
        found = find_ids(self._ids, ids)
        found[touched] = self._held["sums"][rows[touched]]
        # the image may have a directory without children, but with diffs
        is_marked = np.where(found >= 0, self._marks[found] > 0, find_ids(self._marked, ids) >= 0)
        totals = self._totals[found[~is_marked & (found >= 0)]].sum(axis=0, dtype=np.int64)
        return SubtreeTotals(*totals.tolist()), ids[is_marked].tolist()

    def _update(self, table: InodeTable, policies: Mapping[int, ErasurePolicy]) -> None:
        units = policy_units(policies)
        if self._held.size < table.count:
            held = self._allocator.zeros(table.rows.size, HELD_DTYPE)
            held[: self._count] = self._held[: self._count]
            self._held = held
        used = self._add_rows(table, slice(self._count, table.count), units)
        moved = np.empty(table.count, np.int64)
        self._count, self._used, self._txid = table.count, used, -1
        settle(
            *(table.rows, table.blocks, table.count, units),
            *(self._held, self._above, self._totals, self._marks, moved),
        )
        self._txid = self._namespace.last_txid

    def _add_rows(self, table: InodeTable, new: slice, units: Ids) -> int:
        """Fill `_held` for new rows with what the sums of the image count of them; return the used rows of the sums."""
        held, slots, ids = self._held[new], table.slot[new], table.id[new]
        held["length"], held["space"], held["above"], held["sums"], held["marked"] = 0, 0, -1, -1, False
        known = np.flatnonzero(slots >= 0)
        offsets = self._index.inode_offsets(slots[known])
        leaves = leaves_at(self._index.inode_buffer, offsets, units, self._index.place("INODE"))
        held["length"][known], held["space"][known] = leaves[:, 1], leaves[:, 2]
        held["above"][known] = self._parents[slots[known]]
        held["marked"][known] = find_ids(self._marked, ids[known]) >= 0
        directories = np.flatnonzero(table.kind[new] == DIRECTORY)
        sums = np.where(slots[directories] >= 0, find_ids(self._ids, ids[directories]), -1)
        empty = sums < 0
        used = self._used + int(empty.sum())
        self._reserve(used)
        sums[empty] = np.arange(self._used, used)
        held["sums"][directories] = sums
        self._totals[self._used : used] = 0
        self._marks[self._used : used] = held["marked"][directories[empty]]
        self._above[self._used : used] = held["above"][directories[empty]]
        return used

    def _reserve(self, needed: int) -> None:
        if needed <= self._above.size:
            return
        size = needed + max(_SPARE, needed >> 3)
        for name in ("_totals", "_marks", "_above"):
            old = getattr(self, name)
            grown = self._allocator.zeros((size, *old.shape[1:]), old.dtype)
            grown[: self._used] = old[: self._used]
            setattr(self, name, grown)
