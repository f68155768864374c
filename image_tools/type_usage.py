"""Space below each directory of an image by storage type, which storage type quotas limit.

A file counts only if it has or inherits a storage policy. Its length then counts for each replica in a storage type
(INodeFile.computeContentSummary).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hadoop_common.java_numbers import signed64
from hadoop_common.storage_policies import STORAGE_POLICIES, storage_policy
from image_format.array_allocator import ArrayAllocator
from image_format.index import ImageIndex
from image_format.inode_columns import InodeColumns, read_inode_columns
from image_format.kernels.directory_tree import add_upwards
from image_format.kernels.inode import FILE
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record
from image_tools.directory_paths import Rows, chain_directories, place_inodes
from image_tools.dump.values import SerialNames, own_policies, reported_replication

LIMITED_TYPES = tuple(sorted({name for each in STORAGE_POLICIES for name in each.lasting}))
"""Storage types that can have a quota."""
_BATCH = 1 << 16

Numbers = npt.NDArray[np.int64]


def type_usage(image: ImageFile, index: ImageIndex, names: SerialNames, allocator: ArrayAllocator) -> Numbers:
    """Return the bytes below each directory with children.

    The result has a row for each id in `directory_ids` and a column for each of `LIMITED_TYPES`.

    Raises:
        RecordError: a record is damaged.
        ImageStorageError: not enough disk space.
    """
    arrays = index.arrays
    parents = place_inodes(image, arrays, allocator)
    chain = chain_directories(image, arrays, parents, allocator)
    policies = _inherited(_directory_policies(index, names), chain.parents)
    usage: Numbers = allocator.zeros((arrays.directory_ids.size, len(LIMITED_TYPES)), np.int64)
    for first in range(0, parents.size, _BATCH):
        offsets = arrays.offsets.part(first, first + _BATCH)
        columns = read_inode_columns(index.inode_buffer, offsets, index.place("INODE"))
        _add_files(columns, parents[first : first + _BATCH], policies, usage)
    add_upwards(chain.parents, chain.order, usage)
    return usage


def file_usage(file: pb.INodeFile, policy: int) -> Numbers:
    """Return the bytes of a file with an effective storage policy, for each of `LIMITED_TYPES`."""
    return sum(signed64(block.numBytes) for block in file.blocks) * _replicas(policy, reported_replication(file))


def _replicas(policy: int, replication: int) -> Numbers:
    """Return the number of replicas in each of `LIMITED_TYPES`; zeros for an unknown policy."""
    known = storage_policy(policy)
    counts = {} if known is None else known.replicas_by_type(replication)
    return np.array([counts.get(name, 0) for name in LIMITED_TYPES], np.int64)


def _directory_policies(index: ImageIndex, names: SerialNames) -> Numbers:
    """Return the storage policy set on each directory with children, by row; 0 if none is set."""
    arrays, place = index.arrays, index.place("INODE")
    policies: Numbers = np.zeros(arrays.directory_ids.size, np.int64)
    for first in range(0, policies.size, _BATCH):
        offsets = arrays.offsets.at(arrays.slots_of(arrays.directory_ids[first : first + _BATCH]))
        columns = read_inode_columns(index.inode_buffer, offsets, place)
        for number in np.flatnonzero(columns.has_xattrs).tolist():
            record = read_record(index.inode_buffer.data, int(offsets[number]), place)
            policies[first + number], _ = own_policies(parse_message(pb.INode, record, place).directory, names)
    return policies


def _inherited(policies: Numbers, parents: Numbers) -> Numbers:
    """Return the effective policies of directories from their set policies and the rows of their parents."""
    above = parents.copy()
    while (above >= 0).any():
        # each step doubles the number of considered ancestors
        known = above >= 0
        policies = np.where((policies == 0) & known, policies[above], policies)
        above = np.where(known, above[above], -1)
    return policies


def _add_files(columns: InodeColumns, parents: Rows, policies: Numbers, usage: Numbers) -> None:
    """Add files to the rows of their parents."""
    inherited = np.where(parents >= 0, policies[parents], 0)
    effective = np.where(columns.storage_policy > 0, columns.storage_policy, inherited)
    replication = np.where(columns.ec_policy >= 0, 1, columns.replication)
    counted = (columns.kind == FILE) & (parents >= 0) & (effective > 0)
    kinds = np.stack([effective, replication])
    for policy, copies in np.unique(kinds[:, counted], axis=1).T.tolist():
        same = counted & (effective == policy) & (replication == copies)
        np.add.at(usage, parents[same], columns.length[same, None] * _replicas(policy, copies))
