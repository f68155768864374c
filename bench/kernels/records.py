"""Rows of INODE, and INODE_DIR, of a generated namespace, written without Python objects for inodes."""

from __future__ import annotations

import numpy as np

from bench.kernels.hashing import below, mixed, share
from bench.kernels.names import NAME_ROOM, put_directory_name, put_file_name
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.scan import compare_names
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import put_varint, varint_size

CLOCK = 1_700_000_000_000
"""Newest modification time, ms since the epoch."""
BLOCK_SIZE = 128 << 20
FIRST_BLOCK = 1 << 30
MOST_BLOCKS = 3
OPEN, ACL, XATTR = 1, 2, 4
"""Features that few inodes have: a file that is open for writing, an ACL, an xattr."""
_GAP = 8  # the same value as in bench.tree
_DAY = 86_400_000
_YEARS = 4 * 365 * _DAY
_OPEN, _DIRECTORY, _FILE, _SIZE, _TIMES = 1, 3, 4, 5, 6
_OPEN_EVERY, _ACL_EVERY, _XATTR_EVERY, _QUOTA_EVERY = 9973, 512, 1024, 8
_EMPTY_EVERY = 40


@lean_kernel
def _inode_id(rank):
    return ROOT_INODE_ID + rank + rank // _GAP


@lean_kernel
def _varint_field(out, pos, tag, value):
    out[pos] = tag
    return put_varint(out, pos + 1, value)


@kernel
def _permission(tree, directory, mode):
    owner = np.int64(tree.owners[directory])
    users, groups = tree.counts[3], tree.counts[4]
    return (owner + 1) << 40 | (users + 1 + owner % groups) << 16 | mode


@kernel
def _fill_directory(row, tree, directory):
    """Fill the row of a directory; return its features."""
    bits = mixed(tree.counts[0], directory, _DIRECTORY)
    row["kind"] = DIRECTORY
    row["mtime"] = CLOCK - np.int64(_YEARS * share(mixed(tree.counts[0], directory, _TIMES)) ** 2)
    row["ns_quota"] = row["ds_quota"] = -1
    if directory == 0:
        row["ns_quota"] = 0x7FFFFFFFFFFFFFFF
    elif tree.depths[directory] in (2, 3) and below(bits >> np.uint64(8), _QUOTA_EVERY) == 0:
        row["ns_quota"] = np.int64(1) << 40
        row["ds_quota"] = np.int64(1) << 60
    features = 0
    if directory > 0 and below(bits >> np.uint64(16), _ACL_EVERY) == 0:
        features |= ACL
    if directory > 0 and below(bits >> np.uint64(28), _XATTR_EVERY) == 0:
        features |= XATTR
    kind = below(bits, 10)
    mode = np.int64(0o755)
    if features & ACL or kind == 0:
        mode = np.int64(0o775)
    elif kind == 1:
        mode = np.int64(0o700)
    elif kind == 2:
        mode = np.int64(0o1777)
    row["permission"] = _permission(tree, directory, mode)
    return features


@kernel
def _fill_blocks(blocks, used, tree, rank, block_size, opened):
    """Add one to three blocks, rarely none; the last block of an open file is empty. Return the blocks used."""
    bits = mixed(tree.counts[0], rank, _SIZE)
    kind = below(bits, 20)
    count = 1 if kind < 14 else 2 if kind < 17 else 3
    if not opened and below(bits >> np.uint64(8), _EMPTY_EVERY) == 0:
        count = 0
    for k in range(count):
        block = blocks[used + k]
        block["id"] = FIRST_BLOCK + 4 * rank + k
        block["genstamp"] = 1001 + 2 * rank + k
        block["num_bytes"] = block_size
        if k == count - 1:
            # most files are small
            small = 1 + np.int64(block_size * share(mixed(tree.counts[0], rank, _SIZE + 8)) ** 4)
            block["num_bytes"] = 0 if opened else small
    return used + count


