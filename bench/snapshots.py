"""Snapshots of some directories of a generated image, and files that were created, changed and deleted afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.kernels.records import BLOCK_SIZE, CLOCK
from bench.tree import Tree
from image_format.name_order import name_key
from image_format.permission import pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_DIRECTORIES = 4
_SNAPSHOTS = 2
_MOST_CHANGES = 200
_LEAST_FILES = 6
_FIRST_BLOCK = 1 << 28  # far below the block ids of the existing files
_PERMISSION = pack_permission(1, 200, 0o640)


@dataclass(frozen=True)
class SnapshotSections:
    """Records of SNAPSHOT and SNAPSHOT_DIFF, and of inodes that exist only in snapshots.

    Attributes:
        directories: numbers of the tree's directories that are snapshottable.
    """

    directories: tuple[int, ...]
    snapshots: tuple[bytes, ...]
    diffs: tuple[bytes, ...]
    deleted: tuple[bytes, ...]


NO_SNAPSHOTS = SnapshotSections((), (encode_delimited(pb.SnapshotSection(snapshotCounter=0, numSnapshots=0)),), (), ())


@dataclass(frozen=True)
class Snapshotted:
    """A directory of an image that receives snapshots.

    Attributes:
        number: number of the directory, see `SnapshotSections.directories`.
        files: number of its files; children: its files and sub-directories. file_id, file_name: return the id and the
            name of its file with a given number; higher numbers are newer files.
    """

    number: int
    inode_id: int
    files: int
    children: int
    file_id: Callable[[int], int]
    file_name: Callable[[int], bytes]


def build_snapshots(tree: Tree) -> SnapshotSections:
    """Create snapshots s1 and s2 of a few directories of one depth, so that none is below another.

    After each of the two snapshots, a tenth of the files were created, as many were deleted, and the mode of others was
    changed.
    """
    builder = SnapshotBuilder(lambda number: tree.id_at(tree.inodes + number), _PERMISSION)
    for directory in choose_directories(tree):
        place = _in_tree(tree, directory)
        builder.add(place, _SNAPSHOTS, min(_MOST_CHANGES, max(1, place.files // 10)))
    return builder.sections()


def choose_directories(tree: Tree) -> tuple[int, ...]:
    """Return the directories of the third level with the most files, or the next level's directories with files."""
    counts = np.diff(tree.arrays.ranks) - 1
    for depth in range(3, tree.levels.size - 1):
        level = np.arange(tree.levels[depth], tree.levels[depth + 1])
        level = level[counts[level] >= _LEAST_FILES]
        if level.size:
            return tuple(sorted(level[np.argsort(counts[level], kind="stable")[-_DIRECTORIES:]].tolist()))
    return ()


def _in_tree(tree: Tree, directory: int) -> Snapshotted:
    start, end = (int(rank) for rank in tree.arrays.ranks[directory : directory + 2])
    below = int(tree.arrays.first_child[directory + 1] - tree.arrays.first_child[directory])
    return Snapshotted(
        number=directory,
        inode_id=tree.id_at(start),
        files=end - start - 1,
        children=end - start - 1 + below,
        file_id=lambda number: tree.id_at(start + 1 + number),
        file_name=lambda number: tree.file_name(directory, number),
    )


