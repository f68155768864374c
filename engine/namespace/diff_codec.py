"""Decoding and encoding of snapshot diffs: the entries of SNAPSHOT_DIFF and the objects of `diffs`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from google.protobuf.message import Message

from engine.errors import UnsupportedNamespaceError
from engine.namespace.diffs import (
    LARGEST_ID,
    DirectoryDiff,
    DirectoryDiffs,
    FileDiff,
    FileDiffs,
    LinkCopy,
    Node,
    OlderDiffs,
    row_of,
)
from engine.namespace.references import Hub, InodeReferences, Numbering, WithName
from engine.namespace.snapshots import Snapshot, SnapshotManager
from hadoop_common.block import Block
from hadoop_common.java_numbers import UINT64, signed64, unsigned64
from image_format.errors import RecordError
from image_format.index import Bytes, Ids, ImageIndex
from image_format.inode_features import RowCopy, has_unknown_fields
from image_format.inode_table import NO_ROW, InodeTable
from image_format.kernels.inode import DIRECTORY, DROPPED, FILE, SYMLINK
from image_format.kernels.tags import CreatedListEntry
from image_format.layout import LayoutVersion, supports
from image_format.messages import MessageReader
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_SECTION = "SNAPSHOT_DIFF"
_NAME_TAG = CreatedListEntry.name
_MAX_SHORT_NAME = 0x7F - 2
"""Longest name for which both lengths in a CreatedListEntry take one byte."""
_TOGETHER = 1 << 10
"""Number of created names that are encoded in one piece."""

Diffs = FileDiffs | DirectoryDiffs

_MAX_NAME = 0xFFFF
"""Longest name that `DiffStore.early` can store; names in operations are never longer."""


def newest_with_names(diffs: Iterable[DirectoryDiff]) -> dict[bytes, int]:
    """Map each name to the id of the newest diff that contains the name, plus one; `diffs` starts with the oldest."""
    newest: dict[bytes, int] = {}
    for diff in diffs:
        if diff.snapshot_id <= LARGEST_ID:
            names = (name for name in (*diff.created, *diff.deleted) if len(name) <= _MAX_NAME)
            newest.update(dict.fromkeys(names, diff.snapshot_id + 1))
    return newest


class _DefaultTypeQuotas:
    """Storage type quotas that Hadoop's loader gives to copies of directories in an image of a given layout."""

    def __init__(self, layout_version: int) -> None:
        self._types = [pb.SSD, pb.DISK, pb.ARCHIVE]
        if supports(LayoutVersion.ERASURE_CODING, layout_version):
            self._types.append(pb.PROVIDED)
        if supports(LayoutVersion.NVDIMM_SUPPORT, layout_version):
            self._types.append(pb.NVDIMM)

    def apply(self, copy: pb.INodeDirectory) -> None:
        """Set a quota of 0 for every storage type in a copy that has a name or space quota, but no type quotas."""
        limited = copy.nsQuota != UINT64 or copy.dsQuota != UINT64
        if limited and not copy.HasField("typeQuotas"):
            for storage_type in self._types:
                copy.typeQuotas.quotas.add(storageType=storage_type, quota=0)


