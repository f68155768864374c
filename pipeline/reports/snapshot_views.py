"""In which snapshots the inodes of an image are visible, as sets of bits.

A diff of a directory lists the names that were created, and the inodes that were deleted or renamed away, after its
snapshot and before the next diff (DirectoryWithSnapshotFeature). A child is therefore visible in the snapshots of its
directory after the last diff that lists its name as created; a child in the deleted list of a diff, only up to that
diff's snapshot. An inode that was renamed has several such places.

Only directories that are asked for, and those above them, are resolved. Lists of deleted inodes stay in memory, lists
of created names do not.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from image_tools.dump.values import signed32, signed64
from pipeline.host_image import HostImage

Ids = npt.NDArray[np.int64]

_CACHED_DIRECTORIES = 256


class _Place(NamedTuple):
    """A place of an inode: a directory, the name there, and the last snapshot with it; None for a current child."""

    directory: int
    name: bytes
    last: int | None


class SnapshotViews:
    """Views of the snapshots of an image: bit `i` stands for the snapshot `ids[i]`.

    Attributes:
        ids: snapshot ids, ascending.
        roots: snapshottable directory of each snapshot, in the same order.
        changed: number of inodes with a diff, by snapshottable directory.
        deleted: number of inodes in deleted lists, by snapshottable directory.
        files: ids of the files whose diffs have blocks of their own.

    Raises:
        RecordError: a record is damaged; so do the methods.
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
        self.files: list[int] = []
        self._referred = np.array([signed64(each.referredId) for each in self._records.references()], np.int64)
        self._gone, self._gone_from, self._gone_at = self._read_diffs(dict(found))
        self._reference_holders, self._reference_ends = host.index.history.held_in_diffs()
        self._known: dict[int, int] = {}

    def _read_diffs(self, root_of: dict[int, int]) -> tuple[Ids, Ids, Ids]:
        """Return (ids in deleted lists, ascending; the directory of each; the snapshot of its diff)."""
        gone: list[Ids] = []
        for of_inode in self._records.snapshot_diffs():
            inode_id = signed64(of_inode.inode_id)
            if isinstance(of_inode, FileDiffRecords):
                snapshots = [signed32(diff.snapshotId) for diff in of_inode.diffs]
                if any(diff.blocks for diff in of_inode.diffs):
                    self.files.append(inode_id)
            else:
                snapshots = [signed32(diff.snapshotId) for diff, _ in of_inode.diffs]
                for snapshot, (diff, _) in zip(snapshots, of_inode.diffs, strict=True):
                    ids = np.array(diff.deletedINode, np.uint64).astype(np.int64)
                    gone.append(np.stack([ids, np.full_like(ids, inode_id), np.full_like(ids, snapshot)]))
                    if snapshot in root_of:
                        self.deleted[root_of[snapshot]] += ids.size
            self.changed.update({root_of[each] for each in snapshots if each in root_of})
        rows = np.concatenate(gone, axis=1) if gone else np.empty((3, 0), np.int64)
        inodes, directories, ends = rows[:, np.argsort(rows[0], kind="stable")]
        return inodes, directories, ends

    def is_plain(self, ids: Ids, directories: Ids) -> npt.NDArray[np.bool_]:
        """Return which inodes are visible exactly when their current directories are, without looking at names."""
        diffed = self._host.index.history.owners
        return ~(np.isin(ids, self._gone) | np.isin(directories, diffed) | np.isin(ids, self._referred))

    def up_to(self, snapshot: int) -> int:
        """Return the view of all snapshots up to an id."""
        return (1 << bisect_right(self.ids, snapshot)) - 1

    def directory(self, inode_id: int) -> int:
        """Return the snapshots in which a directory is visible, including its own.

        Of two directories, each may have been below the other at some snapshot. The views of all directories above are
        therefore extended until none changes.
        """
        if inode_id in self._known:
            return self._known[inode_id]
        places: dict[int, list[_Place]] = {}
        pending = [inode_id]
        while pending:
            current = pending.pop()
            if current not in places and current not in self._known:
                places[current] = self._places(current)
                pending += [place.directory for place in places[current]]
        changed = True
        while changed:
            changed = False
            for current in reversed(places):
                view = self._own.get(current, 0) | self._seen(places[current])
                changed |= view != self._known.get(current, 0)
                self._known[current] = view
        return self._known[inode_id]

    def _seen(self, places: list[_Place]) -> int:
        found = 0
        for place in places:
            view = self._known.get(place.directory, 0)
            if place.last is not None:
                view &= self.up_to(place.last)
            if view:
                begun = self._begun(place.directory).get(place.name, ())
                before = [each for each in begun if place.last is None or each < place.last]
                view &= ~self.up_to(max(before)) if before else -1
            found |= view
        return found

    def _places(self, inode_id: int) -> list[_Place]:
        slot = self._host.slot(inode_id)
        if slot < 0:
            return []
        name = self._host.index.name(inode_id)
        found = []
        row = int(self._host.parent_rows[slot])
        if row >= 0:
            found.append(_Place(int(self._host.directories.ids[row]), name, None))
        first, behind = np.searchsorted(self._gone, [inode_id, inode_id + 1])
        for directory, end in zip(self._gone_from[first:behind], self._gone_at[first:behind], strict=True):
            found.append(_Place(int(directory), name, int(end)))
        history = self._host.index.history
        for number in history.references_to(inode_id).tolist():
            if (holder := -int(self._reference_holders[number])) > 0:
                then = history.reference(number).name or name
                found.append(_Place(holder, then, int(self._reference_ends[number])))
        return found

    @functools.lru_cache(_CACHED_DIRECTORIES)  # noqa: B019 (one object per task)
    def _begun(self, directory_id: int) -> dict[bytes, list[int]]:
        """Return, by name, the snapshots of the diffs after which another inode had the name.

        These diffs list the name as created, or an inode with that name as deleted: an image may lack the former.
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
            reference = self._host.index.history.reference(number)
            yield reference.name or self._host.index.name(signed64(reference.referredId))

    def _diffs(self, inode_id: int) -> FileDiffRecords | DirectoryDiffRecords | None:
        start, _ = self._host.index.history.diff_span(inode_id)
        if start < 0:
            return None
        return next((found for _, _, found in self._records.located_snapshot_diffs(start)), None)

    def block_lists(self, inode_id: int) -> Iterator[tuple[int, dict[int, int] | None]]:
        """Yield (view, blocks: bytes by id) of a file, for each list of blocks; None for the current list.

        A snapshot has the blocks of the first diff from it on that has blocks, otherwise the current ones
        (INodeFile.getBlocks).
        """
        left = self.file(inode_id)
        diffs = self._diffs(inode_id)
        for diff in reversed(diffs.diffs if isinstance(diffs, FileDiffRecords) else []):
            if diff.blocks:
                view = left & self.up_to(signed32(diff.snapshotId))
                yield view, {signed64(block.blockId): signed64(block.numBytes) for block in diff.blocks}
                left &= ~view
        yield left, None

    def file(self, inode_id: int) -> int:
        """Return the snapshots in which a file is visible."""
        places = self._places(inode_id)
        for place in places:
            self.directory(place.directory)
        return self._seen(places)
