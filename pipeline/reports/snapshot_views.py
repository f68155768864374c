"""The snapshots in which the inodes of an image are visible, as bit sets.

A diff of a directory covers the time from its snapshot to the next diff. It lists the names created in this time, and
the inodes deleted or renamed away (DirectoryWithSnapshotFeature). A child is therefore visible in the snapshots of its
directory after the last diff that lists its name as created. A child in the deleted list of a diff is visible only up
to that diff's snapshot. A renamed inode has several places.

`SnapshotViews` resolves only requested directories and their ancestors. Lists of deleted inodes stay in memory. The
class reads the names in a directory's diffs once for all requested inodes, and then discards the names.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hadoop_common.java_numbers import signed32, signed64
from image_format.inode_columns import read_inode_columns
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from pipeline.host_image import HostImage

Ids = npt.NDArray[np.int64]

_CURRENT = 1 << 62
"""Later than any snapshot."""


class _Places(NamedTuple):
    """Places of inodes, one row each.

    Attributes:
        inode: id of the inode.
        directory: id of the directory in which the inode is or was.
        end: the last snapshot with the inode at this place; `_CURRENT` for a current child.
        reference: number of the reference that names the inode at this place, -1 if the name in the inode's record
            applies.
    """

    inode: Ids
    directory: Ids
    end: Ids
    reference: Ids


class RecordedBlocks(NamedTuple):
    """Blocks and replication in a file's diffs, for disjoint sets of snapshots; None where they equal the current
    values.

    Attributes:
        blocks: (view, blocks: bytes by id, length of the file). The snapshots need only the first blocks, up to this
            length; without a length, they need all blocks.
        replication: (view, replication factor).
    """

    blocks: list[tuple[int, dict[int, int] | None, int | None]]
    replication: list[tuple[int, int | None]]


class SnapshotViews:
    """Views of the snapshots of an image: bit `i` represents the snapshot `ids[i]`.

    Attributes:
        ids: snapshot ids, ascending.
        roots: snapshottable directory of each snapshot, in the same order.
        changed: number of inodes with a diff, by snapshottable directory.
        deleted: number of inodes in deleted lists, by snapshottable directory.
        files: ids, ascending, of the files whose diffs contain blocks or a different replication factor, and of the
            files outside of the current tree whose diffs contain different lengths.

    Raises:
        RecordError: a record is damaged; the methods also raise it.
    """

    def __init__(self, host: HostImage) -> None:
        self._host = host
        self._records = ImageRecords(host.image)
        found = sorted((signed32(each.snapshotId), signed64(each.root.id)) for each in self._records.snapshots())
        self.ids = [snapshot for snapshot, _ in found]
        self.roots = [root for _, root in found]
        self._own = {root: sum(1 << at for at, each in enumerate(self.roots) if each == root) for root in self.roots}
        self.changed: Counter[int] = Counter()
        self.deleted: Counter[int] = Counter()
        self._referred = np.array([signed64(each.referredId) for each in self._records.references()], np.int64)
        self._renamed = frozenset(self._referred.tolist())
        self._gone, self.files = self._read_diffs(dict(found))
        self._known: dict[int, int] = {}

    def _read_diffs(self, root_of: dict[int, int]) -> tuple[_Places, Ids]:
        """Return the former places of inodes, by ascending id, and `files`."""
        gone: list[Ids] = []
        with_blocks: list[int] = []
        with_lengths: list[int] = []
        copies: list[tuple[int, int]] = []
        for of_inode in self._records.snapshot_diffs():
            inode_id = signed64(of_inode.inode_id)
            if isinstance(of_inode, FileDiffRecords):
                snapshots = [signed32(diff.snapshotId) for diff in of_inode.diffs]
                if any(diff.blocks for diff in of_inode.diffs):
                    with_blocks.append(inode_id)
                elif len({diff.fileSize for diff in of_inode.diffs}) > 1:
                    with_lengths.append(inode_id)
                factors = {diff.snapshotCopy.replication for diff in of_inode.diffs if diff.HasField("snapshotCopy")}
                copies += [(inode_id, signed32(factor)) for factor in factors]
            else:
                snapshots = [signed32(diff.snapshotId) for diff, _ in of_inode.diffs]
                for snapshot, (diff, _) in zip(snapshots, of_inode.diffs, strict=True):
                    ids = np.array(diff.deletedINode, np.uint64).astype(np.int64)
                    gone.append(np.stack([ids, *(np.full_like(ids, each) for each in (inode_id, snapshot, -1))]))
                    if snapshot in root_of:
                        self.deleted[root_of[snapshot]] += ids.size
            self.changed.update({root_of[each] for each in snapshots if each in root_of})
        holders, ends = self._host.index.snapshot_index.held_in_diffs()
        held = np.flatnonzero(holders < 0)
        gone.append(np.stack([self._referred[held], -holders[held], ends[held], held]))
        rows = np.concatenate(gone, axis=1)
        places = _Places(*rows[:, np.argsort(rows[0], kind="stable")])
        special = [
            np.array(with_blocks, np.int64),
            self._outside(np.array(with_lengths, np.int64)),
            self._with_other_factor(copies),
        ]
        return places, np.unique(np.concatenate(special))

    def _outside(self, ids: Ids) -> Ids:
        """Return the inodes of the image that are outside of the current tree."""
        slots = self._host.index.slots_of(ids)
        ids, slots = ids[slots >= 0], slots[slots >= 0]
        return ids[~self._host.in_tree(slots)]

    def _with_other_factor(self, copies: list[tuple[int, int]]) -> Ids:
        """Return the files whose replication factor differs from the factor of a copy (id, factor) in a diff."""
        ids, factors = np.array(copies, np.int64).reshape(-1, 2).T
        slots = self._host.index.slots_of(ids)
        ids, factors, slots = ids[slots >= 0], factors[slots >= 0], slots[slots >= 0]
        own = read_inode_columns(
            self._host.index.inode_buffer, self._host.arrays.offsets.at(slots), self._host.image.place("INODE")
        ).replication
        return np.unique(ids[factors != own])

    def is_plain(self, ids: Ids, directories: Ids) -> npt.NDArray[np.bool_]:
        """Return a mask of the inodes that are visible exactly when their current directories are; reads no names."""
        diffed = self._host.index.snapshot_index.owners
        return ~(np.isin(ids, self._gone.inode) | np.isin(directories, diffed) | np.isin(ids, self._referred))

    def up_to(self, snapshot: int) -> int:
        """Return the view of all snapshots up to an id."""
        return (1 << bisect_right(self.ids, snapshot)) - 1

    def directories(self, ids: Ids) -> list[int]:
        """Return the snapshots in which each directory is visible, including snapshots of the directory.

        Either of two directories may have been below the other at some snapshot. Therefore, the method extends the
        views of all ancestors until no view changes.
        """
        levels: list[list[tuple[int, int, int]]] = []
        pending = self._unknown(ids)
        while pending.size:
            self._known |= {each: self._own.get(each, 0) for each in pending.tolist()}
            places = self._places(pending)
            levels.append(list(self._seen(places)))
            pending = self._unknown(places.directory)
        changed = True
        while changed:
            changed = False
            for level in reversed(levels):
                for inode_id, directory, seen in level:
                    view = self._known[inode_id] | self._known[directory] & seen
                    changed |= view != self._known[inode_id]
                    self._known[inode_id] = view
        return [self._known[each] for each in ids.tolist()]

    def _unknown(self, ids: Ids) -> Ids:
        return np.array([each for each in np.unique(ids).tolist() if each not in self._known], np.int64)

    def inodes(self, ids: Ids) -> list[int]:
        """Return the snapshots in which each file or symlink is visible."""
        places = self._places(ids)
        self.directories(places.directory)
        found = dict.fromkeys(ids.tolist(), 0)
        for inode_id, directory, seen in self._seen(places):
            found[inode_id] |= self._known[directory] & seen
        return [*found.values()]

    def _places(self, ids: Ids) -> _Places:
        """Return all places of inodes; an id that the image does not contain has no place."""
        ids = np.unique(ids)
        slots = self._host.index.slots_of(ids)
        ids, slots = ids[slots >= 0], slots[slots >= 0]
        rows = self._host.parent_rows[slots]
        current, own = ids[rows >= 0], self._host.directories.ids[rows[rows >= 0]]
        now = _Places(current, own, np.full_like(current, _CURRENT), np.full_like(current, -1))
        first = np.searchsorted(self._gone.inode, ids)
        counts = np.searchsorted(self._gone.inode, ids, "right") - first
        lost = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return _Places(*(np.concatenate([at, each[lost]]) for at, each in zip(now, self._gone, strict=True)))

    def _seen(self, places: _Places) -> Iterator[tuple[int, int, int]]:
        """Yield, for each place, the inode, the directory, and the directory's snapshots that contain the inode at this
        place.
        """
        order = np.argsort(places.directory, kind="stable")
        rows = zip(*(column[order].tolist() for column in places), strict=True)
        for directory, below in itertools.groupby(rows, lambda row: row[1]):
            begun = self._begun(directory)
            for inode_id, _, end, number in below:
                seen = self.up_to(end)
                if begun:
                    before = [each for each in begun.get(self._name(inode_id, number), ()) if each < end]
                    seen &= ~self.up_to(max(before)) if before else -1
                yield inode_id, directory, seen

    def _name(self, inode_id: int, number: int) -> bytes:
        """Return the name of a reference, or the name of the inode if the reference has no name."""
        name: bytes = b"" if number < 0 else self._host.index.snapshot_index.reference(number).name
        return name or self._host.index.name(inode_id)

    def _begun(self, directory_id: int) -> dict[bytes, list[int]]:
        """Return, by name, the snapshots of the diffs after which another inode had the name.

        These diffs list the name as created, or an inode with that name as deleted, because an image may lack the
        created name.
        """
        found: dict[bytes, list[int]] = {}
        diffs = self._diffs(directory_id)
        if isinstance(diffs, DirectoryDiffRecords):
            for diff, created in diffs.diffs:
                for name in {*created, *self._deleted_names(diff)}:
                    found.setdefault(name, []).append(signed32(diff.snapshotId))
        return found

    def _deleted_names(self, diff: pb.DirectoryDiff) -> Iterator[bytes]:
        for inode_id in map(signed64, diff.deletedINode):
            if self._host.slot(inode_id) >= 0:
                yield self._host.index.name(inode_id)
        for number in diff.deletedINodeRef:
            yield self._name(int(self._referred[number]), number)

    def _diffs(self, inode_id: int) -> FileDiffRecords | DirectoryDiffRecords | None:
        start, _ = self._host.index.snapshot_index.diff_span(inode_id)
        if start < 0:
            return None
        return next((found for _, _, found in self._records.located_snapshot_diffs(start)), None)

    def diffs_of_file(self, inode_id: int, view: int) -> RecordedBlocks:
        """Return the data in the diffs of a file for the snapshots of a view.

        A snapshot has the length of the first diff, from that snapshot on, and the blocks of the first such diff that
        contains blocks (INodeFile.getBlocks). It has the replication factor of the first such diff that contains a copy
        of the inode (AbstractINodeDiffList.getSnapshotINode). If the blocks belong to a later diff or to the inode, and
        the snapshots with these blocks are deleted, an earlier snapshot keeps only the blocks up to its length
        (FileDiff.setBlocks, FileWithSnapshotFeature.collectBlocksAndClear). A renamed inode keeps its own blocks.
        """
        found = RecordedBlocks([], [])
        rest = without_copy = view
        without_blocks: list[tuple[int, int | None]] = []
        read = self._diffs(inode_id)
        diffs = read.diffs if isinstance(read, FileDiffRecords) else []
        for diff in reversed(diffs):
            until = self.up_to(signed32(diff.snapshotId))
            is_own = bool(diff.blocks) or diff is diffs[0] or inode_id in self._renamed
            without_blocks.append((rest & until, None if is_own else signed64(diff.fileSize)))
            rest &= ~until
            if diff.blocks:
                blocks = {signed64(block.blockId): signed64(block.numBytes) for block in diff.blocks}
                found.blocks.extend((each, blocks, length) for each, length in without_blocks)
                without_blocks.clear()
            if diff.HasField("snapshotCopy"):
                found.replication.append((without_copy & until, signed32(diff.snapshotCopy.replication)))
                without_copy &= ~until
        found.blocks.extend((each, None, length) for each, length in without_blocks)
        found.blocks.append((rest, None, None))
        found.replication.append((without_copy, None))
        return found
