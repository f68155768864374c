"""What replay knows of snapshots: the snapshottable directories and which inodes have diffs."""

from __future__ import annotations

from collections.abc import Iterator

from checkpointer.errors import NamespaceError, UnsupportedNamespaceError
from image_format.index import BaseImage
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

__all__ = ["Snapshots"]


class Snapshots:
    """`fsimage.proto SnapshotSection` and the owners of SNAPSHOT_DIFF.

    Attributes:
        diff_owners: ids of the inodes with snapshots or diffs.
    """

    def __init__(self, base: BaseImage) -> None:
        self._base = base
        reader = MessageReader(base.section("SNAPSHOT"), base.place("SNAPSHOT"))
        self._header = pb.SnapshotSection() if reader.done else reader.read(pb.SnapshotSection)
        self._snapshottable = dict.fromkeys(self._header.snapshottableDir)
        self._snapshots: list[bytes] = []
        self._roots: set[int] = set()
        for _ in range(self._header.numSnapshots):
            snapshot = reader.read(pb.Snapshot)
            self._roots.add(snapshot.root.id)
            self._snapshots.append(encode_delimited(snapshot))
        reader.finish()
        # inode id to (start, end) of its empty list in SNAPSHOT_DIFF
        self._empty_diffs: dict[int, tuple[int, int]] = {}
        self._forgotten: list[tuple[int, int]] = []
        self.diff_owners = self._read_diffs() | self._roots
        self.changed = False
        self.diffs_changed = False

    def _read_diffs(self) -> frozenset[int]:
        reader = MessageReader(self._base.section("SNAPSHOT_DIFF"), self._base.place("SNAPSHOT_DIFF"))
        owners = set()
        while not reader.done:
            start = reader.position
            entry = reader.read(pb.DiffEntry)
            if not entry.numOfDiff:
                self._empty_diffs[entry.inodeId] = (start, reader.position)
                continue
            owners.add(entry.inodeId)
            for _ in range(entry.numOfDiff):
                if entry.type == pb.DiffEntry.FILEDIFF:
                    reader.skip()
                    continue
                for _ in range(reader.read(pb.DirectoryDiff).createdListSize):
                    reader.skip()
        return frozenset(owners)

    def known_ids(self) -> Iterator[int]:
        """Ids of the inodes that the two sections name and that can be deleted."""
        yield from self._empty_diffs
        yield from self._snapshottable

    def allow(self, directory_id: int) -> None:
        if directory_id not in self._snapshottable:
            self._snapshottable[directory_id] = None
            self.changed = True

    def disallow(self, directory_id: int) -> None:
        """Raises NamespaceError where the directory still has snapshots."""
        if directory_id in self._roots:
            raise NamespaceError(f"directory {directory_id} still has snapshots")
        if directory_id in self._snapshottable:
            del self._snapshottable[directory_id]
            self.changed = True

    def forget(self, inode_id: int) -> None:
        """The inode was deleted: it is snapshottable no more and has no diff list.

        Raises:
            UnsupportedNamespaceError: it has snapshots.
        """
        if inode_id in self._roots:
            raise UnsupportedNamespaceError(f"deleted directory {inode_id} has snapshots")
        self.disallow(inode_id)
        empty = self._empty_diffs.pop(inode_id, None)
        if empty is not None:
            self._forgotten.append(empty)
            self.diffs_changed = True

    def encode(self) -> bytes:
        """The SNAPSHOT section."""
        self._header.snapshottableDir[:] = self._snapshottable
        return encode_delimited(self._header) + b"".join(self._snapshots)

    def encode_diffs(self) -> bytes:
        """The SNAPSHOT_DIFF section: as it was, less the empty lists of deleted inodes."""
        section = self._base.section("SNAPSHOT_DIFF")
        data = memoryview(b"") if section is None else section.data
        kept, position = [], 0
        for start, end in sorted(self._forgotten):
            kept.append(data[position:start])
            position = end
        return b"".join([*kept, data[position:]])
