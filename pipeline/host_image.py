"""An image as every task of a host sees it: mapped, and indexed once by the first task that needs it."""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hadoop_common.inode_ids import ROOT_INODE_ID
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays, load_array
from image_format.reader import ImageFile
from image_tools.dump.values import java_text
from pipeline.errors import SourceFileError
from pipeline.host_index import UNPACKED, build_host_index, map_section, section_file
from pipeline.once import made_once

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.signedinteger]

_FORMAT = 2
"""Of the folder that `build_host_index` fills; part of its name."""
_CACHED_IMAGES = 4


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories that have children now, a row each, by ascending id.

    Attributes:
        ids: inode ids.
        parents: row of the directory that each is in, -1 for the root and for what is in none.
        in_tree: whether the root leads to it; the others have no path.
        bounds: where the path of each starts in `paths`, one more.
        paths: bytes of the paths one after another, without a slash at the end: that of the root has none.
    """

    ids: Ids
    parents: Ids
    in_tree: npt.NDArray[np.bool_]
    bounds: Ids
    paths: Bytes

    def path(self, row: int) -> bytes | None:
        """Path of a row, b"" for the root; None for what is not in the tree."""
        if not self.in_tree[row]:
            return None
        return self.paths[self.bounds[row] : self.bounds[row + 1]].tobytes()


class HostImage:
    """A mapped image with the arrays that its readers need, shared by the processes of a host; use `open`.

    Attributes:
        image: the opened file; its large sections lie unpacked on disk where it is compressed.
        arrays: where the records lie.
        parent_rows: by slot, row in `directories` of the directory an inode is in, -1 for the root and for none.
        directories: see `Directories`.
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
        self.directories = Directories(self.arrays.directory_ids, parents, in_tree, bounds, paths)

    @classmethod
    def open(cls, path: Path, scratch: Path) -> HostImage:
        """The image at `path`; its index is in `scratch`, made there if nobody on this host has yet.

        Its MD5 is compared with the `.md5` file once, where there is one.

        Raises:
            ImageFormatError: its subclasses say what is wrong.
            ImageStorageError: the file cannot be read, or its index not be written.
            SourceFileError: there is no such file.
        """
        return _open(path, scratch, _identity(path))

    @functools.cached_property
    def index(self) -> ImageIndex:
        """The image as edits are replayed onto it."""
        return ImageIndex(self.image, self.arrays)

    @property
    def count(self) -> int:
        """Inodes in the image; their slots are 0 to `count` - 1."""
        return self.arrays.offsets.size

    @functools.cached_property
    def root_slot(self) -> int:
        """Slot of the root directory, -1 where the image has none."""
        return self.slot(ROOT_INODE_ID)

    def slot(self, inode_id: int) -> int:
        """Slot of an inode, -1 where the image has none of that id."""
        return self.arrays.slot(inode_id)

    def in_tree(self, slots: range) -> npt.NDArray[np.bool_]:
        """Which of the inodes are in the current tree, not in snapshots alone."""
        rows = self.parent_rows[slots.start : slots.stop]
        reached = self.directories.in_tree[rows] if self.directories.in_tree.size else np.zeros(rows.size, np.bool_)
        reached &= rows >= 0
        if self.root_slot in slots:
            reached[self.root_slot - slots.start] = True
        return reached

    def path(self, slot: int, name: bytes) -> str | None:
        """Current path of the inode in a slot, which has that name; None for one that is not in the tree."""
        if slot == self.root_slot:
            return "/"
        row = int(self.parent_rows[slot])
        directory = None if row < 0 else self.directories.path(row)
        return None if directory is None else java_text(directory + b"/" + name)


def _identity(path: Path) -> str:
    try:
        at = path.stat()
    except OSError as error:
        raise SourceFileError(f"cannot read {path}: {error}", hint="Give the path of an image.") from error
    text = "\0".join((os.path.realpath(path), str(at.st_size), str(at.st_mtime_ns), str(_FORMAT)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@functools.lru_cache(_CACHED_IMAGES)
def _open(path: Path, scratch: Path, identity: str) -> HostImage:
    image = ImageFile.open(path, verify_md5=False, spool_dir=scratch)
    folder = made_once(scratch, f"image-{identity}", functools.partial(build_host_index, image))
    return HostImage(image, folder)
