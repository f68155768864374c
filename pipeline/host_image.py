"""An image that the tasks of a host share: memory-mapped, and indexed once by the first task that needs it."""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays, load_array
from image_format.reader import ImageFile
from image_tools.dump.values import java_text
from pipeline.errors import SourceFileError
from pipeline.host_index import UNPACKED, build_host_index, map_section, section_file
from pipeline.once import create_once

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.signedinteger]

_FORMAT = 2
"""Format of the folder that `build_host_index` fills; part of the folder's name."""
_CACHED_IMAGES = 4


@dataclass(frozen=True, slots=True)
class DirectoryPaths:
    """Directories with current children, one row each, by ascending id.

    Attributes:
        ids: inode ids.
        parents: row of each directory's parent, -1 for the root and for a directory without a parent.
        in_tree: whether the directory is reachable from the root; other directories have no path.
        bounds: start of each path in `paths`, then the end of the last.
        paths: bytes of all paths, concatenated, without a trailing slash; the root's path is empty.
    """

    ids: Ids
    parents: Ids
    in_tree: npt.NDArray[np.bool_]
    bounds: Ids
    paths: Bytes

    def path(self, row: int) -> bytes | None:
        """Return the path of a row, b"" for the root; None for a directory outside the tree."""
        if not self.in_tree[row]:
            return None
        return self.paths[self.bounds[row] : self.bounds[row + 1]].tobytes()


class HostImage:
    """A memory-mapped image with the arrays that its readers need, shared by the processes of a host; created by
    `open`.

    Attributes:
        image: the open file; if it is compressed, its large sections are decompressed on disk.
        arrays: positions of the records.
        parent_rows: by slot, row in `directories` of an inode's parent; -1 for the root and for an inode without a
            parent.
        directories: see `DirectoryPaths`.
    """

    def __init__(self, image: ImageFile, folder: Path) -> None:
        self.image = image
        if image.codec:
            for name in UNPACKED:
                if image.has_section(name):
                    image.use_unpacked(name, map_section(section_file(folder, name)))
        self.arrays = IndexArrays.load(folder)
        self.parent_rows: Rows = load_array(folder, "parent_rows")
        parents, in_tree, bounds, paths = (
            load_array(folder, name) for name in ("parents", "in_tree", "bounds", "paths")
        )
        self.directories = DirectoryPaths(self.arrays.directory_ids, parents, in_tree, bounds, paths)

    @classmethod
    def open(cls, path: Path, scratch: Path) -> HostImage:
        """Open the image at `path`; build its index in `scratch` unless another process of this host already did.

        The process that builds the index compares the image's MD5 with the `.md5` file, if one exists.

        Raises:
            ImageFormatError: the image is damaged, see the subclasses.
            ImageStorageError: the file cannot be read, or its index cannot be written.
            SourceFileError: the file does not exist.
        """
        return _open(path, scratch, _identity(path))

    @functools.cached_property
    def index(self) -> ImageIndex:
        """The index that replay uses."""
        return ImageIndex(self.image, self.arrays)

    @property
    def count(self) -> int:
        """Number of inodes in the image; their slots are 0 to `count` - 1."""
        return self.arrays.offsets.size

    @functools.cached_property
    def root_slot(self) -> int:
        """Slot of the root directory, -1 if the image has none."""
        return self.slot(ROOT_INODE_ID)

    def slot(self, inode_id: int) -> int:
        """Return the slot of an inode, -1 if the image does not contain the id."""
        return self.arrays.slot(inode_id)

    def in_tree(self, slots: range) -> npt.NDArray[np.bool_]:
        """Return which inodes are in the current tree and not only in snapshots."""
        rows = self.parent_rows[slots.start : slots.stop]
        reached = self.directories.in_tree[rows] if self.directories.in_tree.size else np.zeros(rows.size, np.bool_)
        reached &= rows >= 0
        if self.root_slot in slots:
            reached[self.root_slot - slots.start] = True
        return reached

    def path(self, slot: int, name: bytes) -> str | None:
        """Return the current path of the inode `name` in a slot; None for an inode outside the tree."""
        if slot == self.root_slot:
            return "/"
        row = int(self.parent_rows[slot])
        directory = None if row < 0 else self.directories.path(row)
        return None if directory is None else java_text(directory + b"/" + name)


def _identity(path: Path) -> str:
    try:
        at = path.stat()
    except OSError as error:
        raise SourceFileError(f"cannot read {path}: {error}", hint="Check the path of the image.") from error
    text = "\0".join((os.path.realpath(path), str(at.st_size), str(at.st_mtime_ns), str(_FORMAT)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@functools.lru_cache(_CACHED_IMAGES)
def _open(path: Path, scratch: Path, identity: str) -> HostImage:
    image = ImageFile.open(path, verify_md5=False, spool_dir=scratch)
    folder = create_once(scratch, f"image-{identity}", functools.partial(build_host_index, image))
    return HostImage(image, folder)
