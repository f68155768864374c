"""A small reader of the snapshot sections: it derives the tree at each snapshot from the diffs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from tests.engine.image_builder import ROOT, UINT64, M, Saved, forever, messages

CURRENT = 2147483646

Holder = int | pb.INodeReference
"""Entry of a directory or of a deleted list under a name: an inode id, or a reference."""


def delimited_from(data: bytes, position: int, kind: type[M]) -> tuple[M, int]:
    """Return the message at `position`, and the position of its end."""
    size = shift = 0
    while True:
        byte = data[position]
        size |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            break
    message = kind()
    message.ParseFromString(data[position : position + size])
    return message, position + size


@dataclass
class Diff:
    """One diff of an inode, with the created names that follow it in the section."""

    message: pb.FileDiff | pb.DirectoryDiff
    created: list[bytes] = field(default_factory=list)

    @property
    def id(self) -> int:
        return self.message.snapshotId


@dataclass(frozen=True)
class Seen:
    """An inode as it appears to a reader of a snapshot or of the current state.

    Directories have no length. Their mtime is omitted, because a snapshot does not always record it.
    """

    inode_id: int
    user: str
    mode: int
    xattrs: tuple[tuple[str, bytes], ...] = ()
    quotas: tuple[int, int] | None = None
    mtime: int | None = None
    replication: int = 0
    length: int | None = None
    blocks: tuple[int, ...] = ()


class SnapshotReader:
    """The snapshots of an image, decoded with the protobuf library alone.

    Attributes:
        snapshottable: ids of the directories.
        snapshots: snapshots by (id of the directory, name).
        diffs: diffs of each inode, oldest first.
        references: INODE_REFERENCE by number.
        kept: current children of each directory by name.
    """

    def __init__(self, saved: Saved) -> None:
        self.saved = saved
        self.header, position = delimited_from(saved.sections["SNAPSHOT"], 0, pb.SnapshotSection)
        self.snapshottable = list(self.header.snapshottableDir)
        found = list(messages(saved.sections["SNAPSHOT"][position:], forever(pb.Snapshot)))
        assert len(found) == self.header.numSnapshots
        self.snapshots = {(each.root.id, each.root.name.decode()): each for each in found}
        self.order = [each.root.name for each in found]
        self.roots = {each.snapshotId: each.root for each in found}
        self.references = list(messages(saved.sections["INODE_REFERENCE"], forever(pb.INodeReference)))
        self.diffs = dict(self._read_diffs(saved.sections["SNAPSHOT_DIFF"]))
        self.kept: dict[int, dict[bytes, Holder]] = {}
        for entry in messages(saved.sections["INODE_DIR"], forever(pb.DirEntry)):
            held: list[Holder] = [*entry.children, *(self.references[number] for number in entry.refChildren)]
            self.kept[entry.parent] = {self.name(holder): holder for holder in held}
            assert len(self.kept[entry.parent]) == len(held)

    def _read_diffs(self, data: bytes) -> Iterator[tuple[int, list[Diff]]]:
        position = 0
        while position < len(data):
            entry, position = delimited_from(data, position, pb.DiffEntry)
            diffs: list[Diff] = []
            for _ in range(entry.numOfDiff):
                if entry.type == pb.DiffEntry.FILEDIFF:
                    file_diff, position = delimited_from(data, position, pb.FileDiff)
                    diffs.append(Diff(file_diff))
                    continue
                message, position = delimited_from(data, position, pb.DirectoryDiff)
                diff = Diff(message)
                for _ in range(message.createdListSize):
                    created, position = delimited_from(data, position, pb.CreatedListEntry)
                    diff.created.append(created.name)
                diffs.append(diff)
            yield entry.inodeId, diffs[::-1]

    # ---- one inode -----------------------------------------------------------------------------------------

    def name(self, holder: Holder) -> bytes:
        if isinstance(holder, int):
            return self.saved.inodes[holder].name
        return holder.name or self.saved.inodes[holder.referredId].name

    @staticmethod
    def inode_id(holder: Holder) -> int:
        return holder if isinstance(holder, int) else holder.referredId

    def diffs_from(self, inode_id: int, snapshot: int) -> list[Diff]:
        return [diff for diff in self.diffs.get(inode_id, ()) if diff.id >= snapshot]

    def deleted(self, diff: Diff) -> dict[bytes, Holder]:
        message = diff.message
        assert isinstance(message, pb.DirectoryDiff)
        held: list[Holder] = [*message.deletedINode, *(self.references[number] for number in message.deletedINodeRef)]
        return {self.name(holder): holder for holder in held}

    def children(self, directory: int, snapshot: int) -> dict[bytes, Holder]:
        """Return the children of a directory at a snapshot: undo the changes since the snapshot, diff by diff."""
        held = dict(self.kept.get(directory, {}))
        for diff in reversed(self.diffs_from(directory, snapshot)):
            for name in diff.created:
                held.pop(name)
            for name, holder in self.deleted(diff).items():
                assert name not in held
                held[name] = holder
        return held

    def seen(self, inode_id: int, snapshot: int) -> Seen:
        inode = self.saved.inodes[inode_id]
        diffs = self.diffs_from(inode_id, snapshot)
        if inode.HasField("directory"):
            return self._directory(inode_id, self._directory_copy(inode, diffs))
        if inode.HasField("symlink"):
            # A diff has no copy of a link, so its deleted entry shows the link's current state.
            status = self.saved.status(inode.symlink.permission)
            return Seen(inode_id, status.user, status.mode)
        copies = [diff.message.snapshotCopy for diff in diffs if diff.message.HasField("snapshotCopy")]
        file = copies[0] if copies else inode.file
        assert isinstance(file, pb.INodeFile)
        status = self.saved.status(file.permission)
        length = sum(block.numBytes for block in inode.file.blocks)
        if diffs:
            length = diffs[0].message.fileSize  # type: ignore[union-attr]
        return Seen(
            inode_id,
            status.user,
            status.mode,
            self._xattrs(file),
            mtime=file.modificationTime,
            replication=file.replication,
            length=length,
            blocks=self._blocks(inode, diffs, length),
        )

    def _directory_copy(self, inode: pb.INode, diffs: list[Diff]) -> pb.INodeDirectory:
        for diff in diffs:
            message = diff.message
            assert isinstance(message, pb.DirectoryDiff)
            if message.isSnapshotRoot:
                return self.roots[diff.id].directory
            if message.HasField("snapshotCopy"):
                return message.snapshotCopy
        return inode.directory

    def _directory(self, inode_id: int, directory: pb.INodeDirectory) -> Seen:
        status = self.saved.status(directory.permission)
        quotas = tuple(-1 if quota == UINT64 else quota for quota in (directory.nsQuota, directory.dsQuota))
        return Seen(inode_id, status.user, status.mode, self._xattrs(directory), (quotas[0], quotas[1]))

    def _xattrs(self, inode: pb.INodeFile | pb.INodeDirectory) -> tuple[tuple[str, bytes], ...]:
        found = inode.xAttrs.xAttrs
        return tuple(sorted((self.saved.string(xattr.name >> 6 & 0xFFFFFF, 3), xattr.value) for xattr in found))

    @staticmethod
    def _blocks(inode: pb.INode, diffs: list[Diff], length: int) -> tuple[int, ...]:
        """Return the ids of the blocks that contain the first `length` bytes."""
        lists = [diff.message.blocks for diff in diffs if isinstance(diff.message, pb.FileDiff) and diff.message.blocks]
        ids: list[int] = []
        for block in [*lists, inode.file.blocks][0]:
            if length <= 0:
                break
            ids.append(block.blockId)
            length -= block.numBytes
        return tuple(ids)

    # ---- trees ---------------------------------------------------------------------------------------------

    def tree(self, inode_id: int = ROOT, snapshot: int = CURRENT) -> dict[str, Seen]:
        """Return a directory and everything below it, by relative path."""
        return dict(self._walk("", inode_id, snapshot))

    def _walk(self, path: str, inode_id: int, snapshot: int) -> Iterator[tuple[str, Seen]]:
        yield path or "/", self.seen(inode_id, snapshot)
        if self.saved.inodes[inode_id].HasField("directory"):
            for name, holder in self.children(inode_id, snapshot).items():
                yield from self._walk(f"{path}/{name.decode()}", self.inode_id(holder), snapshot)

    # ---- invariants ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the invariants on which a NameNode that loads the image relies."""
        self._check_references()
        for inode_id, diffs in self.diffs.items():
            assert inode_id in self.saved.inodes
            ids = [diff.id for diff in diffs]
            assert ids == sorted(set(ids)), "diffs are in the order of their snapshots"
            for at, diff in enumerate(diffs):
                if isinstance(diff.message, pb.DirectoryDiff):
                    self._check_directory_diff(inode_id, diffs[at + 1 :], diff)
        for snapshot_id, root in self.roots.items():
            assert any(d.id == snapshot_id and d.message.isSnapshotRoot for d in self.diffs[root.id])  # type: ignore[union-attr]
            assert root.id in self.snapshottable
            assert snapshot_id < self.header.snapshotCounter

    def _check_directory_diff(self, inode_id: int, later: list[Diff], diff: Diff) -> None:
        assert isinstance(diff.message, pb.DirectoryDiff)
        deleted = list(self.deleted(diff))
        assert diff.created == sorted(set(diff.created), key=name_key)
        # A loader stores plain children and references separately.
        names = [self.saved.inodes[number].name for number in diff.message.deletedINode]
        assert names == sorted(set(names), key=name_key)
        assert len(deleted) == len(diff.message.deletedINode) + len(diff.message.deletedINodeRef)
        for name in diff.created:
            known = any(name in self.deleted(other) for other in later)
            assert known or name in self.kept.get(inode_id, {}), f"no inode has the created name {name!r}"

    def _check_references(self) -> None:
        held = [
            number
            for entry in messages(self.saved.sections["INODE_DIR"], forever(pb.DirEntry))
            for number in entry.refChildren
        ]
        for diffs in self.diffs.values():
            for diff in diffs:
                if isinstance(diff.message, pb.DirectoryDiff):
                    held.extend(diff.message.deletedINodeRef)
        assert len(set(held)) == len(held), "one record, one holder"
        assert set(held) == set(range(len(self.references))), "no record without a holder"
        plain = [child for children in self.saved.children.values() for child in children]
        assert len(set(plain)) == len(plain)
        assert not {reference.referredId for reference in self.references} & set(plain)
        present = [r.referredId for r in self.references if r.HasField("dstSnapshotId")]
        assert len(set(present)) == len(present), "an inode has one present place"

    def reachable(self) -> set[int]:
        """Return the ids of inodes that are reachable from the root and all diffs."""
        found: set[int] = set()
        todo = [ROOT]
        while todo:
            inode_id = todo.pop()
            if inode_id not in found:
                found.add(inode_id)
                todo.extend(self.inode_id(holder) for holder in self.kept.get(inode_id, {}).values())
                for diff in self.diffs.get(inode_id, ()):
                    if isinstance(diff.message, pb.DirectoryDiff):
                        todo.extend(self.inode_id(holder) for holder in self.deleted(diff).values())
        return found
