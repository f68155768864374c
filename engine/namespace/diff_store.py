"""The snapshot diffs of all inodes: decoded where an edit touches them, copied as bytes otherwise.

Of a directory often only the newest diff is decoded: most edits change only that one, and there may be very many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice

from google.protobuf.message import Message

from engine.errors import UnsupportedNamespaceError
from engine.namespace.diffs import (
    LARGEST_ID,
    NO_SNAPSHOT,
    DirectoryDiff,
    DirectoryDiffs,
    FileDiff,
    FileDiffs,
    LinkCopy,
    Node,
    OlderDiffs,
    row_of,
)
from engine.namespace.references import Hub, Numbering, References, WithName
from engine.namespace.snapshots import Snapshot, SnapshotManager
from hadoop_common.inode_ids import ROOT_INODE_ID
from image_format.errors import RecordError
from image_format.index import BaseImage, Bytes, Ids
from image_format.inode_table import (
    DIRECTORY,
    FILE,
    NO_ROW,
    SYMLINK,
    Block,
    InodeTable,
    RowCopy,
    has_unknown_fields,
    to_signed,
)
from image_format.kernels.inode import COPIED, DROPPED, SPECIAL
from image_format.kernels.tags import CreatedListEntry
from image_format.key_tables import BytesTable
from image_format.layout import LayoutVersion, supports
from image_format.messages import MessageReader
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_SECTION = "SNAPSHOT_DIFF"
_UINT64 = (1 << 64) - 1
# Longest name that `early` can hold; names in operations are never longer.
_MAX_NAME = 0xFFFF
_NAME_TAG = CreatedListEntry.name
_SHORT_NAME = 0x7F - 2
"""Longest name for which both lengths in a CreatedListEntry take one byte."""
_TOGETHER = 1 << 10
"""Created names that are encoded in one piece."""

Diffs = FileDiffs | DirectoryDiffs


def _encode_created(name: bytes) -> bytes:
    """Encode a delimited CreatedListEntry; fast, since a list may have very many."""
    size = len(name)
    if size > _SHORT_NAME:
        return encode_delimited(pb.CreatedListEntry(name=name))
    return bytes((size + 2, _NAME_TAG, size)) + name


class DiffStore:
    """The SNAPSHOT_DIFF section by inode.

    Args:
        base: the base image.
        table: rows of inodes.
         load: returns the rows of inode ids. place: notes the directory of a row.
        references: references that deleted lists may hold.
        snapshots: the snapshots of the namespace.
        child: returns the row of a directory's child by name, None if the name was not looked up.

    Attributes:
        has_links: whether a deleted list has or had a symlink.
        directories_changed: counts each time that a directory gets or loses a newest diff, or has its diffs read.
        early: names in the diffs that were read from the image, grouped by the directory's row; the value is the id of
            the newest diff that has the name, plus one.
        lost: ids of removed inodes in the deleted lists that were written: symlinks, as Hadoop itself leaves them.
    """

    def __init__(
        self,
        base: BaseImage,
        table: InodeTable,
        load: Callable[[Iterable[int]], Ids],
        place: Callable[[int, int], None],
        references: References,
        snapshots: SnapshotManager,
        child: Callable[[int, bytes], int | None],
    ) -> None:
        self._base = base
        self._table = table
        self._load_rows = load
        self._place_row = place
        self._references = references
        self._snapshots = snapshots
        self._child = child
        self._loaded: dict[int, Diffs | None] = {}
        self._dirty: set[int] = set()
        self._removed: set[int] = set()
        self._place = base.place(_SECTION)
        self._unread: dict[int, list[int]] = {}
        self._rows_at: defaultdict[int, set[int]] = defaultdict(set)
        self.has_links = False
        self.early = BytesTable(table.allocator)
        self.directories_changed = 0
        self.lost: set[int] = set()
        self._storage_types = [pb.SSD, pb.DISK, pb.ARCHIVE]
        if supports(LayoutVersion.ERASURE_CODING, base.layout_version):
            self._storage_types.append(pb.PROVIDED)
        if supports(LayoutVersion.NVDIMM_SUPPORT, base.layout_version):
            self._storage_types.append(pb.NVDIMM)

    @cached_property
    def owners(self) -> Ids:
        """Ascending ids of the inodes of the base with diffs; the root may have an entry without diffs, and is left out
        then.
        """
        history = self._base.history
        found = history.owners
        if ROOT_INODE_ID in found:
            start, _ = history.diff_span(ROOT_INODE_ID)
            entry = MessageReader(self._base.section(_SECTION), self._place, start).read(pb.DiffEntry)
            if not entry.numOfDiff:
                found = found[found != ROOT_INODE_ID]
        return found

    @property
    def any(self) -> bool:
        """Whether any inode may have diffs."""
        return self._base.history.owners.size > 0 or bool(self._loaded)

    @property
    def changed(self) -> bool:
        return bool(self._dirty or self._removed)

    def get(self, row: int) -> Diffs | None:
        """Return the diffs of an inode, which may be empty; None for an inode that never had any."""
        return self._loaded[row] if row in self._loaded else self._look(row, whole=False)

    def read(self, row: int) -> None:
        """Read all diffs of an inode."""
        diffs = self._loaded[row] if row in self._loaded else self._look(row, whole=True)
        if diffs is not None:
            _ = diffs.items

    def _look(self, row: int, *, whole: bool) -> Diffs | None:
        """Read the diffs of an inode: all of them if `whole`, else at least the newest."""
        if not self._base.history.owners.size:
            # Not stored in `_loaded`, which `any` depends on.
            return None
        diffs = None
        if self._table.slot[row] >= 0:
            span = self._base.history.diff_span(int(self._table.id[row]))
            if span[0] >= 0:
                diffs = self._decode(row, span, whole=whole)
        if diffs is not None or self._table.kind[row] != FILE:
            self._loaded[row] = diffs
        if isinstance(diffs, DirectoryDiffs):
            self._note_names(row, self._newest_with_names(diffs.known))
        if diffs is not None:
            for diff in diffs.known:
                self.note(row, diff.snapshot_id)
            if not diffs.any:
                self.note(row, NO_SNAPSHOT)
        return diffs

    @staticmethod
    def _newest_with_names(diffs: Iterable[DirectoryDiff]) -> dict[bytes, int]:
        """Map names to the id of the newest diff that has the name, plus one; the diffs are given oldest first."""
        newest: dict[bytes, int] = {}
        for diff in diffs:
            if diff.snapshot_id <= LARGEST_ID:
                names = (name for name in (*diff.created, *diff.deleted) if len(name) <= _MAX_NAME)
                newest.update(dict.fromkeys(names, diff.snapshot_id + 1))
        return newest

    def _note_names(self, row: int, newest: dict[bytes, int]) -> None:
        """Add names in the diffs that a directory has in the image to `early`."""
        first = self.early.count
        self.early.add_all(list(newest), [row] * len(newest))
        self.early.items["row"][first : self.early.count] = list(newest.values())

    def note(self, row: int, snapshot_id: int) -> None:
        """Note that an inode got a diff of a snapshot, or for `NO_SNAPSHOT`, that it lost its last diff."""
        self._rows_at[snapshot_id].add(row)
        diffs = self._loaded.get(row)
        self._count(row)
        if diffs is not None and self._references.hub(row) is None:
            last = diffs.last
            known = NO_SNAPSHOT if last is None else last.snapshot_id
            self._table.newest[row] = 0 if known > LARGEST_ID else known + 1 or -1
            before = self._table.marks.item(row)
            marks = before | COPIED if last is not None and last.copy is not None else before & (0xFF ^ COPIED)
            if marks != before:
                self._table.marks[row] = marks

    def _count(self, row: int) -> None:
        self.directories_changed += self._table.kind.item(row) != FILE

    def rows_at(self, snapshot_id: int) -> list[int]:
        """Return the rows of inodes with a diff of a snapshot, or for `NO_SNAPSHOT`, with no diffs any more; unread
        ones excluded.
        """
        found = []
        for row in self._rows_at[snapshot_id]:
            diffs = self._loaded.get(row)
            if diffs is not None and (
                not diffs.items if snapshot_id == NO_SNAPSHOT else diffs.of(snapshot_id) is not None
            ):
                found.append(row)
        self._rows_at[snapshot_id] = set(found)
        return found

    def unread_at(self, snapshot_id: int) -> list[int]:
        """Return the ids of such inodes of the base image whose diffs were not read."""
        if not self._base.history.owners.size:
            return []
        owners = self._unread.get(snapshot_id)
        if owners is None:
            owners = self._base.history.owners_at(snapshot_id).tolist()
        row_of = self._table.row_of
        # Diffs that were read once stay read.
        self._unread[snapshot_id] = [inode_id for inode_id in owners if not self._is_read(row_of.get(inode_id))]
        return self._unread[snapshot_id]

    def _is_read(self, row: int | None) -> bool:
        """Return whether all diffs of an inode were read."""
        diffs = self._loaded.get(row) if row is not None else None
        return row in self._loaded and (diffs is None or diffs.older is None)

    def of_directory(self, row: int) -> DirectoryDiffs | None:
        diffs = self.get(row)
        assert diffs is None or isinstance(diffs, DirectoryDiffs)
        return diffs

    def of_file(self, row: int) -> FileDiffs | None:
        diffs = self.get(row)
        assert diffs is None or isinstance(diffs, FileDiffs)
        return diffs

    def directory(self, row: int) -> DirectoryDiffs:
        """Return the diffs of a directory, for a change."""
        diffs = self.of_directory(row)
        if diffs is None:
            diffs = self._loaded[row] = DirectoryDiffs()
            self._count(row)
        self._table.marks[row] |= SPECIAL
        self._dirty.add(row)
        return diffs

    def file(self, row: int) -> FileDiffs:
        """Return the diffs of a file, for a change."""
        diffs = self.of_file(row)
        if diffs is None:
            diffs = self._loaded[row] = FileDiffs()
        self._table.marks[row] |= SPECIAL
        self._dirty.add(row)
        return diffs

    def to_keep(self, row: int) -> Diffs:
        """Return the diffs of a file or directory, for a change that a kernel noted; the row already shows the
        change.
        """
        diffs = self._loaded.get(row)
        if diffs is None:
            diffs = self.get(row)
        if diffs is None:
            diffs = self._loaded[row] = FileDiffs() if self._table.kind.item(row) == FILE else DirectoryDiffs()
        self._dirty.add(row)
        return diffs

    def note_kept(self, row: int, snapshot_id: int) -> None:
        """Note a diff that the row of the inode already shows; the row may also show later ones."""
        self._rows_at[snapshot_id].add(row)

    def to_create(self, row: int) -> dict[bytes, int | None]:
        """Return the created names of a directory's newest diff, for names to be added."""
        diffs = self._loaded[row]
        assert isinstance(diffs, DirectoryDiffs)
        self._dirty.add(row)
        return diffs.known[-1].created

    def delete(self, row: int, name: bytes, node: int | WithName) -> None:
        """Record in a directory's newest diff that a child left."""
        diffs = self._loaded[row]
        assert isinstance(diffs, DirectoryDiffs)
        diffs.known[-1].delete(name, node)
        self._dirty.add(row)

    def file_copy(self, diff: FileDiff) -> pb.INodeFile | None:
        """Return the attributes of a file at a snapshot, for reading only; None if they did not change since."""
        if not isinstance(diff.copy, RowCopy):
            return diff.copy
        message = pb.INodeFile()
        self._table.fill_file(message, diff.copy)
        return message

    def directory_copy(self, diff: DirectoryDiff) -> pb.INodeDirectory | None:
        """Return the attributes of a directory at a snapshot, like `file_copy`."""
        if isinstance(diff.copy, Snapshot):
            return diff.copy.directory
        if not isinstance(diff.copy, RowCopy):
            return diff.copy
        message = pb.INodeDirectory()
        self._table.fill_directory(message, diff.copy)
        return message

    def is_loaded(self, row: int) -> bool:
        return row in self._loaded

    def references(self) -> Iterator[WithName | Hub]:
        """Yield the references in the deleted lists that were read, by directory id."""
        found = {row: each for row, each in self._loaded.items() if isinstance(each, DirectoryDiffs)}
        for row in sorted(found, key=lambda row: int(self._table.id[row])):
            # Older diffs that are not known have none.
            for diff in found[row].known:
                yield from filter(None, map(self.reference, diff.deleted.values()))

    def directories_read(self) -> list[int]:
        """Return the rows of directories whose diffs were read or made, in that order."""
        return [row for row, diffs in self._loaded.items() if isinstance(diffs, DirectoryDiffs)]

    def known(self, row: int) -> list[DirectoryDiff]:
        """Return the known diffs of such a directory."""
        diffs = self._loaded[row]
        assert isinstance(diffs, DirectoryDiffs)
        return diffs.known

    def reference(self, node: Node) -> WithName | Hub | None:
        """Return the reference that a deleted entry is, None for an inode's own id."""
        if isinstance(node, LinkCopy) or self._table.flags[row_of(node)] & DROPPED:
            return None
        if isinstance(node, WithName):
            return node
        hub = self._references.hub(node)
        return None if hub is None or hub.dst_snapshot is None else hub

    def touch(self, row: int) -> None:
        """Mark the diffs of an inode as changed, if it has any."""
        if self._loaded.get(row) is not None:
            self._dirty.add(row)

    def remove(self, row: int) -> None:
        """Remove the diffs of an inode."""
        if self.get(row) is not None:
            self._loaded[row] = None
            self._count(row)
            self._table.newest[row] = -1 if self._references.hub(row) is None else 0
            self._table.marks[row] &= 0xFF ^ COPIED
            self._dirty.discard(row)
            if self._table.slot[row] >= 0:
                self._removed.add(int(self._table.id[row]))

    # ---- reading -------------------------------------------------------------------------------------------

    def _damaged(self, what: str, offset: int) -> RecordError:
        return self._place.error(RecordError, what, offset, hint="`checkpointer image verify --repair` may fix it.")

    def _section(self) -> Bytes:
        section = self._base.section(_SECTION)
        assert section is not None
        return section

    def _reader(self, span: tuple[int, int]) -> MessageReader:
        """Return a reader of the messages in a part of the section."""
        return MessageReader(self._section()[: span[1]], self._place, span[0])

    def _decode(self, row: int, span: tuple[int, int], *, whole: bool) -> Diffs:
        reader = self._reader(span)
        entry = reader.read(pb.DiffEntry)
        kind = FILE if entry.type == pb.DiffEntry.FILEDIFF else DIRECTORY
        if self._table.kind[row] != kind:
            raise self._damaged(f"inode {entry.inodeId} has diffs of another kind of inode", span[0])
        self._check_known(entry, row, span[0])
        if kind == FILE:
            # Whether the file still exists is found out later: that takes a search in the tree.
            diffs = FileDiffs(current_deleted=None)
            newest_first = [self._file_diff(row, reader, span[0]) for _ in range(entry.numOfDiff)]
            diffs.known = newest_first[::-1]
            return diffs
        behind = -1 if whole else self._base.history.older_diffs(entry.inodeId, self._snapshots.base_ids)
        count = entry.numOfDiff - 1
        if behind < 0:
            return DirectoryDiffs(self._directory_diffs(row, reader, count + 1, span[0]))
        newest = self._directory_diffs(row, reader, 1, span[0])
        noted = self._newest_with_names(newest)
        older = partial(self._older_diffs, row, (behind, span[1]), count, noted)
        return DirectoryDiffs(newest, OlderDiffs(count, self._section().data[behind : span[1]], older))

    def _older_diffs(self, row: int, span: tuple[int, int], count: int, noted: dict[bytes, int]) -> list[DirectoryDiff]:
        """Read the `count` diffs that follow a directory's newest one, the names of which are in `noted`."""
        diffs = self._directory_diffs(row, self._reader(span), count, span[0])
        found = {name: newest for name, newest in self._newest_with_names(diffs).items() if name not in noted}
        self._note_names(row, found)
        for name in found:
            child = self._child(row, name)
            if child is not None and child != NO_ROW and self._table.born.item(child) < 0:
                # `born` was right for the diffs known so far.
                self._table.born[child] = 0
        for diff in diffs:
            self.note_kept(row, diff.snapshot_id)
        return diffs

    def _directory_diffs(self, row: int, reader: MessageReader, count: int, offset: int) -> list[DirectoryDiff]:
        """Read `count` diffs and return them oldest first; in the image the newest comes first."""
        newest_first = [self._directory_diff(row, reader, offset) for _ in range(count)]
        # All at once: there may be many.
        gone = self._deleted_inodes(row, [i for _, message in newest_first for i in message.deletedINode], offset)
        for diff, message in newest_first:
            nodes = list(islice(gone, len(message.deletedINode)))
            nodes += [self._references.resolve(number, row) for number in message.deletedINodeRef]
            self._set_deleted(row, diff, nodes, offset)
        return [diff for diff, _ in reversed(newest_first)]

    def _check_known(self, message: Message, row: int, offset: int) -> None:
        if has_unknown_fields(message):
            raise UnsupportedNamespaceError(
                f"the snapshot diffs of inode {int(self._table.id[row])} ({self._place.file}, section {_SECTION}, "
                f"offset {offset}) have fields this version does not know",
                hint="Let a NameNode of the cluster's own release make this checkpoint.",
            )

    def _file_diff(self, row: int, reader: MessageReader, offset: int) -> FileDiff:
        message = reader.read(pb.FileDiff)
        self._check_known(message, row, offset)
        present = {block.block_id: block for block in self._table.file_blocks(row)}
        blocks = [Block(to_signed(b.blockId), to_signed(b.numBytes), to_signed(b.genStamp)) for b in message.blocks]
        diff = FileDiff(
            snapshot_id=message.snapshotId,
            file_size=to_signed(message.fileSize),
            name=message.name,
            copy=message.snapshotCopy if message.HasField("snapshotCopy") else None,
        )
        if blocks:
            # Like a NameNode, take the file's own block of that id if it exists.
            diff.set_blocks([present.get(block.block_id, block) for block in blocks])
        return diff

    def _directory_diff(self, row: int, reader: MessageReader, offset: int) -> tuple[DirectoryDiff, pb.DirectoryDiff]:
        """Read a diff without its deleted entries; return it with the message that has them."""
        message = reader.read(pb.DirectoryDiff)
        self._check_known(message, row, offset)
        diff = DirectoryDiff(message.snapshotId, message.childrenSize, message.isSnapshotRoot)
        if diff.is_root:
            diff.copy = self._snapshots.get(diff.snapshot_id)
            diff.name = diff.copy.name
        elif message.HasField("snapshotCopy"):
            self._default_type_quotas(message.snapshotCopy)
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

    def _default_type_quotas(self, copy: pb.INodeDirectory) -> None:
        """Give a copy with other quotas a quota of 0 for every storage type, as Hadoop's loader does."""
        limited = copy.nsQuota != _UINT64 or copy.dsQuota != _UINT64
        if limited and not copy.HasField("typeQuotas"):
            for storage_type in self._storage_types:
                copy.typeQuotas.quotas.add(storageType=storage_type, quota=0)

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
            what = f"a diff of inode {owner} has inode {inode_id} in its deleted list, which does not exist"
            raise self._damaged(what, offset)
        self.has_links = self.has_links or self._table.kind[found] == SYMLINK
        if self._table.kind[found] == SYMLINK and self._references.is_dst(found):
            return LinkCopy(found, self._table.name(found), loaded=True)
        if self._table.kind[found] == DIRECTORY:
            self._place_row(found, row)
        else:
            # A symlink that was changed may be elsewhere.
            self._table.parent[found] = row
        return found

    # ---- writing -------------------------------------------------------------------------------------------

    def _changed_ids(self) -> set[int]:
        return self._removed | {int(self._table.id[row]) for row in self._dirty}

    def unchanged(self, owners: Iterable[int]) -> list[int]:
        """Return `owners` and the owners whose diffs Hadoop would load with other quotas, without those that
        changed.
        """
        return sorted({*owners, *self._base.history.quota_copy_owners().tolist()} - self._changed_ids())

    def gone_spans(self, patched: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield (start, end) in SNAPSHOT_DIFF of the entries that are not copied, including the `patched` ones."""
        for inode_id in self._changed_ids().union(patched):
            span = self._base.history.diff_span(inode_id)
            if span[0] >= 0:
                yield span

    def encode_patched(self, owners: Iterable[int], numbering: Numbering) -> Iterator[bytes]:
        """Encode entries of unchanged directories as Hadoop would load them, with references renumbered."""
        section = self._base.section(_SECTION)
        for inode_id in owners:
            start, _ = self._base.history.diff_span(inode_id)
            reader = MessageReader(section, self._place, start)
            entry = reader.read(pb.DiffEntry)
            yield encode_delimited(entry)
            for _ in range(entry.numOfDiff):
                diff = reader.read(pb.DirectoryDiff)
                if diff.HasField("snapshotCopy") and not diff.isSnapshotRoot:
                    self._default_type_quotas(diff.snapshotCopy)
                diff.deletedINodeRef[:] = [numbering.moved.get(number, number) for number in diff.deletedINodeRef]
                yield encode_delimited(diff)
                for _ in range(diff.createdListSize):
                    yield encode_delimited(reader.read(pb.CreatedListEntry))

    def encode_changed(self, numbering: Numbering) -> Iterator[bytes]:
        """Encode the changed entries, each with its diffs."""
        for row in sorted(self._dirty, key=lambda row: int(self._table.id[row])):
            diffs = self._loaded[row]
            assert diffs is not None
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
                    # Few large pieces: the consumer is slow for many small ones.
                    for start in range(0, len(created), _TOGETHER):
                        yield b"".join(map(_encode_created, created[start : start + _TOGETHER]))
                if diffs.older is not None:
                    yield bytes(diffs.older.records)

    def _file_message(self, diff: FileDiff) -> pb.FileDiff:
        message = pb.FileDiff(snapshotId=diff.snapshot_id, fileSize=diff.file_size & _UINT64)
        if isinstance(diff.copy, RowCopy):
            message.name = self._table.name_of(diff.copy)
            self._table.fill_file(message.snapshotCopy, diff.copy)
        elif diff.copy is not None:
            message.name = diff.name
            message.snapshotCopy.CopyFrom(diff.copy)
        for block in diff.blocks or ():
            message.blocks.add(
                blockId=block.block_id & _UINT64, genStamp=block.genstamp & _UINT64, numBytes=block.num_bytes & _UINT64
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
        """Return the name that a loader takes for a deleted entry: a copy of a link has the link's present name."""
        return node.name if isinstance(node, WithName) else self._table.name(row_of(node))
