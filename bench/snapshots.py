"""Snapshots in a generated image: a few directories have two each, with files made, changed and deleted since."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.kernels.records import BLOCK_SIZE, CLOCK
from bench.tree import Tree
from image_format.permission import pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_DIRECTORIES = 4
_MOST_CHANGES = 200
_LEAST_FILES = 6
_FIRST_BLOCK = 1 << 28  # far below those of the files that are there
_PERMISSION = pack_permission(1, 200, 0o640)


@dataclass(frozen=True)
class SnapshotSections:
    """Records of SNAPSHOT and SNAPSHOT_DIFF, and of inodes that only snapshots have.

    Attributes:
        directories: numbers of the tree's directories that are snapshottable.
    """

    directories: tuple[int, ...]
    snapshots: tuple[bytes, ...]
    diffs: tuple[bytes, ...]
    deleted: tuple[bytes, ...]


NO_SNAPSHOTS = SnapshotSections((), (encode_delimited(pb.SnapshotSection(snapshotCounter=0, numSnapshots=0)),), (), ())


def build_snapshots(tree: Tree) -> SnapshotSections:
    """Snapshots s1 and s2 of a few directories of one depth, so that none is below another.

    Since each of the two, a tenth of the files were made; as many were deleted, and others got another mode.
    """
    builder = _Builder(tree)
    chosen = choose_directories(tree)
    for number, directory in enumerate(chosen):
        builder.add(directory, first=2 * number)
    header = pb.SnapshotSection(
        snapshotCounter=2 * len(chosen),
        numSnapshots=2 * len(chosen),
        snapshottableDir=[tree.id_at(int(tree.arrays.ranks[directory])) for directory in chosen],
    )
    return SnapshotSections(
        chosen, (encode_delimited(header), *builder.snapshots), tuple(builder.diffs), tuple(builder.deleted)
    )


def choose_directories(tree: Tree) -> tuple[int, ...]:
    """Those with the most files among the directories of the third level, or of the next that has some."""
    counts = np.diff(tree.arrays.ranks) - 1
    for depth in range(3, tree.levels.size - 1):
        level = np.arange(tree.levels[depth], tree.levels[depth + 1])
        level = level[counts[level] >= _LEAST_FILES]
        if level.size:
            return tuple(sorted(level[np.argsort(counts[level], kind="stable")[-_DIRECTORIES:]].tolist()))
    return ()


class _Builder:
    """Gathers records; inodes that only snapshots have get the ids behind all others."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.snapshots: list[bytes] = []
        self.diffs: list[bytes] = []
        self.deleted: list[bytes] = []

    def add(self, directory: int, first: int) -> None:
        """Snapshots `first` and `first` + 1 of a directory."""
        tree = self._tree
        start, end = (int(rank) for rank in tree.arrays.ranks[directory : directory + 2])
        files = end - start - 1
        made = min(_MOST_CHANGES, max(1, files // 10))
        inode_id = tree.id_at(start)
        size = files + int(tree.arrays.first_child[directory + 1] - tree.arrays.first_child[directory])
        entry = pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=inode_id, numOfDiff=2)
        self.diffs.append(encode_delimited(entry))
        # the newest diff comes first; the files made last are the last ones
        for number, snapshot in enumerate((first + 1, first)):
            names = [tree.file_name(directory, files - 1 - number * made - k) for k in range(made)]
            gone = [self._gone(directory, snapshot, k) for k in range(made)]
            size += len(gone) - len(names)
            diff = pb.DirectoryDiff(
                snapshotId=snapshot, childrenSize=size, isSnapshotRoot=True, createdListSize=made, deletedINode=gone
            )
            self.diffs.append(encode_delimited(diff))
            self.diffs += [encode_delimited(pb.CreatedListEntry(name=name)) for name in sorted(names, key=_order)]
        for name, snapshot in ((b"s1", first), (b"s2", first + 1)):
            root = pb.INode(type=pb.INode.DIRECTORY, id=inode_id, name=name)
            root.directory.CopyFrom(_attributes(snapshot))
            self.snapshots.append(encode_delimited(pb.Snapshot(snapshotId=snapshot, root=root)))
        self._changes(directory, first + 1, min(made, files - 2 * made))
        self._file_diffs_of_deleted(first, made)

    def _gone(self, directory: int, snapshot: int, number: int) -> int:
        """The id of a new inode of a file that was deleted after `snapshot`."""
        inode_id = self._tree.id_at(self._tree.inodes + len(self.deleted))
        name = f"deleted-{snapshot:04d}-{number:05d}".encode()
        inode = pb.INode(type=pb.INode.FILE, id=inode_id, name=name)
        inode.file.CopyFrom(_file())
        inode.file.blocks.add(blockId=_FIRST_BLOCK + len(self.deleted), genStamp=1001, numBytes=number + 1)
        inode.file.storagePolicyID = 0
        self.deleted.append(encode_delimited(inode))
        return inode_id

    def _file_diffs_of_deleted(self, first: int, made: int) -> None:
        """A file that is deleted while a snapshot has it gets a diff with its attributes."""
        start = len(self.deleted) - 2 * made
        for number in range(2 * made):
            snapshot, place = first + 1 - number // made, number % made
            name = f"deleted-{snapshot:04d}-{place:05d}".encode()
            inode_id = self._tree.id_at(self._tree.inodes + start + number)
            self._file_diff(inode_id, snapshot, name, place + 1)

    def _changes(self, directory: int, snapshot: int, count: int) -> None:
        """The first files of a directory have other attributes in its snapshot."""
        start = int(self._tree.arrays.ranks[directory])
        for number in range(count):
            name = self._tree.file_name(directory, number)
            self._file_diff(self._tree.id_at(start + 1 + number), snapshot, name, 1)

    def _file_diff(self, inode_id: int, snapshot: int, name: bytes, size: int) -> None:
        self.diffs.append(encode_delimited(pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=inode_id, numOfDiff=1)))
        diff = pb.FileDiff(snapshotId=snapshot, fileSize=size, name=name, snapshotCopy=_file())
        diff.snapshotCopy.storagePolicyID = 0
        self.diffs.append(encode_delimited(diff))


def _order(name: bytes) -> list[int]:
    """Hadoop's name order: bytes compared with their sign."""
    return [byte - 256 if byte > 127 else byte for byte in name]


def _file() -> pb.INodeFile:
    return pb.INodeFile(
        replication=3,
        modificationTime=CLOCK - 1,
        accessTime=CLOCK - 1,
        preferredBlockSize=BLOCK_SIZE,
        permission=_PERMISSION,
    )


def _attributes(snapshot: int) -> pb.INodeDirectory:
    unlimited = (1 << 64) - 1
    return pb.INodeDirectory(
        modificationTime=CLOCK + snapshot, nsQuota=unlimited, dsQuota=unlimited, permission=_PERMISSION
    )
