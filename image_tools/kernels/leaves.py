"""Kernels that read the kind, length and space of inode records, counted as in a NameNode.

Space includes replicas, or the parity of an erasure coding policy; the last block of an open file counts with its full
size. `policies` has a row for each id of an erasure coding policy: data units, parity units and cell size, zeros for an
unused id.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK, UNDER_CONSTRUCTION
from image_format.kernels.jit import lean_kernel
from image_format.kernels.readers import read_block
from image_format.kernels.tags import BlockProto, INode, INodeFile
from image_format.kernels.wire import fixed64, next_field, octet, read_varint, record_span

FILES, DIRECTORIES, LENGTH, SPACE = range(4)
"""Columns of totals, in the order of the fields of `SubtreeTotals`."""
_INT32 = 0xFFFFFFFF
MAX_READ_AFTER = 1 << 9
"""Number of bytes after a usual record that may be read before damage is detected."""
_TOP_BITS = np.uint64(0x8080808080808080)
_TOP_BIT = np.uint64(7)
_HIGHEST_BYTE = np.uint64(56)
_SIZES = np.uint64(0x0102030405060708)
"""Factor for a word with only bit 0 of one byte set; the highest byte of the product is this byte's number, from 1."""


@lean_kernel
def space_of(length, replication, policy, policies):
    """Return the bytes of a file with the parity of its policy, or with replicas for policy -1 or an unknown policy."""
    if policy < 0 or policy >= policies.shape[0] or policies[policy, 0] == 0:
        return length * replication
    cell = policies[policy, 2]
    stripe = cell * policies[policy, 0]
    parity = length // stripe * cell + min(length % stripe, cell)
    return length + parity * policies[policy, 1]


@lean_kernel
def _number_end(buf, pos):
    """Return the position after the varint at `pos`, -1 for a varint of more than eight bytes."""
    ends = (~fixed64(buf, pos) & _TOP_BITS) >> _TOP_BIT
    if ends == 0:
        return np.int64(-1)
    return pos + np.int64(((ends & -ends) * _SIZES) >> _HIGHEST_BYTE)


@_number_end.in_python
def _number_end_in_python(buf, pos):
    return next((np.int64(end) for end in range(pos + 1, pos + 9) if buf[end - 1] < 0x80), np.int64(-1))


@lean_kernel
def _usual_blocks(buf, pos, end):
    """Return (position after the short BlockProto messages at `pos`, sum of their lengths); -1 for unusual messages."""
    length = np.int64(0)
    while pos < end and octet(buf, pos) == INodeFile.blocks:
        stop = pos + 2 + np.int64(octet(buf, pos + 1))
        at = _number_end(buf, pos + 3)
        if stop > end or octet(buf, pos + 1) >= 0x80 or octet(buf, pos + 2) != BlockProto.blockId or at < 0:
            return np.int64(-1), length
        after = _number_end(buf, at + 1)
        if octet(buf, at) != BlockProto.genStamp or after < 0 or octet(buf, after) != BlockProto.numBytes:
            return np.int64(-1), length
        size, pos = read_varint(buf, after + 1, stop)
        if pos != stop:
            return np.int64(-1), length
        length += size
    return pos, length


@lean_kernel
def _usual_file(buf, pos, end, policies):
    """Return the result of `_file`, -1 for an unusual record."""
    replication = np.int64(0)
    if octet(buf, pos) == INodeFile.replication:
        replication = np.int64(octet(buf, pos + 1))
        pos += 2
    for tag in (INodeFile.modificationTime, INodeFile.accessTime, INodeFile.preferredBlockSize):
        if 0 <= pos < end and octet(buf, pos) == tag:
            pos = _number_end(buf, pos + 1)
    if 0 <= pos < end and octet(buf, pos) == INodeFile.permission:
        pos += 9
    if pos < 0 or replication >= 0x80:
        return np.int64(-1), np.int64(0)
    pos, length = _usual_blocks(buf, pos, end)
    policy = np.int64(-1)
    while 0 <= pos < end:
        tag, value = np.int64(octet(buf, pos)), np.int64(octet(buf, pos + 1))
        is_number = tag == INodeFile.storagePolicyID or tag == INodeFile.blockType
        if tag == INodeFile.erasureCodingPolicyID:
            policy = value
        elif tag == INodeFile.acl or tag == INodeFile.xAttrs:
            pos += value
        elif not is_number:
            return np.int64(-1), np.int64(0)
        pos = pos + 2 if value < 0x80 else np.int64(-1)
    if pos != end:
        return np.int64(-1), np.int64(0)
    return length, space_of(length, replication, policy, policies)


