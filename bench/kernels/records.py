"""INODE and INODE_DIR of a generated namespace, written without Python objects for inodes."""

from __future__ import annotations

import numpy as np

from bench.kernels.hashing import below, mixed, share
from bench.kernels.names import NAME_ROOM, put_decimal, put_directory_name, put_file_name
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.scan import compare_names
from image_format.kernels.tags import (
    AclFeatureProto,
    BlockProto,
    DirEntry,
    FileUnderConstructionFeature,
    INode,
    INodeDirectory,
    INodeFile,
    XAttrCompactProto,
    XAttrFeatureProto,
)
from image_format.kernels.wire import copy_bytes, put_varint, varint_size

CLOCK = 1_700_000_000_000
"""Newest modification time, ms since the epoch."""
BLOCK_SIZE = 128 << 20
FIRST_BLOCK = 1 << 30
RECORD_ROOM = 1024
"""Maximum number of bytes of a record."""
_BODY_ROOM = 700
_GAP = 8  # the same value as in bench.tree
_DAY = 86_400_000
_YEARS = 4 * 365 * _DAY
_OPEN, _OPEN_CLIENT, _DIRECTORY, _FILE, _SIZE, _TIMES = 1, 2, 3, 4, 5, 6
_OPEN_EVERY, _ACL_EVERY, _XATTR_EVERY, _QUOTA_EVERY = 9973, 512, 1024, 8
_EMPTY_EVERY = 40
_CLIENTS = 400


@lean_kernel
def _inode_id(rank):
    return ROOT_INODE_ID + rank + rank // _GAP


@lean_kernel
def is_open(seed, rank):
    """Return whether the file at a position is under construction."""
    return below(mixed(seed, rank, _OPEN), _OPEN_EVERY) == 0


@lean_kernel
def _fixed(out, pos, value, size):
    for i in range(size):
        out[pos + i] = value >> (8 * i) & 0xFF
    return pos + size


@lean_kernel
def _varint_field(out, pos, tag, value):
    out[pos] = tag
    return put_varint(out, pos + 1, value)


@kernel
def _permission(tree, directory, mode):
    owner = np.int64(tree.owners[directory])
    users, groups = tree.counts[3], tree.counts[4]
    return (owner + 1) << 40 | (users + 1 + owner % groups) << 16 | mode


@lean_kernel
def _entry(out, pos, scope, kind, name, bits):
    return _fixed(out, pos, name << 6 | scope << 5 | kind << 3 | bits, 4)


@kernel
def _put_acl(out, pos, tree, tag, bits, directory):
    """Append an AclFeatureProto: a user and a group, and default entries for directories; the mask is in the mode."""
    user = 1 + below(bits, tree.counts[3])
    out[pos] = tag
    out[pos + 2] = AclFeatureProto.entries
    body = pos + 4
    end = _entry(out, body, 0, 0, user, 6)
    end = _entry(out, end, 0, 1, 0, 4)
    if directory:
        end = _entry(out, end, 1, 0, 0, 7)
        end = _entry(out, end, 1, 0, user, 6)
        end = _entry(out, end, 1, 1, 0, 5)
        end = _entry(out, end, 1, 2, 0, 7)
        end = _entry(out, end, 1, 3, 0, 0)
    out[pos + 3] = end - body
    out[pos + 1] = end - body + 2
    return end


@kernel
def _put_xattr(out, pos, tree, tag, bits):
    """Append an XAttrFeatureProto with one xattr: user.origin or trusted.checksum."""
    space = below(bits, 2)
    serial = tree.counts[3] + tree.counts[4] + 1 + space
    size = 4 + below(bits >> np.uint64(8), 32)
    out[pos] = tag
    out[pos + 1] = 9 + size
    out[pos + 2] = XAttrFeatureProto.xAttrs
    out[pos + 3] = 7 + size
    out[pos + 4] = XAttrCompactProto.name
    pos = _fixed(out, pos + 5, space << 30 | serial << 6, 4)
    out[pos] = XAttrCompactProto.value
    out[pos + 1] = size
    for i in range(size):
        out[pos + 2 + i] = 97 + (i * 7 + size) % 26
    return pos + 2 + size


