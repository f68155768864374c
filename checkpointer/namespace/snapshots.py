"""What replay knows of snapshots: the snapshottable directories and which inodes have diffs."""

from __future__ import annotations

from checkpointer.errors import NamespaceError, UnsupportedNamespaceError
from image_format.index import BaseImage
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

__all__ = ["Snapshots"]


class Snapshots:
    """`fsimage.proto SnapshotSection` and the owners of SNAPSHOT_DIFF."""

    def __init__(self, base: BaseImage) -> None:
        self._base = base
        reader = MessageReader(base.section("SNAPSHOT"), base.place("SNAPSHOT"))
        self._header = pb.SnapshotSection() if reader.done else reader.read(pb.SnapshotSection)
        self._snapshots: list[bytes] = []
        self._roots: set[int] = set()
        for _ in range(self._header.numSnapshots):
            snapshot = reader.read(pb.Snapshot)
            self._roots.add(snapshot.root.id)
            self._snapshots.append(encode_delimited(snapshot))
        reader.finish()
        self._empty_diffs: dict[int, bytes] = {}
        self._diffs: list[bytes] = []
        self.diff_owners = self._read_diffs()
        self.changed = False
        self.diffs_changed = False

    def _read_diffs(self) -> frozenset[int]:
        reader = MessageReader(self._base.section("SNAPSHOT_DIFF"), self._base.place("SNAPSHOT_DIFF"))
        owners = set()
        while not reader.done:
            entry = reader.read(pb.DiffEntry)
            if not entry.numOfDiff:
                self._empty_diffs[entry.inodeId] = encode_delimited(entry)
                continue
            owners.add(entry.inodeId)
            self._diffs.append(encode_delimited(entry))
            for _ in range(entry.numOfDiff):
                if entry.type == pb.DiffEntry.FILEDIFF:
                    self._diffs.append(reader.raw())
                    continue
                diff = reader.read(pb.DirectoryDiff)
                self._diffs.append(encode_delimited(diff))
                self._diffs.extend(reader.raw() for _ in range(diff.createdListSize))
        return frozenset(owners)

    def allow(self, directory_id: int) -> None:
        if directory_id not in self._header.snapshottableDir:
            self._header.snapshottableDir.append(directory_id)
            self.changed = True

    def disallow(self, directory_id: int) -> None:
        """Raises NamespaceError where the directory still has snapshots."""
        if directory_id in self._roots:
            raise NamespaceError(f"directory {directory_id} still has snapshots")
        if directory_id in self._header.snapshottableDir:
            self._header.snapshottableDir.remove(directory_id)
            self.changed = True

    def forget(self, inode_id: int) -> None:
        """The inode was deleted: it is snapshottable no more and has no diff list.

        Raises:
            UnsupportedNamespaceError: it has snapshots.
        """
        if inode_id in self._roots:
            raise UnsupportedNamespaceError(f"deleted directory {inode_id} has snapshots")
        self.disallow(inode_id)
        if self._empty_diffs.pop(inode_id, None) is not None:
            self.diffs_changed = True

    def encode(self) -> bytes:
        """The SNAPSHOT section."""
        return encode_delimited(self._header) + b"".join(self._snapshots)

    def encode_diffs(self) -> bytes:
        """The SNAPSHOT_DIFF section."""
        return b"".join(self._empty_diffs.values()) + b"".join(self._diffs)
