"""Sums below each directory of an image, in one pass over INODE and one over the directories from the leaves up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator
from image_format.index import ImageIndex
from image_format.inode_columns import read_inode_columns
from image_format.kernels.directory_tree import add_upwards
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.kernels.scan import find_ids
from image_format.policies import ErasurePolicy
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record
from image_tools.directory_paths import chain_directories, place_inodes
from image_tools.namespace_browser import NO_TOTALS, SubtreeTotals, leaf_totals, space_consumed

_BATCH = 1 << 16
_COUNTS = len(NO_TOTALS)

Ids = npt.NDArray[np.int64]
_NO_IDS: Ids = np.zeros(0, np.int64)
Numbers = npt.NDArray[np.int64]


class DirectorySums(NamedTuple):
    """Sums below the directories with children: 33 bytes a directory.

    Attributes:
        ids: of these directories, ascending.
        totals: `SubtreeTotals` of the descendants, without the directory itself; one row each.
        is_known: whether the sums hold, see `marked` of `directory_sums`.
    """

    ids: Ids
    totals: Numbers
    is_known: npt.NDArray[np.bool_]

    def below(self, ids: Ids) -> tuple[SubtreeTotals, list[int]]:
        """Return the sum of what is below some directories, and the directories whose sums are not known."""
        rows = find_ids(self.ids, ids)
        with_children = rows >= 0
        known = with_children.copy()
        known[with_children] = self.is_known[rows[with_children]]
        summed = self.totals[rows[known]].sum(axis=0, dtype=np.int64).tolist()
        return SubtreeTotals(*summed), ids[with_children & ~known].tolist()


def directory_sums(
    image: ImageFile,
    index: ImageIndex,
    policies: Mapping[int, ErasurePolicy],
    allocator: ArrayAllocator,
    *,
    opened: Ids = _NO_IDS,
    marked: Ids = _NO_IDS,
) -> DirectorySums:
    """Compute the sums below each directory of an image.

    Args:
        policies: erasure coding policies by id.
        allocator: for the result, and for the tree of the image while it is computed.
        opened: ids of the open files, whose last block takes its full size.
        marked: ids of inodes that make the sums of all directories above them, and their own, unknown.

    Raises:
        RecordError: a record is damaged.
        ImageStorageError: not enough disk space.
    """
    arrays, place = index.arrays, image.place("INODE")
    parents = place_inodes(image, arrays, allocator)
    totals: Numbers = allocator.zeros((arrays.directory_ids.size, _COUNTS), np.int64)
    for first in range(0, parents.size, _BATCH):
        columns = read_inode_columns(index.inode_buffer, arrays.offsets.part(first, first + _BATCH), place)
        rows = parents[first : first + _BATCH]
        placed = rows >= 0
        space = space_consumed(policies, columns.length, columns.replication, columns.ec_policy)
        is_directory = columns.kind == DIRECTORY
        for number, values in enumerate((~is_directory, is_directory, columns.length, space)):
            sized = values if number < 2 else np.where(columns.kind == FILE, values, 0)
            np.add.at(totals[:, number], rows[placed], sized[placed])
    for inode_id in opened.tolist():
        slot = arrays.slot(inode_id)
        if slot >= 0 and parents[slot] >= 0:
            inode = parse_message(
                pb.INode, read_record(index.inode_buffer.data, index.inode_offset(slot), place), place
            )
            whole = leaf_totals(inode, policies).space
            inode.file.ClearField("fileUC")
            totals[parents[slot], -1] += whole - leaf_totals(inode, policies).space
    chain = chain_directories(image, arrays, parents, allocator)
    add_upwards(chain.parents, chain.order, totals)
    marks = np.zeros((arrays.directory_ids.size, 1), np.int64)
    if marked.size:
        slots = arrays.slots_of(marked)
        for rows in (find_ids(arrays.directory_ids, marked), parents[slots[slots >= 0]]):
            np.add.at(marks[:, 0], rows[rows >= 0], 1)
        add_upwards(chain.parents, chain.order, marks)
    return DirectorySums(arrays.directory_ids, totals, marks[:, 0] == 0)
