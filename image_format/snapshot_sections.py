"""Snapshot sections, for queries that need no other section: SNAPSHOT_DIFF by owner, INODE_REFERENCE by number."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin, RecordError
from image_format.kernels.history import (
    DIFF_DTYPE,
    ENTRY_DTYPE,
    copies_with_quota,
    diff_holders,
    scan_diffs,
    scan_references,
)
from image_format.kernels.history_check import reference_keys
from image_format.kernels.scan import strictly_increasing
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.void]

_FIRST_ROWS = 256

_NOTHING: Bytes = np.zeros(0, np.uint8)
# read-only like sections, because kernels are compiled for one kind of array
_NOTHING.flags.writeable = False
_NO_IDS: Ids = np.zeros(0, np.int64)


class DiffScan:
    """SNAPSHOT_DIFF as rows, up to the first damaged entry.

    Attributes:
        entries, diffs: rows of `ENTRY_DTYPE` and `DIFF_DTYPE`, in the order of the section.
        end: offset after the last of these entries.
        damaged_at: offset of the damaged entry, or None if no entry is damaged.
    """

    def __init__(self, buffer: Bytes) -> None:
        entries, diffs = np.empty(_FIRST_ROWS, ENTRY_DTYPE), np.empty(_FIRST_ROWS, DIFF_DTYPE)
        count = used = pos = 0
        damaged = False
        while True:
            count, used, pos, damaged = scan_diffs(buffer, pos, entries, count, diffs, used)
            if damaged or pos == buffer.size:
                break
            if count == entries.size:
                entries = _doubled(entries)
            else:
                diffs = _doubled(diffs)
        self.entries, self.diffs = entries[:count].copy(), diffs[:used].copy()
        self.end = pos
        self.damaged_at = pos if damaged else None


def _doubled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])


class SnapshotSections:
    """Queries of SNAPSHOT_DIFF and INODE_REFERENCE that require no other section.

    Args:
        diffs, references: the sections; None if missing.
        place: returns the place of a section, for errors.

    Attributes:
        owners: ascending ids of the inodes with an entry in SNAPSHOT_DIFF.

    Raises:
        RecordError: a record is damaged, or an inode has two entries.
    """

    def __init__(self, diffs: Bytes | None, references: Bytes | None, place: Callable[[str], BufferOrigin]) -> None:
        self._buffer = _NOTHING if diffs is None else diffs
        self._references = _NOTHING if references is None else references
        self._place = place
        entries, self._diffs = self._scan_diffs()
        offsets = entries["offset"]
        order = np.argsort(entries["owner"], kind="stable")
        self.owners: Ids = entries["owner"][order]
        self.kinds: Bytes = entries["kind"][order]
        self._offsets, self._ends = offsets[order], np.append(offsets[1:], self._buffer.size)[order]
        if not strictly_increasing(self.owners):
            raise self._damaged("SNAPSHOT_DIFF", 0, "an inode has two entries")
        self._referred, self._reference_offsets = self._scan_references()
        self._by_inode: Ids = np.argsort(self._referred, kind="stable")
        self._sorted_referred: Ids = self._referred[self._by_inode]

    @property
    def reference_count(self) -> int:
        """Number of records in INODE_REFERENCE; the first record has number 0."""
        return self._referred.size

    def _damaged(self, section: str, offset: int, what: str) -> RecordError:
        return self._place(section).error(RecordError, what, offset)

    def _scan_diffs(self) -> tuple[Rows, Rows]:
        scan = DiffScan(self._buffer)
        at = scan.damaged_at
        if at is None and (foreign := scan.entries["owner"] <= 0).any():
            at = int(scan.entries["offset"][np.argmax(foreign)])
        if at is not None:
            raise self._damaged("SNAPSHOT_DIFF", at, "damaged snapshot diff")
        return scan.entries, scan.diffs

    def _scan_references(self) -> tuple[Ids, Ids]:
        ids, offsets = np.empty(_FIRST_ROWS, np.int64), np.empty(_FIRST_ROWS, np.int64)
        count = pos = 0
        while True:
            count, pos, damaged = scan_references(self._references, pos, ids, offsets, count)
            if damaged:
                raise self._damaged("INODE_REFERENCE", pos, "damaged inode reference")
            if pos == self._references.size:
                return ids[:count].copy(), offsets[:count].copy()
            ids, offsets = _doubled(ids), _doubled(offsets)

    def root_diffs(self) -> Rows:
        """Return the rows of `DIFF_DTYPE` that refer to the root of a snapshot."""
        found: Rows = self._diffs[self._diffs["root"] != 0]
        return found

    def diff_span(self, inode_id: int) -> tuple[int, int]:
        """Return (start, end) in SNAPSHOT_DIFF of an inode's entry with its diffs, or (-1, -1) if there is no entry."""
        owners = self.owners.data
        # bisection is faster than a kernel call
        at = bisect_left(owners, inode_id)
        if at == len(owners) or owners[at] != inode_id:
            return -1, -1
        return int(self._offsets[at]), int(self._ends[at])

    def reference(self, number: int) -> pb.INodeReference:
        """Return a record of INODE_REFERENCE; raise RecordError for an unknown number."""
        if not 0 <= number < self.reference_count:
            raise self._damaged("INODE_REFERENCE", 0, f"there is no reference {number}")
        place = self._place("INODE_REFERENCE")
        record = read_record(self._references.data, int(self._reference_offsets[number]), place)
        return parse_message(pb.INodeReference, record, place)

    @functools.cached_property
    def last_snapshots(self) -> Ids:
        """The lastSnapshotId field of each name in snapshots, by its reference's number; -1 for other references."""
        found = np.empty(self.reference_count, np.int64)
        reference_keys(self._references, self._reference_offsets, found)
        return found

    def held_in_diffs(self) -> tuple[Ids, Ids]:
        """Return two arrays by reference number, for references in deleted lists.

        The first array contains the negated id of the owner of the diffs, otherwise 0. The second array contains the
        snapshot id of the diff that lists the reference, otherwise -1.
        """
        held, snapshots = np.zeros(self.reference_count, np.int64), np.full(self.reference_count, -1, np.int64)
        if not diff_holders(self._buffer, self._diffs, held, snapshots):
            raise self._damaged("SNAPSHOT_DIFF", 0, "damaged snapshot diff, or a reference that does not exist")
        return held, snapshots

    def references_to(self, inode_id: int) -> Ids:
        """Return the numbers of the references to an inode."""
        first, behind = np.searchsorted(self._sorted_referred, [inode_id, inode_id + 1])
        return self._by_inode[first:behind]

    def reference_bytes(self, first: int, behind: int) -> memoryview:
        """Return the bytes of the delimited records `first` to `behind` - 1."""
        bounds = self._reference_offsets
        start = int(bounds[first]) if first < bounds.size else self._references.size
        end = int(bounds[behind]) if behind < bounds.size else self._references.size
        return self._references.data[start:end]

    def quota_copy_owners(self) -> Ids:
        """Return the ids of directories with a diff whose copy has a quota, but no storage type quotas."""
        found: Ids = np.unique(self._diffs["owner"][copies_with_quota(self._buffer, self._diffs)])
        return found

    @functools.cached_property
    def _by_snapshot(self) -> dict[int, Ids]:
        """Owners of diffs by snapshot id; the key -1 contains the owners of entries without diffs."""
        without = np.setdiff1d(self.owners, self._diffs["owner"])
        owners = np.concatenate([without, self._diffs["owner"]])
        snapshots = np.concatenate([np.full(without.size, -1, np.int64), self._diffs["snapshot"].astype(np.int64)])
        order = np.lexsort((owners, snapshots))
        found, starts = np.unique(snapshots[order], return_index=True)
        return dict(zip(found.tolist(), np.split(owners[order], starts[1:]), strict=False))

    def owners_at(self, snapshot_id: int) -> Ids:
        """Return the ids of inodes with a diff of a snapshot or, for -1, of inodes whose entries have no diffs."""
        return self._by_snapshot.get(snapshot_id, _NO_IDS)