class DiffDecoder:
    """Decoder of the diffs of one inode at a time.

    Args:
        load: returns the rows of the given inode ids.
        place: notes the directory of a row.
        references: references that deleted lists may contain.
        note_older: called when older diffs of a directory are decoded, with the directory's row, these diffs, and the
            names in the newest diff.

    Attributes:
        found_links: whether a deleted list contains a symlink.
    """

    def __init__(
        self,
        base: ImageIndex,
        table: InodeTable,
        load: Callable[[Iterable[int]], Ids],
        place: Callable[[int, int], None],
        references: InodeReferences,
        snapshots: SnapshotManager,
        note_older: Callable[[int, list[DirectoryDiff], Collection[bytes]], None],
    ) -> None:
        self._base, self._table = base, table
        self._load_rows, self._place_row = load, place
        self._references, self._snapshots = references, snapshots
        self._note_older = note_older
        self._place = base.place(_SECTION)
        self._quotas = _DefaultTypeQuotas(base.layout_version)
        self.found_links = False

    def decode(self, row: int, span: tuple[int, int], *, whole: bool) -> Diffs:
        """Decode an inode's entry at `span`: all diffs if `whole`, otherwise at least the newest diff."""
        reader = self._reader(span)
        entry = reader.read(pb.DiffEntry)
        kind = FILE if entry.type == pb.DiffEntry.FILEDIFF else DIRECTORY
        if self._table.kind[row] != kind:
            raise self._damaged(f"inode {entry.inodeId} has diffs of another kind of inode", span[0])
        self._check_known(entry, row, span[0])
        if kind == FILE:
            # `current_deleted` is determined later, because its value requires a search in the tree.
            diffs = FileDiffs(current_deleted=None)
            newest_first = [self._file_diff(row, reader, span[0]) for _ in range(entry.numOfDiff)]
            diffs.known = newest_first[::-1]
            return diffs
        behind = -1 if whole else self._base.snapshot_index.older_diffs(entry.inodeId, self._snapshots.base_ids)
        count = entry.numOfDiff - 1
        if behind < 0:
            return DirectoryDiffs(self._directory_diffs(row, reader, count + 1, span[0]))
        newest = self._directory_diffs(row, reader, 1, span[0])
        older = partial(self._older_diffs, row, (behind, span[1]), count, newest_with_names(newest))
        return DirectoryDiffs(newest, OlderDiffs(count, self._section().data[behind : span[1]], older))

    def _older_diffs(
        self, row: int, span: tuple[int, int], count: int, noted: Collection[bytes]
    ) -> list[DirectoryDiff]:
        """Decode the `count` diffs that follow a directory's newest diff."""
        diffs = self._directory_diffs(row, self._reader(span), count, span[0])
        self._note_older(row, diffs, noted)
        return diffs

    def _directory_diffs(self, row: int, reader: MessageReader, count: int, offset: int) -> list[DirectoryDiff]:
        """Read `count` diffs and return them oldest first; in the image, the newest diff is first."""
        newest_first = [self._directory_diff(row, reader, offset) for _ in range(count)]
        # Decode the deleted inodes in one call, because there may be many.
        gone = self._deleted_inodes(row, [i for _, message in newest_first for i in message.deletedINode], offset)
        for diff, message in newest_first:
            nodes = list(islice(gone, len(message.deletedINode)))
            nodes += [self._references.resolve(number, row) for number in message.deletedINodeRef]
            self._set_deleted(row, diff, nodes, offset)
        return [diff for diff, _ in reversed(newest_first)]

    def _file_diff(self, row: int, reader: MessageReader, offset: int) -> FileDiff:
        message = reader.read(pb.FileDiff)
        self._check_known(message, row, offset)
        present = {block.block_id: block for block in self._table.file_blocks(row)}
        blocks = [Block(signed64(b.blockId), signed64(b.numBytes), signed64(b.genStamp)) for b in message.blocks]
        diff = FileDiff(
            snapshot_id=message.snapshotId,
            file_size=signed64(message.fileSize),
            name=message.name,
            copy=message.snapshotCopy if message.HasField("snapshotCopy") else None,
        )
        if blocks:
            # Like a NameNode, use the file's present block with that id, if any.
            diff.set_blocks([present.get(block.block_id, block) for block in blocks])
        return diff

    def _directory_diff(self, row: int, reader: MessageReader, offset: int) -> tuple[DirectoryDiff, pb.DirectoryDiff]:
        """Read a diff without its deleted entries; return it with the message that contains them."""
        message = reader.read(pb.DirectoryDiff)
        self._check_known(message, row, offset)
        diff = DirectoryDiff(message.snapshotId, message.childrenSize, message.isSnapshotRoot)
        if diff.is_root:
            diff.copy = self._snapshots.get(diff.snapshot_id)
            diff.name = diff.copy.name
        elif message.HasField("snapshotCopy"):
            self._quotas.apply(message.snapshotCopy)
            diff.name, diff.copy = message.name, message.snapshotCopy
        for _ in range(message.createdListSize):
            name = reader.field_alone(_NAME_TAG)
            if name is None:
                entry = reader.read(pb.CreatedListEntry)
                self._check_known(entry, row, offset)
                name = entry.name
            diff.create(name)
        return diff, message

    def _set_deleted(self, row: int, diff: DirectoryDiff, nodes: Iterable[Node], offset: int) -> None:
        for node in nodes:
            name = self._table.name(node) if isinstance(node, int) else node.name
            if name in diff.deleted:
                owner = int(self._table.id[row])
                raise self._damaged(f"a diff of inode {owner} has {name!r} twice in its deleted list", offset)
            diff.deleted[name] = node

    def _deleted_inodes(self, row: int, inode_ids: Sequence[int], offset: int) -> Iterator[Node]:
        """Yield the nodes of deleted entries that are inode ids."""
        rows = self._load_rows(inode_ids)
        if (rows != NO_ROW).all() and (self._table.kind[rows] == FILE).all():
            self._table.parent[rows] = row
            yield from rows.tolist()
        else:
            for inode_id, found in zip(inode_ids, rows.tolist(), strict=True):
                yield self._deleted(row, inode_id, found, offset)

    def _deleted(self, row: int, inode_id: int, found: int, offset: int) -> Node:
        if found == NO_ROW:
            owner = int(self._table.id[row])
            what = f"a diff of inode {owner} lists inode {inode_id} as deleted, but this inode does not exist"
            raise self._damaged(what, offset)
        self.found_links = self.found_links or self._table.kind[found] == SYMLINK
        if self._table.kind[found] == SYMLINK and self._references.is_dst(found):
            return LinkCopy(found, self._table.name(found), loaded=True)
        if self._table.kind[found] == DIRECTORY:
            self._place_row(found, row)
        else:
            # A changed symlink may be in another directory.
            self._table.parent[found] = row
        return found

    def _check_known(self, message: Message, row: int, offset: int) -> None:
        if has_unknown_fields(message):
            raise UnsupportedNamespaceError(
                f"the snapshot diffs of inode {int(self._table.id[row])} ({self._place.file}, section {_SECTION}, "
                f"offset {offset}) have fields that are unknown to this version",
                hint="Let a NameNode of the cluster's own release make this checkpoint.",
            )

    def _damaged(self, what: str, offset: int) -> RecordError:
        return self._place.error(RecordError, what, offset, hint="`checkpointer image verify --repair` may fix it.")

    def _section(self) -> Bytes:
        section = self._base.section(_SECTION)
        assert section is not None
        return section

    def _reader(self, span: tuple[int, int]) -> MessageReader:
        """Return a reader of the messages in a part of the section."""
        return MessageReader(self._section()[: span[1]], self._place, span[0])


