"""Index over the snapshot sections: SNAPSHOT_DIFF by owner, and INODE_REFERENCE by number and by inode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator
from image_format.errors import BufferOrigin, InconsistentSnapshotsError
from image_format.index_arrays import IndexArrays
from image_format.kernels.history import (
    collect_parents,
    deleted_by,
    directory_holders,
    mark_below,
    mark_upwards,
    older_diffs,
)
from image_format.kernels.history_check import References
from image_format.kernels.scan import find_ids
from image_format.packed import Packed
from image_format.snapshot_sections import Bytes, Ids, Marks, Rows, SnapshotSections

_INT32_MAX = (1 << 31) - 1


class SnapshotIndex(SnapshotSections):
    """Snapshot sections of a mapped image, with the queries that replay requires.

    Args:
        diffs, references, directories: SNAPSHOT_DIFF, INODE_REFERENCE and INODE_DIR; None if missing.
        records: INODE.
        inodes: index over INODE.
        place: returns the place of a section, for errors.
        allocator: allocator of the arrays by inode; None if unlimited.

    Raises:
        RecordError: a record is damaged, or an inode has two entries.
        InconsistentSnapshotsError: a record belongs to no inode.
    """

    def __init__(
        self,
        diffs: Bytes | None,
        references: Bytes | None,
        directories: Bytes | None,
        records: Bytes,
        inodes: IndexArrays,
        place: Callable[[str], BufferOrigin],
        allocator: ArrayAllocator | None = None,
    ) -> None:
        super().__init__(diffs, references, place)
        self._directories = np.zeros(0, np.uint8) if directories is None else directories
        self._records = records
        self._inodes = inodes
        self._allocator = ArrayAllocator() if allocator is None else allocator
        self._reached: dict[int, Marks] = {}
        self._check_known(self.owners, "SNAPSHOT_DIFF")
        self._check_known(self._referred, "INODE_REFERENCE")

    def _check_known(self, inode_ids: Ids, section: str) -> None:
        unknown = inode_ids[self._inodes.ids.find_all(inode_ids) < 0]
        if unknown.size:
            what = f"a record of inode {int(unknown[0])}, which the image does not have"
            raise self._place(section).error(InconsistentSnapshotsError, what, 0)

    def older_diffs(self, directory_id: int, snapshots: Ids) -> int:
        """Return the offset in SNAPSHOT_DIFF of the diffs after a directory's newest diff; the directory has an entry.

        Args:
            snapshots: ascending ids of all snapshots in the image.

        Returns:
            The offset, or -1 if the diffs are not plain (see `kernels.history.older_diffs`).
        """
        index = self._inodes
        span = self.diff_span(directory_id)
        return int(older_diffs(self._buffer, *span, index.ids, index.slots, index.offsets, self._records, snapshots))

    def holders(self) -> Ids:
        """Return the holder of each reference, by the reference's number; 0 for an unused reference.

        For a reference among the children of a directory, the holder is the directory's id. For a reference in a
        deleted list, it is the negated id of the owner of the diffs.
        """
        held = np.zeros(self.reference_count, np.int64)
        if not directory_holders(self._directories, held):
            raise self._damaged("INODE_DIR", 0, "damaged directory entry, or a reference that does not exist")
        in_diffs, _ = self.held_in_diffs()
        return np.where(in_diffs, in_diffs, held)

    @functools.cached_property
    def _parents(self) -> npt.NDArray[Any]:
        """Slot of each inode's directory, by the inode's slot; -1 if no directory contains the inode."""
        size = self._inodes.ids.size
        parents = self._allocator.zeros(size, np.int32 if size <= _INT32_MAX else np.int64)
        parents[...] = -1
        if not collect_parents(self._directories, self._inodes.ids, self._inodes.slots, self._referred, parents):
            raise self._damaged("INODE_DIR", 0, "damaged directory entry, or a child that is not an inode")
        # Cached, because the parents are needed for each inode that exists only in snapshots.
        return parents

    def chains(self, inode_ids: Ids) -> list[Ids]:
        """Return, for each inode, the ids from its topmost known directory down to the inode itself."""
        if not inode_ids.size:
            return []
        parents = self._parents
        found = []
        for first in self._inodes.slots_of(inode_ids).tolist():
            chain: dict[int, None] = {}
            slot = first
            # A damaged image may have a cycle of directories.
            while slot >= 0 and slot not in chain:
                chain[slot] = None
                slot = int(parents[slot])
            found.append(list(chain)[::-1])
        slots = np.array([slot for each in found for slot in each], np.int64)
        ids = self._inodes.ids_at(slots, self._allocator)
        return np.split(ids, np.cumsum([len(each) for each in found])[:-1])

    @property
    def size(self) -> int:
        """Size of SNAPSHOT_DIFF in bytes."""
        return int(self._buffer.size)

    @property
    def columns(self) -> tuple[Bytes, Rows]:
        """SNAPSHOT_DIFF, and a row of `DIFF_DTYPE` for each of its diffs."""
        return self._buffer, self._diffs

    @property
    def reference_columns(self) -> References:
        """INODE_REFERENCE, with the offset and the inode id of each record."""
        return References(self._references, self._reference_offsets, self._referred)

    @property
    def referred(self) -> Ids:
        """Id of the inode to which each record of INODE_REFERENCE refers."""
        return self._referred

    def on_the_way_to(self, inode_ids: Ids) -> Marks:
        """Return an array by slot that marks inodes on the way to `inode_ids` and to references.

        The `inode_ids`, the directories that contain references, and all directories above them are marked.
        """
        holders = self.holders()
        wanted = np.concatenate([inode_ids, holders[holders > 0]])
        slots = self._inodes.slots_of(wanted)
        marks: Marks = self._allocator.zeros(self._inodes.ids.size, np.bool_)
        mark_upwards(self._parents, slots[slots >= 0], marks)
        return marks

    def reached_from(self, directory_id: int) -> Marks:
        """Return marks by slot: whether an inode is this directory or is below it."""
        reached: Marks = mark_below(self._parents, self._inodes.slot(directory_id))
        return reached

    def is_reached(self, directory_id: int, inode_id: int) -> bool:
        """Return whether an inode of the image is this directory or is below it."""
        marks = self._reached.get(directory_id)
        if marks is None:
            marks = self._reached[directory_id] = self.reached_from(directory_id)
        slot = self._inodes.slot(inode_id)
        return slot >= 0 and bool(marks[slot])

    @functools.cached_property
    def _deleters(self) -> tuple[Ids, Ids]:
        """Ascending ids of the inodes in deleted lists, and for each inode the last owner of a list with the inode."""
        marks: Marks = self._allocator.zeros(self._inodes.ids.size, np.bool_)
        self._look_for_deleted(self._inodes.ids, marks)
        deleted = self._inodes.ids.at(np.flatnonzero(marks))
        owners = np.zeros(deleted.size, np.int64)
        self._look_for_deleted(Packed.of(deleted, self._allocator), owners)
        return deleted, owners

    def _look_for_deleted(self, wanted: Packed, found: npt.NDArray[Any]) -> None:
        if not deleted_by(self._buffer, self._diffs, wanted, found):
            raise self._damaged("SNAPSHOT_DIFF", 0, "damaged snapshot diff")

    def deleters(self, inode_ids: Ids) -> Ids:
        """Return, for each inode, the last owner of a diff that lists the inode as deleted, or 0."""
        deleted, owners = self._deleters
        at = find_ids(deleted, inode_ids)
        found: Ids = np.zeros(inode_ids.size, np.int64)
        found[at >= 0] = owners[at[at >= 0]]
        return found
