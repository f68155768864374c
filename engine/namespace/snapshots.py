"""Snapshots by snapshottable directory: the SNAPSHOT section."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from engine.errors import NamespaceError, UnsupportedNamespaceError
from engine.namespace.default_quota import set_record_default
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.java_numbers import signed64
from image_format.errors import RecordError
from image_format.index import Ids, ImageIndex
from image_format.inode_features import has_unknown_fields
from image_format.messages import MessageReader
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_SECTION = "SNAPSHOT"


class Snapshot:
    """A snapshot of a directory, with the directory's attributes at the time of the snapshot (`fsimage.proto
    SnapshotSection.Snapshot`).

    Args:
        attributes: returns the attributes of the directory; called only on first use, because many snapshots are
            deleted before their attributes are needed.
        record: its record, if the image contains the snapshot.
    """

    __slots__ = ("_attributes", "_directory", "_record", "id", "name", "root_id")

    def __init__(
        self,
        snapshot_id: int,
        root_id: int,
        name: bytes,
        attributes: Callable[[], pb.INodeDirectory],
        record: pb.Snapshot | None = None,
    ) -> None:
        self.id, self.root_id, self.name = snapshot_id, root_id, name
        self._attributes = attributes
        self._directory: pb.INodeDirectory | None = None
        self._record = record

    @classmethod
    def of(cls, record: pb.Snapshot) -> Snapshot:
        root = record.root
        return cls(record.snapshotId, root.id, root.name, lambda: root.directory, record)

    @property
    def directory(self) -> pb.INodeDirectory:
        """Attributes of the directory; the caller may change them."""
        if self._directory is None:
            self._directory = self._attributes()
        return self._directory

    @property
    def is_known(self) -> bool:
        """Whether this version supports all fields of the record."""
        # Snapshots made by replay have no record.
        return self._record is None or not has_unknown_fields(self._record)

    def to_record(self) -> pb.Snapshot:
        if self._record is None:
            root = pb.INode(type=pb.INode.DIRECTORY, id=self.root_id, directory=self.directory)
            self._record = pb.Snapshot(snapshotId=self.id, root=root)
            self._directory = self._record.root.directory
        self._record.root.name = self.name
        return self._record


class SnapshotManager:
    """The SNAPSHOT section with its records (`fsimage.proto SnapshotSection`, Hadoop's SnapshotManager).

    Attributes:
        base_ids: ids of the snapshots in the image, ascending.
        changed: whether the section differs from the section in the image.
        roots_changed: number of changes of snapshottable directories.
        any_gone: whether a snapshot was deleted.

    Raises:
        RecordError: the section is damaged, or a NameNode cannot load it.
    """

    def __init__(self, base: ImageIndex) -> None:
        reader = MessageReader(base.section(_SECTION), base.place(_SECTION))
        self._header = pb.SnapshotSection() if reader.done else reader.read(pb.SnapshotSection)
        self._file = base.file
        self._first_new = self._header.snapshotCounter
        self._snapshottable = dict.fromkeys(map(signed64, self._header.snapshottableDir))
        self.changed = False
        self.roots_changed = 0
        self._by_id: dict[int, Snapshot] = {}
        self._of: dict[int, dict[bytes, Snapshot]] = {}
        for _ in range(self._header.numSnapshots):
            start = reader.position
            snapshot = Snapshot.of(reader.read(pb.Snapshot))
            siblings = self._of.setdefault(snapshot.root_id, {})
            if snapshot.id in self._by_id or snapshot.name in siblings:
                raise base.place(_SECTION).error(RecordError, "two snapshots have the same id or name", start)
            if snapshot.id >= self._first_new:
                what = f"snapshotCounter is {self._first_new}, but a snapshot has the id {snapshot.id}"
                raise base.place(_SECTION).error(RecordError, what, start)
            if snapshot.root_id not in self._snapshottable and snapshot.root_id != ROOT_INODE_ID:
                what = f"snapshot {snapshot.id} belongs to inode {snapshot.root_id}, which is not snapshottable"
                raise base.place(_SECTION).error(RecordError, what, start)
            self.changed |= set_record_default(snapshot.directory)
            self._by_id[snapshot.id] = siblings[snapshot.name] = snapshot
        reader.finish()
        self.base_ids: Ids = np.array(sorted(self._by_id), np.int64)
        self.any_gone = False
        self._gone: dict[int, Snapshot] = {}

    @property
    def any(self) -> bool:
        return bool(self._by_id)

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self._by_id)

    @property
    def snapshottable_ids(self) -> Iterator[int]:
        return iter(self._snapshottable)

    def is_snapshottable(self, directory_id: int) -> bool:
        return directory_id in self._snapshottable

    def has_snapshots(self, directory_id: int) -> bool:
        return bool(self._of.get(directory_id))

    def of_directory(self, directory_id: int) -> list[Snapshot]:
        """Return the snapshots of a directory, by name."""
        snapshots = self._of.get(directory_id, {})
        return [snapshots[name] for name in sorted(snapshots, key=name_key)]

    def exists(self, snapshot_id: int) -> bool:
        return snapshot_id in self._by_id

    def get(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot by its id; raise NamespaceError if the snapshot never existed.

        Deleted snapshots of the image are included, because unread diffs in the image may belong to their roots.
        """
        snapshot = self._by_id.get(snapshot_id) or self._gone.get(snapshot_id)
        if snapshot is None:
            raise NamespaceError(f"a snapshot diff belongs to snapshot {snapshot_id}, which does not exist")
        return snapshot

    def find(self, directory_id: int, name: bytes) -> Snapshot:
        """Return a snapshot of a directory by name; raise NamespaceError if it does not exist."""
        self.check_snapshottable(directory_id)
        snapshot = self._of.get(directory_id, {}).get(name)
        if snapshot is None:
            raise NamespaceError(f"directory {directory_id} has no snapshot {name.decode('utf-8', 'replace')!r}")
        return snapshot

    def has(self, directory_id: int, name: bytes) -> bool:
        """Return whether a directory has a snapshot of that name; raise NamespaceError if it is not snapshottable."""
        self.check_snapshottable(directory_id)
        return name in self._of.get(directory_id, {})

    def check_snapshottable(self, directory_id: int) -> None:
        """Raise NamespaceError for a directory that snapshot operations do not accept.

        Snapshot operations always accept the root, whose snapshot quota is 0 until it is made snapshottable
        (FSDirectory.createRoot).
        """
        if directory_id not in self._snapshottable and directory_id != ROOT_INODE_ID:
            raise NamespaceError(f"directory {directory_id} is not snapshottable")

    def allow(self, directory_id: int) -> bool:
        """Make a directory snapshottable; return False if it already is."""
        if directory_id in self._snapshottable:
            return False
        self._snapshottable[directory_id] = None
        self.roots_changed += 1
        self.changed = True
        return True

    def disallow(self, directory_id: int) -> None:
        """Make a directory non-snapshottable; raise NamespaceError if it still has snapshots."""
        if self.has_snapshots(directory_id):
            raise NamespaceError(f"directory {directory_id} still has snapshots")
        self.forget(directory_id)

    def forget(self, directory_id: int) -> None:
        """Unregister a snapshottable directory that was removed or is no longer snapshottable."""
        if directory_id in self._snapshottable:
            del self._snapshottable[directory_id]
            self.roots_changed += 1
            self.changed = True

    @property
    def next_id(self) -> int:
        return self._header.snapshotCounter

    def create(self, directory_id: int, name: bytes, attributes: Callable[[], pb.INodeDirectory]) -> Snapshot:
        """Create a snapshot of a directory.

        Raises:
            NamespaceError: the directory is not snapshottable, or has a snapshot of that name.
        """
        if directory_id not in self._snapshottable:
            raise NamespaceError(f"directory {directory_id} is not snapshottable")
        siblings = self._of.setdefault(directory_id, {})
        if name in siblings:
            raise NamespaceError(f"directory {directory_id} already has a snapshot {name.decode('utf-8', 'replace')!r}")
        number = self.next_id
        snapshot = Snapshot(number, directory_id, name, attributes)
        self._header.snapshotCounter = number + 1
        self._by_id[number] = siblings[name] = snapshot
        self.changed = True
        return snapshot

    def delete(self, snapshot: Snapshot) -> None:
        del self._by_id[snapshot.id]
        if snapshot.id < self._first_new:
            self._gone[snapshot.id] = snapshot
        self.any_gone = True
        del self._of[snapshot.root_id][snapshot.name]
        self.changed = True

    def rename(self, snapshot: Snapshot, name: bytes) -> None:
        """Rename a snapshot; raise NamespaceError if the directory has a snapshot of that name."""
        siblings = self._of[snapshot.root_id]
        if name in siblings:
            raise NamespaceError(
                f"directory {snapshot.root_id} already has a snapshot {name.decode('utf-8', 'replace')!r}"
            )
        self.check_writable(snapshot)
        del siblings[snapshot.name]
        snapshot.name = name
        siblings[name] = snapshot
        self.changed = True

    def check_writable(self, snapshot: Snapshot) -> None:
        """Raise UnsupportedNamespaceError if the record has fields that this version does not know."""
        if not snapshot.is_known:
            raise UnsupportedNamespaceError(
                f"snapshot {snapshot.id} ({self._file}, section {_SECTION}) has fields that are unknown to this version"
            )

    def encode(self) -> bytes:
        self._header.snapshottableDir[:] = self._snapshottable
        self._header.numSnapshots = len(self._by_id)
        ordered = [
            snapshots[name].to_record() for snapshots in self._of.values() for name in sorted(snapshots, key=name_key)
        ]
        return b"".join(map(encode_delimited, [self._header, *ordered]))