class DiffEncoder:
    """Encoder of diffs.

    Attributes:
        lost: ids of removed inodes in the encoded deleted lists; Hadoop itself retains removed symlinks in these lists.
    """

    def __init__(self, base: ImageIndex, table: InodeTable, references: InodeReferences) -> None:
        self._base, self._table, self._references = base, table, references
        self._quotas = _DefaultTypeQuotas(base.layout_version)
        self.lost: set[int] = set()

    def encode(self, row: int, diffs: Diffs, numbering: Numbering) -> Iterator[bytes]:
        entry = pb.DiffEntry(
            type=pb.DiffEntry.FILEDIFF if isinstance(diffs, FileDiffs) else pb.DiffEntry.DIRECTORYDIFF,
            inodeId=int(self._table.id[row]),
            numOfDiff=len(diffs.known) + (0 if diffs.older is None else diffs.older.count),
        )
        yield encode_delimited(entry)
        if isinstance(diffs, FileDiffs):
            yield from (encode_delimited(self._file_message(diff)) for diff in reversed(diffs.known))
        else:
            for diff in reversed(diffs.known):
                created = sorted(diff.created, key=name_key)
                yield encode_delimited(self._directory_message(diff, len(created), numbering))
                # Yield few large pieces, because the consumer is slow with many small pieces.
                for start in range(0, len(created), _TOGETHER):
                    yield b"".join(map(_encode_created, created[start : start + _TOGETHER]))
            if diffs.older is not None:
                yield bytes(diffs.older.records)

    def encode_patched(self, owners: Iterable[int], numbering: Numbering) -> Iterator[bytes]:
        """Encode entries of unchanged directories as Hadoop would load them, with references renumbered."""
        section = self._base.section(_SECTION)
        for inode_id in owners:
            start, _ = self._base.snapshot_index.diff_span(inode_id)
            reader = MessageReader(section, self._base.place(_SECTION), start)
            entry = reader.read(pb.DiffEntry)
            yield encode_delimited(entry)
            for _ in range(entry.numOfDiff):
                diff = reader.read(pb.DirectoryDiff)
                if diff.HasField("snapshotCopy") and not diff.isSnapshotRoot:
                    self._quotas.apply(diff.snapshotCopy)
                diff.deletedINodeRef[:] = [numbering.moved.get(number, number) for number in diff.deletedINodeRef]
                yield encode_delimited(diff)
                for _ in range(diff.createdListSize):
                    yield encode_delimited(reader.read(pb.CreatedListEntry))

    def _file_message(self, diff: FileDiff) -> pb.FileDiff:
        message = pb.FileDiff(snapshotId=diff.snapshot_id, fileSize=unsigned64(diff.file_size))
        if isinstance(diff.copy, RowCopy):
            message.name = self._table.name_of(diff.copy)
            self._table.fill_file(message.snapshotCopy, diff.copy)
        elif diff.copy is not None:
            message.name = diff.name
            message.snapshotCopy.CopyFrom(diff.copy)
        for block in diff.blocks or ():
            message.blocks.add(
                blockId=unsigned64(block.block_id),
                genStamp=unsigned64(block.genstamp),
                numBytes=unsigned64(block.num_bytes),
            )
        return message

    def _directory_message(self, diff: DirectoryDiff, created: int, numbering: Numbering) -> pb.DirectoryDiff:
        message = pb.DirectoryDiff(
            snapshotId=diff.snapshot_id,
            childrenSize=diff.children_size,
            isSnapshotRoot=diff.is_root,
            createdListSize=created,
        )
        if isinstance(diff.copy, RowCopy):
            message.name = self._table.name_of(diff.copy)
            self._table.fill_directory(message.snapshotCopy, diff.copy)
        elif diff.copy is not None and not diff.is_root:
            message.name = diff.name
            message.snapshotCopy.CopyFrom(diff.copy.directory if isinstance(diff.copy, Snapshot) else diff.copy)
        for node in sorted(diff.deleted.values(), key=lambda node: name_key(self.written_name(node))):
            reference = self.reference(node)
            if reference is not None:
                message.deletedINodeRef.append(numbering.of(reference))
            elif not isinstance(node, WithName):
                message.deletedINode.append(int(self._table.id[row_of(node)]))
                if self._table.flags[row_of(node)] & DROPPED:
                    self.lost.add(int(self._table.id[row_of(node)]))
        return message

    def written_name(self, node: Node) -> bytes:
        """Return the name that a loader uses for a deleted entry: a copy of a link has the link's present name."""
        return node.name if isinstance(node, WithName) else self._table.name(row_of(node))

    def reference(self, node: Node) -> WithName | Hub | None:
        """Return the reference of a deleted entry; None if the entry is an inode id."""
        if isinstance(node, LinkCopy) or self._table.flags[row_of(node)] & DROPPED:
            return None
        if isinstance(node, WithName):
            return node
        hub = self._references.hub(node)
        return None if hub is None or hub.dst_snapshot is None else hub

    def file_copy(self, diff: FileDiff) -> pb.INodeFile | None:
        """Return the attributes of a file at a snapshot, read-only; None if they have not changed since then."""
        if not isinstance(diff.copy, RowCopy):
            return diff.copy
        message = pb.INodeFile()
        self._table.fill_file(message, diff.copy)
        return message

    def directory_copy(self, diff: DirectoryDiff) -> pb.INodeDirectory | None:
        """Return the attributes of a directory at a snapshot, as `file_copy` does for a file."""
        if isinstance(diff.copy, Snapshot):
            return diff.copy.directory
        if not isinstance(diff.copy, RowCopy):
            return diff.copy
        message = pb.INodeDirectory()
        self._table.fill_directory(message, diff.copy)
        return message


def _encode_created(name: bytes) -> bytes:
    """Encode a delimited CreatedListEntry; the function must be fast, because a list may contain very many entries."""
    size = len(name)
    if size > _MAX_SHORT_NAME:
        return encode_delimited(pb.CreatedListEntry(name=name))
    return bytes((size + 2, _NAME_TAG, size)) + name
