"""Computes the sums below each directory of an image in two passes: over INODE, then from the leaves to the root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator
from image_format.erasure_policies import ErasurePolicy
from image_format.errors import BufferOrigin, RecordError
from image_format.index import ImageIndex
from image_format.kernels.directory_tree import add_upwards
from image_format.kernels.scan import find_ids
from image_format.reader import ImageFile
from image_tools.directory_paths import Rows, chain_directories, place_inodes
from image_tools.kernels.leaves import add_leaves, read_leaves
from image_tools.namespace_browser import NO_TOTALS

_BATCH = 1 << 16
_COUNTS = len(NO_TOTALS)
_POLICY_IDS = 256

Ids = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_NO_IDS: Ids = np.zeros(0, np.int64)
Numbers = npt.NDArray[np.int64]


class DirectorySums(NamedTuple):
    """Sums below each directory with children, in one row of 40 bytes per directory.

    Attributes:
        ids: ids of these directories, ascending.
        totals: `SubtreeTotals` of the descendants, without the directory itself.
        marks: number of marked inodes below the directory, including the directory.
        above: row of the directory that contains the directory, or -1.
    """

    ids: Ids
    totals: Numbers
    marks: npt.NDArray[np.int32]
    above: Rows


def directory_sums(
    image: ImageFile,
    index: ImageIndex,
    policies: Mapping[int, ErasurePolicy],
    allocator: ArrayAllocator,
    *,
    marked: Ids = _NO_IDS,
) -> DirectorySums:
    """Compute the sums below each directory of an image.

    Args:
        policies: erasure coding policies by id.
        allocator: allocator of the result, and of the image's tree during the computation.
        marked: distinct ids of inodes.

    Raises:
        RecordError: a record is damaged.
        ImageStorageError: not enough disk space.
    """
    arrays, place = index.arrays, image.place("INODE")
    parents = place_inodes(image, arrays, allocator)
    units = policy_units(policies)
    totals: Numbers = allocator.zeros((arrays.directory_ids.size, _COUNTS), np.int64)
    for first in range(0, parents.size, _BATCH):
        offsets = arrays.offsets.part(first, first + _BATCH)
        damaged = add_leaves(index.inode_buffer, offsets, units, parents[first : first + _BATCH], totals)
        _check_record(damaged, offsets, place)
    chain = chain_directories(image, arrays, parents, allocator)
    add_upwards(chain.parents, chain.order, totals)
    marks: npt.NDArray[np.int32] = allocator.zeros((arrays.directory_ids.size, 1), np.int32)
    if marked.size:
        rows, slots = find_ids(arrays.directory_ids, marked), arrays.slots_of(marked)
        rows = np.where(rows >= 0, rows, np.where(slots >= 0, parents[slots], -1))
        np.add.at(marks[:, 0], rows[rows >= 0], 1)
        add_upwards(chain.parents, chain.order, marks)
    above: Rows = allocator.zeros(arrays.directory_ids.size, parents.dtype)
    above[:] = chain.parents
    return DirectorySums(arrays.directory_ids, totals, marks[:, 0], above)


def policy_units(policies: Mapping[int, ErasurePolicy]) -> Numbers:
    """Return erasure coding policies as kernels read them: data units, parity units and cell size by id.

    A damaged policy, whose cells have no bytes, is ignored.
    """
    units = np.zeros((_POLICY_IDS, 3), np.int64)
    for number, policy in policies.items():
        if policy.cell_size <= 0 or policy.data_units <= 0:
            continue
        # a file stores its policy in one byte
        units[number & 0xFF] = policy.data_units, policy.parity_units, policy.cell_size
    return units


def leaves_at(buffer: Bytes, offsets: Ids, units: Numbers, place: BufferOrigin) -> Numbers:
    """Return a row of (kind, length, space) for each INode at `offsets`.

    Args:
        units: result of `policy_units`.

    Raises:
        RecordError: a record is damaged.
    """
    found: Numbers = np.empty((offsets.size, 3), np.int64)
    _check_record(read_leaves(buffer, offsets, units, found), offsets, place)
    return found


def _check_record(damaged: int, offsets: Ids, place: BufferOrigin) -> None:
    if damaged >= 0:
        raise place.error(RecordError, "no inode record", int(offsets[damaged]))
