"""The current tree as arrays: the parent of each inode, and the path of each directory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index_arrays import IndexArrays
from image_format.inode_columns import read_inode_columns
from image_format.inode_scan import inode_section
from image_format.kernels.directory_tree import directory_lengths, fill_directory_paths, place_children
from image_format.kernels.scan import find_id
from image_format.kernels.tags import DirEntry
from image_format.reader import ImageFile
from image_tools.dump.records import ImageRecords

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.signedinteger]

MAX_PATH_BYTES = 128 << 10
"""Maximum size of a directory's path, in bytes. Clients can use at most 8,000 bytes; only renames of ancestors create
longer paths.
"""

_INT32_MAX = (1 << 31) - 1
_PIECE = 1 << 16


def path_too_long(directory_id: int) -> str:
    """Return the error text for a directory whose path exceeds `MAX_PATH_BYTES` bytes."""
    return f"the path of directory {directory_id} has more than {MAX_PATH_BYTES} bytes"


def place_inodes(image: ImageFile, arrays: IndexArrays, allocator: ArrayAllocator | None = None) -> Rows:
    """Return the row of each inode's current parent in `arrays.directory_ids`, by slot; -1 if the inode has no parent.

    The root has no parent. A reference overrides a plain child, and a later entry overrides an earlier entry. Children
    without a record are skipped.

    Args:
        allocator: allocator of the result.

    Raises:
        RecordError: INODE_DIR or INODE_REFERENCE is damaged.
        ImageStorageError: not enough disk space.
    """
    small = arrays.directory_ids.size <= _INT32_MAX
    allocator = ArrayAllocator() if allocator is None else allocator
    parents: Rows = allocator.zeros(arrays.offsets.size, np.int32 if small else np.int64)
    parents -= 1
    section = image.section("INODE_DIR")
    if section is None:
        return parents
    referred = np.fromiter((each.referredId for each in ImageRecords(image).references()), np.int64)
    rows = np.argsort(arrays.directory_offsets, kind="stable")
    offsets = arrays.directory_offsets[rows]
    for field in (DirEntry.children, DirEntry.refChildren):
        damaged, number = place_children(section, rows, offsets, field, arrays.ids, arrays.slots, referred, parents)
        if damaged >= 0:
            what = f"damaged entry of directory {arrays.directory_ids[rows[damaged]]}"
            if number >= 0:
                what = f"INODE_REFERENCE has no record {number}"
            raise image.place("INODE_DIR").error(RecordError, what, int(offsets[damaged]))
    root = arrays.slot(ROOT_INODE_ID)
    if root >= 0:
        parents[root] = -1
    return parents


@dataclass(frozen=True, slots=True)
class DirectoryChain:
    """The tree of the directories with an entry; its rows are the rows of `IndexArrays.directory_ids`.

    Attributes:
        parents: row of each directory's parent, or -1.
        root: row of the root, -1 if the root has no children.
        in_tree: whether the directory is reachable from the root.
        bounds: start of each path in the concatenation of all paths, and the end; paths have no trailing slash.
        order: the rows, each after its parent.
        name_starts, name_sizes: positions of the local names in INODE.
    """

    parents: Ids
    root: int
    in_tree: npt.NDArray[np.bool_]
    bounds: Ids
    order: Ids
    name_starts: Ids
    name_sizes: Ids


def chain_directories(
    image: ImageFile, arrays: IndexArrays, parents: Rows, allocator: ArrayAllocator | None = None
) -> DirectoryChain:
    """Compute the length of every directory's path.

    Args:
        parents: result of `place_inodes`.
        allocator: allocator of the result.

    Raises:
        RecordError: directories contain each other, a path exceeds `MAX_PATH_BYTES`, or a record is damaged.
        ImageStorageError: not enough disk space.
    """
    allocator = ArrayAllocator() if allocator is None else allocator
    count = arrays.directory_ids.size
    above, starts, sizes, lengths, order = (allocator.zeros(count, np.int64) for _ in range(5))
    for first in range(0, count, _PIECE):
        piece = slice(first, first + _PIECE)
        slots = arrays.slots_of(arrays.directory_ids[piece])
        columns = read_inode_columns(inode_section(image), arrays.offsets.at(slots), image.place("INODE"))
        above[piece], starts[piece], sizes[piece] = parents[slots], columns.name_start, columns.name_size
    root = int(find_id(arrays.directory_ids, ROOT_INODE_ID))
    cyclic = int(directory_lengths(above, sizes, root, lengths, order))
    if cyclic >= 0:
        what = f"directory {arrays.directory_ids[cyclic]} contains itself"
        raise image.place("INODE_DIR").error(RecordError, what, 0)
    if count and lengths.max() > MAX_PATH_BYTES:
        directory_id = int(arrays.directory_ids[int(lengths.argmax())])
        raise image.place("INODE_DIR").error(RecordError, path_too_long(directory_id), 0)
    bounds = allocator.zeros(count + 1, np.int64)
    in_tree = allocator.zeros(count, np.bool_)
    np.greater_equal(lengths, 0, out=in_tree)
    np.maximum(lengths, 0, out=lengths)
    np.cumsum(lengths, out=bounds[1:])
    return DirectoryChain(above, root, in_tree, bounds, order, starts, sizes)


def write_paths(image: ImageFile, chain: DirectoryChain, paths: Bytes) -> None:
    """Fill `paths`, an array of `chain.bounds[-1]` bytes, with the directories' paths."""
    fill_directory_paths(
        inode_section(image),
        chain.parents,
        chain.name_starts,
        chain.name_sizes,
        chain.root,
        chain.order,
        chain.bounds,
        paths,
    )