@kernel
def _put_directory(out, pos, tree, directory):
    """Append an INodeDirectory."""
    bits = mixed(tree.counts[0], directory, _DIRECTORY)
    age = np.int64(_YEARS * share(mixed(tree.counts[0], directory, _TIMES)) ** 2)
    pos = _varint_field(out, pos, INodeDirectory.modificationTime, CLOCK - age)
    namespace_quota, space_quota = np.int64(-1), np.int64(-1)
    if directory == 0:
        namespace_quota = np.int64(0x7FFFFFFFFFFFFFFF)
    elif tree.depths[directory] in (2, 3) and below(bits >> np.uint64(8), _QUOTA_EVERY) == 0:
        namespace_quota, space_quota = np.int64(1) << 40, np.int64(1) << 60
    pos = _varint_field(out, pos, INodeDirectory.nsQuota, namespace_quota)
    pos = _varint_field(out, pos, INodeDirectory.dsQuota, space_quota)
    has_acl = directory > 0 and below(bits >> np.uint64(16), _ACL_EVERY) == 0
    kind = below(bits, 10)
    mode = np.int64(0o755)
    if has_acl or kind == 0:
        mode = np.int64(0o775)
    elif kind == 1:
        mode = np.int64(0o700)
    elif kind == 2:
        mode = np.int64(0o1777)
    out[pos] = INodeDirectory.permission
    pos = _fixed(out, pos + 1, _permission(tree, directory, mode), 8)
    if has_acl:
        pos = _put_acl(out, pos, tree, INodeDirectory.acl, bits, True)
    if directory > 0 and below(bits >> np.uint64(28), _XATTR_EVERY) == 0:
        pos = _put_xattr(out, pos, tree, INodeDirectory.xAttrs, bits)
    return pos


@kernel
def _put_blocks(out, pos, tree, rank, block_size, opened):
    """Append one to three BlockProtos, rarely none; the last block of an open file is empty."""
    bits = mixed(tree.counts[0], rank, _SIZE)
    kind = below(bits, 20)
    count = 1 if kind < 14 else 2 if kind < 17 else 3
    if not opened and below(bits >> np.uint64(8), _EMPTY_EVERY) == 0:
        count = 0
    for k in range(count):
        block = FIRST_BLOCK + 4 * rank + k
        stamp = 1001 + 2 * rank + k
        size = block_size
        if k == count - 1:
            # most files are small
            size = (
                np.int64(0) if opened else 1 + np.int64(block_size * share(mixed(tree.counts[0], rank, _SIZE + 8)) ** 4)
            )
        out[pos] = INodeFile.blocks
        out[pos + 1] = 3 + varint_size(block) + varint_size(stamp) + varint_size(size)
        pos = _varint_field(out, pos + 2, BlockProto.blockId, block)
        pos = _varint_field(out, pos, BlockProto.genStamp, stamp)
        pos = _varint_field(out, pos, BlockProto.numBytes, size)
    return pos


@kernel
def _put_client(out, pos, tree, rank):
    """Append a FileUnderConstructionFeature."""
    client = below(mixed(tree.counts[0], rank, _OPEN_CLIENT), _CLIENTS)
    out[pos] = INodeFile.fileUC
    out[pos + 2] = FileUnderConstructionFeature.clientName
    start = pos + 4
    end = start
    for letter in (68, 70, 83, 67, 108, 105, 101, 110, 116, 95):  # DFSClient_
        out[end] = letter
        end += 1
    end = put_decimal(out, end, client, 9)
    out[pos + 3] = end - start
    out[end] = FileUnderConstructionFeature.clientMachine
    start = end + 2
    end = put_decimal(out, start, 10, 2)
    for part in (0, client >> 8, client & 255):
        out[end] = 46
        end = put_decimal(out, end + 1, part, 1)
    out[start - 1] = end - start
    out[pos + 1] = end - pos - 2
    return end


