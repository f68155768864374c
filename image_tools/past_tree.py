"""The tree of an image at each of its snapshots, computed from the diffs (DirectoryWithSnapshotFeature)."""

from __future__ import annotations

import functools

from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from image_tools.dump.values import signed32, signed64

_Names = dict[bytes, int]
_DirectoryDiff = tuple[pb.DirectoryDiff, list[bytes]]


class PastTree:
    """Inodes and directories at the time of a snapshot.

    Later changes are reverted: each diff contains the state before the next diff's snapshot, or before the current
    state. Not thread-safe. Every method raises RecordError if a record is damaged.
    """

    def __init__(self, image: ImageFile, index: ImageIndex) -> None:
        self._image = image
        self._index = index
        self._records = ImageRecords(image)

    @functools.cached_property
    def snapshottable(self) -> frozenset[int]:
        """Ids of the snapshottable directories."""
        return frozenset(map(signed64, self._records.snapshot_header().snapshottableDir))

    def snapshots_of(self, directory_id: int) -> _Names:
        """Return the ids of a directory's snapshots by name, in name order."""
        found = {bytes(root.name): number for number, root in self._roots.items() if signed64(root.id) == directory_id}
        return dict(sorted(found.items()))

    def root(self, snapshot: int) -> pb.INode:
        """Return the root of a snapshot, whose name is that of the snapshot."""
        return self._roots[snapshot]

    def inode(self, inode: pb.INode, snapshot: int) -> pb.INode:
        """Return an inode with its attributes at a snapshot; a file has one block with the length of that time."""
        found = pb.INode(type=inode.type, id=inode.id, name=inode.name)
        if inode.HasField("directory"):
            found.directory.CopyFrom(self._directory(inode, snapshot))
        elif inode.HasField("file"):
            diffs = self._file_diffs(signed64(inode.id), snapshot)
            copies = [diff.snapshotCopy for diff in diffs if diff.HasField("snapshotCopy")]
            length = diffs[0].fileSize if diffs else sum(block.numBytes for block in inode.file.blocks)
            found.file.CopyFrom(copies[0] if copies else inode.file)
            del found.file.blocks[:]
            found.file.blocks.add(blockId=0, genStamp=0, numBytes=length)
        else:
            found.CopyFrom(inode)
        return found

    def children(self, directory_id: int, snapshot: int) -> _Names:
        """Return the ids of a directory's children at a snapshot, by name, without those that the image has lost."""
        held = self._present(directory_id)
        for diff, created in reversed(self._directory_diffs(directory_id, snapshot)):
            for name in created:
                held.pop(name, None)
            known = (each for each in map(signed64, diff.deletedINode) if self._index.slot(each) >= 0)
            held.update((self._index.name(each), each) for each in known)
            held.update(self._referred(each) for each in diff.deletedINodeRef)
        return held

    @functools.cached_property
    def _roots(self) -> dict[int, pb.INode]:
        return {signed32(each.snapshotId): each.root for each in self._records.snapshots()}

    def _present(self, directory_id: int) -> _Names:
        plain = self._index.children(directory_id).tolist()
        numbers = self._index.reference_children(directory_id).tolist()
        self._index.forget_directory(directory_id)
        return {self._index.name(each): each for each in plain} | dict(map(self._referred, numbers))

    def _referred(self, number: int) -> tuple[bytes, int]:
        """Return name and inode id of an INODE_REFERENCE record; without a name it has the name of its inode."""
        reference = self._index.history.reference(number)
        inode_id = signed64(reference.referredId)
        return reference.name or self._index.name(inode_id), inode_id

    def _directory(self, inode: pb.INode, snapshot: int) -> pb.INodeDirectory:
        for diff, _ in self._directory_diffs(signed64(inode.id), snapshot):
            if diff.isSnapshotRoot:
                return self._roots[signed32(diff.snapshotId)].directory
            if diff.HasField("snapshotCopy"):
                return diff.snapshotCopy
        return inode.directory

    def _directory_diffs(self, inode_id: int, snapshot: int) -> list[_DirectoryDiff]:
        """Return the diffs from a snapshot on, oldest first."""
        found = self._diffs(inode_id)
        if not isinstance(found, DirectoryDiffRecords):
            return []
        return [each for each in reversed(found.diffs) if signed32(each[0].snapshotId) >= snapshot]

    def _file_diffs(self, inode_id: int, snapshot: int) -> list[pb.FileDiff]:
        found = self._diffs(inode_id)
        if not isinstance(found, FileDiffRecords):
            return []
        return [each for each in reversed(found.diffs) if signed32(each.snapshotId) >= snapshot]

    def _diffs(self, inode_id: int) -> DirectoryDiffRecords | FileDiffRecords | None:
        start, _ = self._index.history.diff_span(inode_id)
        if start < 0:
            return None
        for _, _, found in self._records.located_snapshot_diffs(start):
            return found
        raise self._image.place("SNAPSHOT_DIFF").error(
            RecordError, f"the diffs of inode {inode_id} are truncated", start
        )
