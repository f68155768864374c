"""Sums of every directory of a warm namespace: the image's sums, updated with the rows of touched inodes.

Replay notes the rows whose place or size it changes. After a few thousand changes, the replaying thread updates the
sums for these rows; a reader applies the few later changes. After more changes than can be noted, one pass reads all
rows.

Sums are exact below directories without inodes in snapshots. For other directories, a NameNode's count depends on
diffs, which only a walk reads. Inodes in snapshots are marked, and the number of marked inodes is kept with the sums.
"""

from __future__ import annotations

import numpy as np

from engine.namespace import Namespace
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index import Ids, ImageIndex
from image_format.kernels.inode import DIRECTORY
from image_format.kernels.scan import find_ids
from image_tools.directory_sums import DirectorySums, policy_units
from image_tools.kernels.subtree_sums import HELD_DTYPE, settle
from image_tools.namespace_browser import SubtreeTotals

_SPARE = 1 << 12
"""Minimum number of unused rows after the array grows; another unused row is added for every eight used rows."""
MAX_PENDING = 8_000
"""Maximum number of changed rows that are left to the next reader or batch; a reader needs about 0.8 ms for them.

A large batch takes less time per change, because a row that changes several times is counted once, and a file that is
soon deleted is never counted.
"""
_MAX_CHANGES = 1 << 18
"""Maximum number of noted changes; for more changes, a pass over all rows takes less time."""


class LiveSums:
    """Sums below the directories of a namespace, for the thread that holds its gate.

    The sums take 40 bytes per directory with children and 32 bytes per touched inode.

    Args:
        base: sums of the image; this object changes them.
        marked: ascending ids of the inodes of the image that are in snapshots, which `base` counts as marked.
    """

    def __init__(
        self, base: DirectorySums, index: ImageIndex, namespace: Namespace, marked: Ids, allocator: ArrayAllocator
    ) -> None:
        self._index, self._namespace, self._marked, self._allocator = index, namespace, marked, allocator
        self._ids = base.ids
        self._totals, self._marks, self._above = base.totals, base.marks, base.above
        self._used = base.ids.size
        self._held = np.zeros(0, HELD_DTYPE)
        self._units, self._policies = policy_units({}), 0
        # number of rows that the sums include
        self._count = 0
        namespace.table.changed, namespace.table.changes = np.empty(_MAX_CHANGES, np.int32), 0
        # reserve now, not while edits are being applied
        self._reserve(self._used + 1)
        # the first access to the pages takes longer than the count itself
        self.update()

    def below(self, ids: Ids) -> tuple[SubtreeTotals, list[int]]:
        """Return the sum of the inodes below these directories, and the directories that must be walked instead.

        Raises:
            RecordError: a record is damaged.
        """
        self.update()
        table = self._namespace.table
        rows = table.row_of.get_all(ids)
        touched = rows >= 0
        found = find_ids(self._ids, ids)
        found[touched] = self._held["sums"][rows[touched]]
        # a directory may have diffs, but no children in the image
        is_marked = np.where(found >= 0, self._marks[found] > 0, find_ids(self._marked, ids) >= 0)
        totals = self._totals[found[~is_marked & (found >= 0)]].sum(axis=0, dtype=np.int64)
        return SubtreeTotals(*totals.tolist()), ids[is_marked].tolist()

    def keep_up(self) -> None:
        """Bring the sums up to date after edits, unless a reader can do so in less than a millisecond.

        Raises:
            RecordError, ImageStorageError: see `update`.
        """
        table = self._namespace.table
        self._grow()
        if table.changes + table.count - self._count > MAX_PENDING:
            self.update()

    def update(self) -> None:
        """Bring the sums up to date; do nothing if no row has changed since the last call.

        Raises:
            RecordError: a record is damaged.
            ImageStorageError: not enough disk space; the next call tries again.
        """
        table, known = self._namespace.table, self._count
        if table.changes == 0 and table.count == known:
            return
        new = table.count - known
        self._grow()
        to_read = table.count if table.changes > table.changed.size else new + table.changes
        offsets = self._index.arrays.offsets
        used, damaged = settle(
            *(table.rows, table.blocks, known, table.count, table.changed, table.changes),
            *(offsets, self._index.inode_buffer, self._policy_units(), self._ids, self._marked),
            *(self._held, self._used, self._above, self._totals, self._marks, np.empty(to_read, np.int64)),
        )
        if damaged >= 0:
            at = self._index.inode_offset(int(table.slot[damaged]))
            raise self._index.place("INODE").error(RecordError, "no inode record", at)
        self._count, self._used, table.changes = table.count, int(used), 0

    def _grow(self) -> None:
        """Allocate space for all rows of the table in advance, because a reader cannot wait for the allocation."""
        table, known = self._namespace.table, self._count
        if self._held.size < table.count:
            held = self._allocator.zeros(table.rows.size, HELD_DTYPE)
            held[:known] = self._held[:known]
            self._held = held
        if self._used + table.count - known > self._above.size:
            self._reserve(self._used + int(np.count_nonzero(table.kind[known : table.count] == DIRECTORY)))

    def _policy_units(self) -> Ids:
        """Return `policy_units`; compute them again only after a policy was added, because policies do not change."""
        count = self._namespace.erasure_coding.count
        if count != self._policies:
            self._units, self._policies = policy_units(self._namespace.erasure_coding.by_id()), count
        return self._units

    def _reserve(self, needed: int) -> None:
        if needed <= self._above.size:
            return
        size = needed + max(_SPARE, needed >> 3)
        for name in ("_totals", "_marks", "_above"):
            old = getattr(self, name)
            grown = self._allocator.zeros((size, *old.shape[1:]), old.dtype)
            grown[: self._used] = old[: self._used]
            setattr(self, name, grown)
