"""Unusual namespaces: locations and names of their files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bench.snapshots import NO_SNAPSHOTS, SnapshotBuilder, SnapshotSections, Snapshotted
from hadoop_common.hdfs_constants import ROOT_INODE_ID

_SHORT, _LONG = 5, 200
_MOST_CHANGES = 10

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Distribution of files over directories, and their features.

    Attributes:
        per_directory: files per directory; 0 if all files are in one directory.
        depth: directories above a file.
        name: characters before the digits of a file's name.
        shuffled: whether records are in random order of ids.
        opened: whether every second file is open for writing.
        features: whether every second file has an ACL and an extended attribute.
        snapshots: number of snapshots of each directory with files; after each snapshot, some files were created,
            changed and deleted.
    """

    label: str
    per_directory: int = 1_000
    depth: int = 1
    name: int = _SHORT
    shuffled: bool = False
    opened: bool = False
    features: bool = False
    snapshots: int = 0


PLAIN = Shape("plain", per_directory=50)
"""Default shape for measurements and tests."""

SCATTERED = "scattered"
"""The shape that is also a mix of `python -m bench`, measured on an image of this shape."""

SHAPES = {
    shape.label: shape
    for shape in (
        Shape(SCATTERED),
        Shape("one directory", per_directory=0),
        Shape("small directories", per_directory=10),
        Shape("depth 200", depth=200, per_directory=100_000),
        Shape("long names", name=_LONG),
        Shape("random ids", shuffled=True),
        Shape("open files", opened=True),
        Shape("features", features=True),
        Shape("heavy snapshots", snapshots=10),
    )
}
"""The shapes of `python -m bench.shapes`, by label."""


class Layout:
    """Ids and paths of the inodes of a shape with a given number of files: the root, chains of directories, files.

    Files that exist only in snapshots follow.
    """

    def __init__(self, shape: Shape, files: int) -> None:
        self.shape = shape
        self.files = files
        self.leaves = max(1, files // shape.per_directory) if shape.per_directory else 1
        self.directories = self.leaves * shape.depth
        self.first_file = ROOT_INODE_ID + 1 + self.directories
        # each directory has files that are in no snapshot and files that are in all snapshots
        self.changes = min(_MOST_CHANGES, files // self.leaves // (2 * shape.snapshots)) if shape.snapshots else 0
        self.gone = self.leaves * shape.snapshots * self.changes
        self.last_id = self.first_file + files - 1 + self.gone
        self._prefix = "f" * shape.name
        self._folders = [self._folder(leaf) for leaf in range(self.leaves)]

    def _folder(self, leaf: int) -> str:
        first = leaf * self.shape.depth
        return "".join(f"/d{first + level:08d}" for level in range(self.shape.depth))

    def folder(self, leaf: int) -> str:
        return self._folders[leaf]

    def leaf_id(self, leaf: int) -> int:
        return ROOT_INODE_ID + (leaf + 1) * self.shape.depth

    def bounds(self) -> Ids:
        """Return the number of each leaf's first file, and the end of the last leaf."""
        return np.arange(self.leaves + 1) * self.files // self.leaves

    def path(self, file: int) -> str:
        leaf = min(file * self.leaves // self.files, self.leaves - 1)
        # correct the estimate if `bounds` rounds differently
        while (leaf + 1) * self.files // self.leaves <= file:
            leaf += 1
        return f"{self._folders[leaf]}/{self._prefix}{file:09d}"

    def prefix(self) -> bytes:
        return self._prefix.encode()

    @property
    def inodes(self) -> int:
        """Number of all inodes, including the root and inodes that exist only in snapshots."""
        return 1 + self.directories + self.files + self.gone

    def snapshots(self, permission: int) -> SnapshotSections:
        """Return snapshots of every directory that has files; `permission` is the packed permission of the files."""
        if not self.shape.snapshots:
            return NO_SNAPSHOTS
        builder = SnapshotBuilder(lambda number: self.first_file + self.files + number, permission)
        for leaf, (first, behind) in enumerate(pairwise(self.bounds().tolist())):
            builder.add(self._snapshotted(leaf, first, behind), self.shape.snapshots, self.changes)
        return builder.sections()

    def _snapshotted(self, leaf: int, first: int, behind: int) -> Snapshotted:
        return Snapshotted(
            number=leaf,
            inode_id=self.leaf_id(leaf),
            files=behind - first,
            children=behind - first,
            file_id=lambda number: self.first_file + first + number,
            file_name=lambda number: b"%s%09d" % (self.prefix(), first + number),
        )