@lean_kernel
def _usual_leaf(buf, pos, end, policies):
    """Return the result of `read_leaf` for a usual record, in two thirds of the time; kind -1 for other records.

    In a usual record, fields are in the order of their tags, numbers and lengths are short, and a file is closed. The
    buffer must contain `MAX_READ_AFTER` bytes after the record.
    """
    nothing = np.int64(0)
    kind = np.int64(octet(buf, pos + 1))
    at = _number_end(buf, pos + 3)
    if octet(buf, pos) != INode.type or octet(buf, pos + 2) != INode.id or at < 0 or octet(buf, at) != INode.name:
        return np.int64(-1), nothing, nothing
    name_size = np.int64(octet(buf, at + 1))
    at += 2 + name_size
    if name_size >= 0x80 or at + 2 > end:
        return np.int64(-1), nothing, nothing
    tag, size, start = np.int64(octet(buf, at)), np.int64(octet(buf, at + 1)), at + 2
    if size >= 0x80:
        size += (np.int64(octet(buf, start)) - 1) << 7
        start += 1
        if octet(buf, start - 1) >= 0x80:
            return np.int64(-1), nothing, nothing
    if start + size != end:
        return np.int64(-1), nothing, nothing
    if kind == DIRECTORY and tag == INode.directory:
        return kind, nothing, nothing
    if kind != FILE or tag != INode.file:
        return np.int64(-1), nothing, nothing
    length, space = _usual_file(buf, start, end, policies)
    return kind if length >= 0 else np.int64(-1), length, space


@lean_kernel
def _file(buf, pos, end, policies):
    """Return (length, space) of the INodeFile in `buf[pos:end]`; the length is -1 if it is damaged."""
    length = np.int64(0)
    last = np.int64(-1)
    replication = np.int64(0)
    policy = np.int64(-1)
    block_size = np.int64(0)
    is_open = False
    while 0 <= pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if tag == INodeFile.blocks:
            _, _, size, status = read_block(buf, start, pos)
            if status < 0:
                return np.int64(-1), np.int64(0)
            last = np.int64(size)
            length += last
        elif tag == INodeFile.replication:
            replication = value & _INT32
        elif tag == INodeFile.preferredBlockSize:
            block_size = value
        elif tag == INodeFile.erasureCodingPolicyID:
            policy = value & 0xFF
        elif tag == INodeFile.fileUC:
            is_open = True
    if pos != end:
        return np.int64(-1), np.int64(0)
    if replication > _INT32 >> 1:
        replication -= _INT32 + 1
    stored = length + block_size - last if is_open and last >= 0 else length
    return length, space_of(stored, replication, policy, policies)


@lean_kernel
def read_leaf(buf, offset, policies):
    """Return (kind, length, space) of the INode at `offset`; kind -1 if it is damaged."""
    pos, end = record_span(buf, offset)
    if pos >= 0 and end + MAX_READ_AFTER <= buf.size:
        kind, length, space = _usual_leaf(buf, pos, end, policies)
        if kind >= 0:
            return kind, length, space
    kind = np.int64(-1)
    length = np.int64(0)
    space = np.int64(0)
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if tag == INode.file:
            kind = np.int64(FILE)
            length, space = _file(buf, start, pos, policies)
            if length < 0:
                return np.int64(-1), length, space
        elif tag == INode.directory:
            kind = np.int64(DIRECTORY)
        elif tag == INode.symlink:
            kind = np.int64(SYMLINK)
    return kind if pos == end else np.int64(-1), length, space


@lean_kernel
def read_leaves(buf, offsets, policies, out):
    """Fill a row of `out` with (kind, length, space) of each INode at `offsets`.

    Returns:
        Index of the first damaged record, -1 if all are whole.
    """
    for i in range(offsets.size):
        kind, length, space = read_leaf(buf, offsets[i], policies)
        if kind < 0:
            return i
        out[i, 0] = kind
        out[i, 1] = length
        out[i, 2] = space
    return -1


@lean_kernel
def add_leaves(buf, offsets, policies, rows, totals):
    """Add each INode at `offsets` to its row of `totals` (none for row -1); return the result of `read_leaves`."""
    for i in range(offsets.size):
        kind, length, space = read_leaf(buf, offsets[i], policies)
        if kind < 0:
            return i
        if rows[i] >= 0:
            total = totals[rows[i]]
            total[DIRECTORIES if kind == DIRECTORY else FILES] += 1
            total[LENGTH] += length
            total[SPACE] += space
    return -1


@lean_kernel
def row_size(entry, blocks, policies):
    """Return (length, space) of an inode of an `InodeTable`, zeros unless it is a file."""
    length = np.int64(0)
    if entry["kind"] != FILE:
        return length, length
    first = entry["blocks_offset"]
    for i in range(entry["block_count"]):
        length += blocks[first + i]["num_bytes"]
    stored = length
    if entry["flags"] & UNDER_CONSTRUCTION and entry["block_count"]:
        stored += entry["block_size"] - blocks[first + entry["block_count"] - 1]["num_bytes"]
    return length, space_of(stored, max(np.int64(entry["replication"]), 0), np.int64(entry["ec_policy"]), policies)