@kernel
def _fill_file(row, blocks, used, tree, directory, rank):
    """Fill the row of a file and its blocks; return (its features, blocks used)."""
    seed = tree.counts[0]
    bits = mixed(seed, rank, _FILE)
    times = mixed(seed, rank, _TIMES)
    kind = below(bits, 100)
    row["kind"] = FILE
    row["replication"] = 3 if kind < 90 else 2 if kind < 95 else 1 if kind < 99 else 10
    age = np.int64(_YEARS * share(mixed(seed, directory, _TIMES)) ** 2) + below(times, 180 * _DAY)
    mtime = CLOCK - age
    row["mtime"] = mtime
    # half of all files were never read after they were written
    row["atime"] = mtime if times >> np.uint64(63) else mtime + below(times >> np.uint64(4), 180 * _DAY)
    block_size = np.int64(BLOCK_SIZE << 1 if kind == 50 else BLOCK_SIZE)
    row["block_size"] = block_size
    features = 0
    if below(mixed(seed, rank, _OPEN), _OPEN_EVERY) == 0:
        features |= OPEN
    if below(bits >> np.uint64(16), _ACL_EVERY) == 0:
        features |= ACL
    if below(bits >> np.uint64(28), _XATTR_EVERY) == 0:
        features |= XATTR
    kind = below(bits >> np.uint64(8), 20)
    mode = np.int64(0o644)
    if features & ACL or kind < 2:
        mode = np.int64(0o664)
    elif kind < 5:
        mode = np.int64(0o640)
    elif kind == 5:
        mode = np.int64(0o600)
    row["permission"] = _permission(tree, directory, mode)
    row["policy"] = 7 if below(bits >> np.uint64(40), 200) == 0 else 0
    row["ec_policy"] = -1
    row["blocks_offset"] = used
    used = _fill_blocks(blocks, used, tree, rank, block_size, features & OPEN)
    row["block_count"] = used - row["blocks_offset"]
    return features, used


@kernel
def fill_rows(tree, first, end, directory, rows, names, blocks, features):
    """Fill the rows of the inodes at positions `first` to `end` - 1.

    Args:
        directory: directory at which the search for the parent of `first` starts: the result of the previous call.
        rows, features: results, by position; `names`: NAME_ROOM bytes per row; `blocks`: MOST_BLOCKS per row.

    Returns:
        Directory of the last position.
    """
    names_used = blocks_used = 0
    for rank in range(first, end):
        while rank >= tree.ranks[directory + 1]:
            directory += 1
        row, number = rows[rank - first], rank - tree.ranks[directory] - 1
        row["id"] = _inode_id(rank)
        row["name_offset"] = names_used
        if number < 0:
            names_used = put_directory_name(names, names_used, tree, directory)
            features[rank - first] = _fill_directory(row, tree, directory)
        else:
            names_used = put_file_name(names, names_used, tree, directory, number)
            features[rank - first], blocks_used = _fill_file(row, blocks, blocks_used, tree, directory, rank)
        row["name_length"] = names_used - row["name_offset"]
    return directory


@kernel
def _merged_children(tree, directory, children):
    """Fill `children` with the ids of a directory's children, ordered by name; return their number."""
    child, last_child = np.int64(tree.first_child[directory]), np.int64(tree.first_child[directory + 1])
    rank, last_rank = tree.ranks[directory] + 1, tree.ranks[directory + 1]
    above, beside = np.empty(NAME_ROOM, np.uint8), np.empty(NAME_ROOM, np.uint8)
    count = 0
    while child < last_child or rank < last_rank:
        is_directory = rank == last_rank
        if child < last_child and rank < last_rank:
            size = put_directory_name(above, 0, tree, child)
            other = put_file_name(beside, 0, tree, directory, rank - tree.ranks[directory] - 1)
            is_directory = compare_names(above, 0, size, beside, 0, other) < 0
        if is_directory:
            children[count] = _inode_id(tree.ranks[child])
            child += 1
        else:
            children[count] = _inode_id(rank)
            rank += 1
        count += 1
    return count


@kernel
def directory_entries(tree, first, end, children, out):
    """Write the DirEntry records of the directories `first` to `end` - 1, except the records of empty directories.

    Args:
        children: space for the children of the largest directory; out: 10 bytes for each child, 30 for each directory.

    Returns:
        Bytes written.
    """
    pos = 0
    for directory in range(first, end):
        count = _merged_children(tree, directory, children)
        if count == 0:
            continue
        packed = 0
        for k in range(count):
            packed += varint_size(children[k])
        parent = _inode_id(tree.ranks[directory])
        pos = put_varint(out, pos, 2 + varint_size(parent) + varint_size(packed) + packed)
        pos = _varint_field(out, pos, DirEntry.parent, parent)
        pos = _varint_field(out, pos, DirEntry.children, packed)
        for k in range(count):
            pos = put_varint(out, pos, children[k])
    return pos
