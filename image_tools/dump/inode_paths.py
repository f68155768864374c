"""Paths of inodes and local time zone offsets, as arrays for the kernel that prints records."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.array_allocator import ArrayAllocator
from image_format.index_arrays import IndexArrays
from image_format.reader import ImageFile
from image_tools.directory_paths import chain_directories, place_inodes, write_paths
from image_tools.dump.kernels.program import Paths

_DAY = 86400
_LAST_DAY = 47482
"""The end of the table, 2100-01-01; Python formats later times."""


def inode_paths(image: ImageFile, allocator: ArrayAllocator, arrays: IndexArrays | None = None) -> Paths:
    """Return the paths of all inodes of an image; `allocator` allocates large arrays.

    Args:
        arrays: index arrays of the image, if they are already scanned.

    Raises:
        RecordError: INODE, INODE_DIR or INODE_REFERENCE is damaged.
        ImageStorageError: not enough disk space.
    """
    image.decompress(("INODE", "INODE_DIR", "INODE_REFERENCE"))
    arrays = arrays or IndexArrays.scan(image, allocator)
    parents = place_inodes(image, arrays, allocator)
    chain = chain_directories(image, arrays, parents, allocator)
    paths = allocator.zeros(int(chain.bounds[-1]), np.uint8)
    write_paths(image, chain, paths)
    return Paths(parents, chain.in_tree, chain.bounds, paths, *_local_changes(), arrays.slot(ROOT_INODE_ID))


def path_of(paths: Paths, slot: int, name: bytes) -> bytes:
    """Return the path of the inode in a slot, which must be in the tree; `name` is its local name."""
    if slot == paths.root:
        return b"/"
    row = paths.parents[slot]
    return paths.paths[paths.bounds[row] : paths.bounds[row + 1]].tobytes() + b"/" + name


def _local_changes() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (times of changes of the local offset and end of the table, in seconds; offset after each change)."""
    changes, offsets = [0], [_offset(0)]
    for day in range(1, _LAST_DAY + 1):
        if _offset(day * _DAY) != offsets[-1]:
            before, behind = (day - 1) * _DAY, day * _DAY
            while behind - before > 1:
                middle = (before + behind) // 2
                before, behind = (middle, behind) if _offset(middle) == offsets[-1] else (before, middle)
            changes.append(behind)
            offsets.append(_offset(behind))
    return np.array([*changes, _LAST_DAY * _DAY], np.int64), np.array(offsets, np.int64)


def _offset(seconds: int) -> int:
    return time.localtime(seconds).tm_gmtoff
