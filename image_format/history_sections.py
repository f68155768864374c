"""The sections that snapshots leave, by themselves: SNAPSHOT_DIFF by owner, INODE_REFERENCE by number."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin, RecordError
from image_format.kernels.history import copies_with_quota, diff_holders, diffs_by_snapshot, scan_diffs, scan_references
from image_format.kernels.history_check import reference_keys
from image_format.kernels.scan import find_id, strictly_increasing
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

_NOTHING: Bytes = np.zeros(0, np.uint8)
# as sections are: kernels are compiled for one kind of array only
_NOTHING.flags.writeable = False


class HistorySections:
    """What SNAPSHOT_DIFF and INODE_REFERENCE say without the rest of the image.

    Args:
        diffs, references: the sections; None for an absent one.
        place: makes the place of a section, for errors.

    Attributes:
        owners: ids of the inodes with an entry in SNAPSHOT_DIFF, ascending.

    Raises:
        RecordError: a record is damaged, or an inode has two entries.
    """

    def __init__(self, diffs: Bytes | None, references: Bytes | None, place: Callable[[str], BufferOrigin]) -> None:
        self._diffs = _NOTHING if diffs is None else diffs
        self._references = _NOTHING if references is None else references
        self._place = place
        owners, offsets = self._scan(scan_diffs, self._diffs, "SNAPSHOT_DIFF", "snapshot diff")
        self._ends = np.append(offsets[1:], self._diffs.size)
        order = np.argsort(owners, kind="stable")
        self.owners: Ids = owners[order]
        self._offsets, self._ends = offsets[order], self._ends[order]
        if not strictly_increasing(self.owners):
            raise self._damaged("SNAPSHOT_DIFF", 0, "an inode has two entries")
        self._referred, self._reference_offsets = self._scan(
            scan_references, self._references, "INODE_REFERENCE", "inode reference"
        )
        self._by_inode: Ids = np.argsort(self._referred, kind="stable")
        self._sorted_referred: Ids = self._referred[self._by_inode]

    @property
    def reference_count(self) -> int:
        return self._referred.size

    def _damaged(self, section: str, offset: int, what: str) -> RecordError:
        return self._place(section).error(RecordError, what, offset)

    def _scan(self, scan: Any, buffer: Bytes, section: str, what: str) -> tuple[Ids, Ids]:
        ids, offsets = np.empty(256, np.int64), np.empty(256, np.int64)
        count = pos = 0
        while True:
            count, pos, damaged = scan(buffer, pos, ids, offsets, count)
            if damaged:
                raise self._damaged(section, pos, f"damaged {what}")
            if pos == buffer.size:
                return ids[:count].copy(), offsets[:count].copy()
            ids, offsets = (np.concatenate([a, np.empty_like(a)]) for a in (ids, offsets))

    def diff_span(self, inode_id: int) -> tuple[int, int]:
        at = int(find_id(self.owners, inode_id))
        return (-1, -1) if at < 0 else (int(self._offsets[at]), int(self._ends[at]))

    def reference(self, number: int) -> pb.INodeReference:
        if not 0 <= number < self.reference_count:
            raise self._damaged("INODE_REFERENCE", 0, f"there is no reference {number}")
        place = self._place("INODE_REFERENCE")
        record = read_record(self._references.data, int(self._reference_offsets[number]), place)
        return parse_message(pb.INodeReference, record, place)

    @functools.cached_property
    def last_snapshots(self) -> Ids:
        """By number: lastSnapshotId of a name in snapshots, -1 for any other reference."""
        found = np.empty(self.reference_count, np.int64)
        reference_keys(self._references, self._reference_offsets, found)
        return found

    def held_in_diffs(self) -> tuple[Ids, Ids]:
        """By number: (minus the id of the owner of the diffs that have a reference as deleted, else 0; id of the
        snapshot of that diff, else -1).
        """
        held, snapshots = np.zeros(self.reference_count, np.int64), np.full(self.reference_count, -1, np.int64)
        order = np.argsort(self._offsets)
        if not diff_holders(self._diffs, self.owners[order], self._offsets[order], held, snapshots):
            raise self._damaged("SNAPSHOT_DIFF", 0, "damaged snapshot diff, or a reference that does not exist")
        return held, snapshots

    def references_to(self, inode_id: int) -> Ids:
        first, behind = np.searchsorted(self._sorted_referred, [inode_id, inode_id + 1])
        return self._by_inode[first:behind]

    def reference_bytes(self, first: int, behind: int) -> memoryview:
        bounds = self._reference_offsets
        start = int(bounds[first]) if first < bounds.size else self._references.size
        end = int(bounds[behind]) if behind < bounds.size else self._references.size
        return self._references.data[start:end]

    def quota_copy_owners(self) -> Ids:
        found: Marks = copies_with_quota(self._diffs, self._offsets)
        return self.owners[found]

    @functools.cached_property
    def _by_snapshot(self) -> tuple[Ids, Ids]:
        """(snapshot ids of all diffs, ascending, -1 where an entry has none; the owner of each)."""
        entries = snapshots = np.empty(0, np.int64)
        count = int(diffs_by_snapshot(self._diffs, self._offsets, entries, snapshots))
        entries, snapshots = np.empty(count, np.int64), np.empty(count, np.int64)
        diffs_by_snapshot(self._diffs, self._offsets, entries, snapshots)
        order = np.argsort(snapshots, kind="stable")
        return snapshots[order], self.owners[entries[order]]

    def owners_at(self, snapshot_id: int) -> Ids:
        snapshots, owners = self._by_snapshot
        first, behind = np.searchsorted(snapshots, [snapshot_id, snapshot_id + 1])
        return owners[first:behind]