class SnapshotBuilder:
    """Collector of the records of directories that do not contain each other.

    Args:
        gone_id: returns, by number, the id of an inode that exists only in snapshots; these ids are greater than all
            other ids.
        permission: packed permission of all inodes in snapshots.
    """

    def __init__(self, gone_id: Callable[[int], int], permission: int) -> None:
        self._gone_id = gone_id
        self._permission = permission
        self._directories: list[Snapshotted] = []
        self._snapshots: list[bytes] = []
        self._diffs: list[bytes] = []
        self._deleted: list[bytes] = []

    def add(self, directory: Snapshotted, snapshots: int, changes: int) -> None:
        """Add a directory with snapshots s1, s2 ...; after each, `changes` files were created and as many deleted.

        After the last snapshot, the mode of up to `changes` of the other files was changed. The created files do not
        exceed the files of the directory.
        """
        first = len(self._snapshots)
        self._directories.append(directory)
        size = directory.children
        entry = pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=directory.inode_id, numOfDiff=snapshots)
        self._diffs.append(encode_delimited(entry))
        start = len(self._deleted)
        # the newest diff is first; the newest files have the highest numbers
        for number in range(snapshots):
            snapshot = first + snapshots - 1 - number
            names = [directory.file_name(directory.files - 1 - number * changes - k) for k in range(changes)]
            gone = [self._gone(snapshot, k) for k in range(changes)]
            size += len(gone) - len(names)
            diff = pb.DirectoryDiff(
                snapshotId=snapshot, childrenSize=size, isSnapshotRoot=True, createdListSize=changes, deletedINode=gone
            )
            self._diffs.append(encode_delimited(diff))
            self._diffs += [encode_delimited(pb.CreatedListEntry(name=name)) for name in sorted(names, key=name_key)]
        for snapshot in range(first, first + snapshots):
            # names of equal length are in order
            name = f"s{snapshot - first + 1:0{len(str(snapshots))}d}".encode()
            root = pb.INode(type=pb.INode.DIRECTORY, id=directory.inode_id, name=name)
            root.directory.CopyFrom(self._attributes(snapshot))
            self._snapshots.append(encode_delimited(pb.Snapshot(snapshotId=snapshot, root=root)))
        newest = first + snapshots - 1
        for number in range(min(changes, directory.files - snapshots * changes)):
            self._file_diff(directory.file_id(number), newest, directory.file_name(number), 1)
        # a file that is deleted while a snapshot contains it receives a diff with its attributes
        for number in range(snapshots * changes):
            snapshot, place = newest - number // changes, number % changes
            self._file_diff(self._gone_id(start + number), snapshot, _gone_name(snapshot, place), place + 1)

    def sections(self) -> SnapshotSections:
        """Return all records that were added."""
        header = pb.SnapshotSection(
            snapshotCounter=len(self._snapshots),
            numSnapshots=len(self._snapshots),
            snapshottableDir=[directory.inode_id for directory in self._directories],
        )
        return SnapshotSections(
            tuple(directory.number for directory in self._directories),
            (encode_delimited(header), *self._snapshots),
            tuple(self._diffs),
            tuple(self._deleted),
        )

    def _gone(self, snapshot: int, number: int) -> int:
        """Add an inode for a file that was deleted after `snapshot`; return its id."""
        inode_id = self._gone_id(len(self._deleted))
        inode = pb.INode(type=pb.INode.FILE, id=inode_id, name=_gone_name(snapshot, number))
        inode.file.CopyFrom(self._file())
        inode.file.blocks.add(blockId=_FIRST_BLOCK + len(self._deleted), genStamp=1001, numBytes=number + 1)
        inode.file.storagePolicyID = 0
        self._deleted.append(encode_delimited(inode))
        return inode_id

    def _file_diff(self, inode_id: int, snapshot: int, name: bytes, size: int) -> None:
        self._diffs.append(encode_delimited(pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=inode_id, numOfDiff=1)))
        diff = pb.FileDiff(snapshotId=snapshot, fileSize=size, name=name, snapshotCopy=self._file())
        diff.snapshotCopy.storagePolicyID = 0
        self._diffs.append(encode_delimited(diff))

    def _file(self) -> pb.INodeFile:
        return pb.INodeFile(
            replication=3,
            modificationTime=CLOCK - 1,
            accessTime=CLOCK - 1,
            preferredBlockSize=BLOCK_SIZE,
            permission=self._permission,
        )

    def _attributes(self, snapshot: int) -> pb.INodeDirectory:
        unlimited = (1 << 64) - 1
        return pb.INodeDirectory(
            modificationTime=CLOCK + snapshot, nsQuota=unlimited, dsQuota=unlimited, permission=self._permission
        )


def _gone_name(snapshot: int, number: int) -> bytes:
    return f"deleted-{snapshot:04d}-{number:05d}".encode()