@kernel
def _put_file(out, pos, tree, directory, rank):
    """Append an INodeFile."""
    seed = tree.counts[0]
    bits = mixed(seed, rank, _FILE)
    times = mixed(seed, rank, _TIMES)
    opened = is_open(seed, rank)
    kind = below(bits, 100)
    out[pos] = INodeFile.replication
    out[pos + 1] = 3 if kind < 90 else 2 if kind < 95 else 1 if kind < 99 else 10
    age = np.int64(_YEARS * share(mixed(seed, directory, _TIMES)) ** 2) + below(times, 180 * _DAY)
    mtime = CLOCK - age
    # half of all files were never read after they were written
    atime = mtime if times >> np.uint64(63) else mtime + below(times >> np.uint64(4), 180 * _DAY)
    block_size = np.int64(BLOCK_SIZE << 1 if kind == 50 else BLOCK_SIZE)
    pos = _varint_field(out, pos + 2, INodeFile.modificationTime, mtime)
    pos = _varint_field(out, pos, INodeFile.accessTime, atime)
    pos = _varint_field(out, pos, INodeFile.preferredBlockSize, block_size)
    has_acl = below(bits >> np.uint64(16), _ACL_EVERY) == 0
    kind = below(bits >> np.uint64(8), 20)
    mode = np.int64(0o644)
    if has_acl or kind < 2:
        mode = np.int64(0o664)
    elif kind < 5:
        mode = np.int64(0o640)
    elif kind == 5:
        mode = np.int64(0o600)
    out[pos] = INodeFile.permission
    pos = _fixed(out, pos + 1, _permission(tree, directory, mode), 8)
    pos = _put_blocks(out, pos, tree, rank, block_size, opened)
    if opened:
        pos = _put_client(out, pos, tree, rank)
    if has_acl:
        pos = _put_acl(out, pos, tree, INodeFile.acl, bits, False)
    if below(bits >> np.uint64(28), _XATTR_EVERY) == 0:
        pos = _put_xattr(out, pos, tree, INodeFile.xAttrs, bits)
    out[pos] = INodeFile.storagePolicyID
    out[pos + 1] = 7 if below(bits >> np.uint64(40), 200) == 0 else 0
    return pos + 2


@kernel
def inode_records(tree, first, end, directory, out, opened):
    """Write the INode records at positions `first` to `end` - 1.

    Args:
        directory: directory at which the search for the parent of `first` starts: the result of the previous call.
        out: RECORD_ROOM bytes per record.
        opened: result; the positions of files under construction.

    Returns:
        (bytes written, files under construction, directory of the last position).
    """
    name, body = np.empty(NAME_ROOM, np.uint8), np.empty(_BODY_ROOM, np.uint8)
    pos = found = 0
    for rank in range(first, end):
        while rank >= tree.ranks[directory + 1]:
            directory += 1
        number = rank - tree.ranks[directory] - 1
        if number < 0:
            name_size = put_directory_name(name, 0, tree, directory)
            size = _put_directory(body, 0, tree, directory)
        else:
            name_size = put_file_name(name, 0, tree, directory, number)
            size = _put_file(body, 0, tree, directory, rank)
            if is_open(tree.counts[0], rank):
                opened[found] = rank
                found += 1
        inode_id = _inode_id(rank)
        whole = 5 + varint_size(inode_id) + varint_size(name_size) + name_size + varint_size(size) + size
        pos = put_varint(out, pos, whole)
        out[pos] = INode.type
        out[pos + 1] = DIRECTORY if number < 0 else FILE
        pos = _varint_field(out, pos + 2, INode.id, inode_id)
        pos = _varint_field(out, pos, INode.name, name_size)
        copy_bytes(out, pos, name, 0, name_size)
        pos += name_size
        pos = _varint_field(out, pos, INode.directory if number < 0 else INode.file, size)
        copy_bytes(out, pos, body, 0, size)
        pos += size
    return pos, found, directory


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
