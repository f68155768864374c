"""Snapshot diffs for readers: decoded without loading an inode, so that replay and the next image are unaffected.

Diffs that edits touched are those of the namespace; all others are read from the image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from engine.namespace import Namespace
from engine.namespace.diff_codec import Diffs
from engine.namespace.diffs import DirectoryDiff, FileDiff, FileDiffs, Node, row_of
from engine.namespace.references import WithName
from image_format.index import Ids, ImageIndex
from image_format.inode_features import to_signed
from image_format.kernels.scan import find_id
from image_format.kernels.tags import CreatedListEntry
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb

_SECTION = "SNAPSHOT_DIFF"
_MAX_ENTRIES = 50_000
"""Entries of created and deleted lists that a reader decodes between two pauses, in about 0.2 s."""


class PastEntry(NamedTuple):
    """An entry of a deleted list; `last_snapshot` belongs to the old name of a renamed inode, else None."""

    inode_id: int
    last_snapshot: int | None = None


class DirectoryChange(NamedTuple):
    """Changes of a directory after a snapshot; `attributes` are its attributes at the snapshot, None if unchanged."""

    snapshot_id: int
    attributes: pb.INodeDirectory | None
    created: Collection[bytes]
    deleted: Mapping[bytes, PastEntry]


class FileChange(NamedTuple):
    """A file at a snapshot.

    Attributes:
        length: in bytes.
        attributes: as of `DirectoryChange`.
        blocks: lengths of its blocks by id, if they are listed.
    """

    snapshot_id: int
    length: int
    attributes: pb.INodeFile | None
    blocks: Mapping[int, int]


class PastDiffs:
    """Diffs of a namespace, for the thread that holds its gate, until the next pause.

    Args:
        refuse: refuses an action that takes long.
    """

    def __init__(self, index: ImageIndex, namespace: Namespace, refuse: Callable[[str], None]) -> None:
        self._index, self._namespace, self._refuse = index, namespace, refuse
        self._store = namespace.history.diffs
        self._left = _MAX_ENTRIES

    @property
    def owners(self) -> Ids:
        """Ascending ids of the inodes with diffs in the image."""
        return self._store.owners

    def exist(self, inode_id: int) -> bool:
        """Return whether an inode may have diffs."""
        row = self._namespace.table.row_of.get(inode_id)
        if row is not None and self._store.is_loaded(row):
            return self._store.has_known(row)
        return bool(find_id(self._store.owners, inode_id) >= 0)

    def of_directory(self, inode_id: int, snapshot: int = 0) -> list[DirectoryChange]:
        """Return the changes of a directory after a snapshot, oldest first.

        Raises:
            RecordError: the diffs are damaged.
            ReadRefusedError: they have too many entries.
        """
        found: list[DirectoryChange] = []
        for change in self._directory_changes(inode_id):
            if change.snapshot_id < snapshot:
                break
            found.append(change)
        return found[::-1]

    def of_file(self, inode_id: int, snapshot: int = 0) -> list[FileChange]:
        """Return the states of a file at a snapshot and those after it, oldest first; raise as `of_directory`."""
        found = [each for each in self._file_changes(inode_id) if each.snapshot_id >= snapshot]
        return found[::-1]

    def names_at(self, directory_id: int, snapshot: int) -> dict[bytes, PastEntry | None]:
        """Return what a directory had at a snapshot under each name that changed since; None for no entry."""
        found: dict[bytes, PastEntry | None] = {}
        for change in reversed(self.of_directory(directory_id, snapshot)):
            found.update(dict.fromkeys(change.created))
            found.update(change.deleted)
        return found

    # ---- diffs of the namespace ----------------------------------------------------------------------------

    def _loaded(self, inode_id: int) -> tuple[Diffs | None, bool]:
        """Return the diffs that replay knows, and whether the image has no others."""
        row = self._namespace.table.row_of.get(inode_id)
        if row is None or not self._store.is_loaded(row):
            return None, find_id(self._store.owners, inode_id) < 0
        return self._store.get(row), True

    def _directory_changes(self, inode_id: int) -> Iterator[DirectoryChange]:
        """Yield the changes of a directory, newest first."""
        diffs, complete = self._loaded(inode_id)
        if not complete:
            yield from self._stored_directory(inode_id)
        elif diffs is not None and not isinstance(diffs, FileDiffs):
            yield from map(self._known_directory, reversed(diffs.known))
            if diffs.older is not None:
                records = np.frombuffer(diffs.older.records, np.uint8)
                yield from self._read_directory(MessageReader(records, self._index.place(_SECTION)), diffs.older.count)

    def _file_changes(self, inode_id: int) -> Iterator[FileChange]:
        """Yield the states of a file, newest first."""
        diffs, complete = self._loaded(inode_id)
        if not complete:
            yield from self._stored_file(inode_id)
        elif isinstance(diffs, FileDiffs):
            yield from map(self._known_file, reversed(diffs.known))

    def _known_directory(self, diff: DirectoryDiff) -> DirectoryChange:
        self._count(len(diff.created) + len(diff.deleted))
        deleted = {name: self._entry(node) for name, node in diff.deleted.items()}
        return DirectoryChange(diff.snapshot_id, self._store.encoder.directory_copy(diff), diff.created, deleted)

    def _known_file(self, diff: FileDiff) -> FileChange:
        blocks = {block.block_id: block.num_bytes for block in diff.blocks or ()}
        return FileChange(diff.snapshot_id, diff.file_size, self._store.encoder.file_copy(diff), blocks)

    def _entry(self, node: Node) -> PastEntry:
        inode_id = int(self._namespace.table.id[row_of(node)])
        return PastEntry(inode_id, node.last_snapshot if isinstance(node, WithName) else None)

    # ---- diffs of the image --------------------------------------------------------------------------------

    def _reader(self, inode_id: int) -> tuple[MessageReader, pb.DiffEntry]:
        start, end = self._index.history.diff_span(inode_id)
        section = self._index.section(_SECTION)
        assert section is not None
        reader = MessageReader(section[:end], self._index.place(_SECTION), start)
        return reader, reader.read(pb.DiffEntry)

    def _stored_directory(self, inode_id: int) -> Iterator[DirectoryChange]:
        reader, entry = self._reader(inode_id)
        if entry.type == pb.DiffEntry.DIRECTORYDIFF:
            yield from self._read_directory(reader, entry.numOfDiff)

    def _stored_file(self, inode_id: int) -> Iterator[FileChange]:
        reader, entry = self._reader(inode_id)
        for _ in range(entry.numOfDiff if entry.type == pb.DiffEntry.FILEDIFF else 0):
            message = reader.read(pb.FileDiff)
            copy = message.snapshotCopy if message.HasField("snapshotCopy") else None
            blocks = {to_signed(block.blockId): to_signed(block.numBytes) for block in message.blocks}
            yield FileChange(message.snapshotId, to_signed(message.fileSize), copy, blocks)

    def _read_directory(self, reader: MessageReader, count: int) -> Iterator[DirectoryChange]:
        """Yield diffs of a directory in the order of the image, which is newest first."""
        for _ in range(count):
            message = reader.read(pb.DirectoryDiff)
            self._count(message.createdListSize + len(message.deletedINode) + len(message.deletedINodeRef))
            created = [self._created(reader) for _ in range(message.createdListSize)]
            deleted = dict(self._deleted(map(to_signed, message.deletedINode)))
            deleted |= map(self._referred, message.deletedINodeRef)
            yield DirectoryChange(message.snapshotId, self._attributes(message), created, deleted)

    def _attributes(self, message: pb.DirectoryDiff) -> pb.INodeDirectory | None:
        if message.isSnapshotRoot:
            return self._namespace.snapshots.get(message.snapshotId).directory
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
        record = self._index.history.reference(number)
        inode_id = to_signed(record.referredId)
        last = None if record.HasField("dstSnapshotId") else record.lastSnapshotId
        return record.name or self._name(inode_id) or b"", PastEntry(inode_id, last)

    def _name(self, inode_id: int) -> bytes | None:
        """Return the present name of an inode; None if the image has lost it."""
        row = self._namespace.table.row_of.get(inode_id)
        if row is not None:
            return self._namespace.table.name(row)
        return self._index.name(inode_id) if self._index.slot(inode_id) >= 0 else None

    def _count(self, entries: int) -> None:
        self._left -= 1 + entries
        if self._left < 0:
            self._refuse(f"reading more than {_MAX_ENTRIES:,} changes since a snapshot at once")
