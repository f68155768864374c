"""Snapshot diffs of an image for readers, and inodes with their attributes at the time of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from hadoop_common.java_numbers import signed64, unsigned64
from image_format.errors import BufferOrigin
from image_format.index import ImageIndex
from image_format.kernels.tags import CreatedListEntry
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb

_SECTION = "SNAPSHOT_DIFF"


class PastEntry(NamedTuple):
    """An entry of a deleted list; for a renamed inode, `last_snapshot` is the last snapshot with the old name."""

    inode_id: int
    last_snapshot: int | None = None


class DirectoryChange(NamedTuple):
    """Changes of a directory after a snapshot; `attributes` are the old attributes, or None if unchanged."""

    snapshot_id: int
    attributes: pb.INodeDirectory | None
    created: Collection[bytes]
    deleted: Mapping[bytes, PastEntry]


class FileChange(NamedTuple):
    """A file at a snapshot.

    Attributes:
        length: length in bytes.
        attributes: attributes; see `DirectoryChange`.
        blocks: lengths of the blocks by id, if the diff lists them.
    """

    snapshot_id: int
    length: int
    attributes: pb.INodeFile | None
    blocks: Mapping[int, int]


class ImageDiffs:
    """Diffs of an image. Every method raises RecordError if a record is damaged.

    Args:
        root_of: returns the attributes of a directory at its snapshot with a given id.
    """

    def __init__(self, index: ImageIndex, root_of: Callable[[int], pb.INodeDirectory]) -> None:
        self._index, self._root_of = index, root_of

    @property
    def _place(self) -> BufferOrigin:
        return self._index.place(_SECTION)

    def of_directory(self, inode_id: int, snapshot: int = 0) -> list[DirectoryChange]:
        """Return the changes of a directory after a snapshot, oldest first."""
        found: list[DirectoryChange] = []
        for change in self._directory_changes(inode_id):
            if change.snapshot_id < snapshot:
                break
            found.append(change)
        return found[::-1]

    def of_file(self, inode_id: int, snapshot: int = 0) -> list[FileChange]:
        """Return the states of a file at a snapshot and at later snapshots, oldest first."""
        found = [each for each in self._file_changes(inode_id) if each.snapshot_id >= snapshot]
        return found[::-1]

    def names_at(self, directory_id: int, snapshot: int) -> dict[bytes, PastEntry | None]:
        """Return the entries of changed names in a directory at a snapshot; None for a name without an entry."""
        found: dict[bytes, PastEntry | None] = {}
        for change in reversed(self.of_directory(directory_id, snapshot)):
            found.update(dict.fromkeys(change.created))
            found.update(change.deleted)
        return found

    def revert(self, inode: pb.INode, snapshot: int) -> None:
        """Set the attributes of an inode to its attributes at a snapshot; keep the present quotas, as a NameNode does.

        A file that has changed since then receives one block with the file's length at the snapshot.
        """
        inode_id = signed64(inode.id)
        if inode.HasField("file") and (files := self.of_file(inode_id, snapshot)):
            file_copy = next((each.attributes for each in files if each.attributes is not None), None)
            if file_copy is not None:
                inode.file.CopyFrom(file_copy)
            inode.file.ClearField("fileUC")
            del inode.file.blocks[:]
            inode.file.blocks.add(blockId=0, genStamp=0, numBytes=unsigned64(files[0].length))
        elif inode.HasField("directory"):
            changes = self.of_directory(inode_id, snapshot)
            copy = next((each.attributes for each in changes if each.attributes is not None), None)
            if copy is not None:
                present = pb.INodeDirectory()
                present.CopyFrom(inode.directory)
                inode.directory.CopyFrom(copy)
                inode.directory.nsQuota, inode.directory.dsQuota = present.nsQuota, present.dsQuota

    def _directory_changes(self, inode_id: int) -> Iterator[DirectoryChange]:
        """Yield the changes of a directory, newest first."""
        reader, count = self._stored(inode_id, pb.DiffEntry.DIRECTORYDIFF)
        yield from self._read_directory(reader, count)

    def _file_changes(self, inode_id: int) -> Iterator[FileChange]:
        """Yield the states of a file, newest first."""
        reader, count = self._stored(inode_id, pb.DiffEntry.FILEDIFF)
        for _ in range(count):
            message = reader.read(pb.FileDiff)
            copy = message.snapshotCopy if message.HasField("snapshotCopy") else None
            blocks = {signed64(block.blockId): signed64(block.numBytes) for block in message.blocks}
            yield FileChange(message.snapshotId, signed64(message.fileSize), copy, blocks)

    def _stored(self, inode_id: int, kind: pb.DiffEntry.Type) -> tuple[MessageReader, int]:
        """Return a reader of an inode's diffs of a kind, and the number of these diffs."""
        start, end = self._index.snapshot_index.diff_span(inode_id)
        section = self._index.section(_SECTION)
        reader = MessageReader(None if section is None else section[:end], self._place, start)
        if start < 0:
            return reader, 0
        entry = reader.read(pb.DiffEntry)
        return reader, entry.numOfDiff if entry.type == kind else 0

    def _read_directory(self, reader: MessageReader, count: int) -> Iterator[DirectoryChange]:
        """Yield diffs of a directory in the order of the image, which is newest first."""
        for _ in range(count):
            message = reader.read(pb.DirectoryDiff)
            self._count(message.createdListSize + len(message.deletedINode) + len(message.deletedINodeRef))
            created = [self._created(reader) for _ in range(message.createdListSize)]
            deleted = dict(self._deleted(map(signed64, message.deletedINode)))
            deleted |= map(self._referred, message.deletedINodeRef)
            yield DirectoryChange(message.snapshotId, self._attributes(message), created, deleted)

    def _attributes(self, message: pb.DirectoryDiff) -> pb.INodeDirectory | None:
        if message.isSnapshotRoot:
            return self._root_of(message.snapshotId)
        return message.snapshotCopy if message.HasField("snapshotCopy") else None

    @staticmethod
    def _created(reader: MessageReader) -> bytes:
        name = reader.field_alone(CreatedListEntry.name)
        return reader.read(pb.CreatedListEntry).name if name is None else name

    def _deleted(self, inode_ids: Iterable[int]) -> Iterator[tuple[bytes, PastEntry]]:
        for inode_id in inode_ids:
            if (name := self._name(inode_id)) is not None:
                yield name, PastEntry(inode_id)

    def _referred(self, number: int) -> tuple[bytes, PastEntry]:
        record = self._index.snapshot_index.reference(number)
        inode_id = signed64(record.referredId)
        last = None if record.HasField("dstSnapshotId") else record.lastSnapshotId
        return record.name or self._name(inode_id) or b"", PastEntry(inode_id, last)

    def _name(self, inode_id: int) -> bytes | None:
        """Return the present name of an inode; None if the image lacks the inode."""
        return self._index.name(inode_id) if self._index.slot(inode_id) >= 0 else None

    def _count(self, entries: int) -> None:
        """Record the number of entries of a diff before the entries are decoded."""
