"""Kernel that turns the blocks of INodeFile records into columns."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, measured_by
from image_format.kernels.packed import packed_at
from image_format.kernels.readers import ABSENT, read_block, read_redundancy
from image_format.kernels.tags import INode, INodeFile
from image_format.kernels.wire import next_field, record_span

INODE_ID, INDEX, BLOCK_ID, GENSTAMP, BYTES, REPLICATION, STRIPED, POLICY, UNDER_CONSTRUCTION = range(9)
"""Rows of `out`; POLICY is the id of the erasure coding policy, -1 if there is none."""
COLUMNS = 9


@kernel
def _file(buf, pos, end, skip, out, count):
    """Fill the columns of the INodeFile in `buf[pos:end]` while `out` has room, without its first `skip` blocks.

    Returns:
        (columns filled, blocks of the file that were filled or skipped, whether blocks remain); the first number is
        negative for a damaged file.
    """
    first = count
    index = 0
    under_construction = 0
    full = False
    replication, _, _, striped, policy, status = read_redundancy(buf, pos, end)
    if status < 0:
        return -1, index, full
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if tag == INodeFile.fileUC:
            under_construction = 1
        elif tag == INodeFile.blocks and not full:
            full = index >= skip and count == out.shape[1]
            if index >= skip and not full:
                block_id, genstamp, size, status = read_block(buf, start, pos)
                if status < 0:
                    return -1, index, full
                out[INDEX, count] = index
                out[BLOCK_ID, count] = block_id
                out[GENSTAMP, count] = genstamp
                out[BYTES, count] = size
                count += 1
            if not full:
                index += 1
    for column in range(first, count):
        out[REPLICATION, column] = replication if replication != ABSENT else 0
        out[STRIPED, column] = striped
        out[POLICY, column] = policy if policy != ABSENT else -1
        out[UNDER_CONSTRUCTION, column] = under_construction
    return count, index, full


@measured_by("buf", "offsets")
@kernel
def collect_blocks(buf, offsets, slot, behind, skip, out):
    """Fill the columns of `out` with the blocks of the inodes in slots `slot` to `behind` - 1.

    Args:
        buf: the INODE section. offsets: start of each slot's delimited record.
        skip: number of the first inode's blocks that an earlier call returned.
        out: int64, `COLUMNS` rows, any number of columns.

    Returns:
        (columns filled, next slot, number of its blocks returned so far, damaged); if damaged is true, the slot is the
        damaged inode's slot.
    """
    count = 0
    while slot < behind:
        pos, end = record_span(buf, packed_at(offsets, slot))
        first = count
        inode_id = np.int64(0)
        given = 0
        full = False
        while 0 <= pos < end:
            tag, value, start, pos = next_field(buf, pos, end)
            if tag == INode.id:
                inode_id = value
            elif tag == INode.file and pos >= 0:
                count, given, full = _file(buf, start, pos, skip, out, first)
                if count < 0:
                    pos = count
        if pos < 0:
            return first, slot, skip, True
        for column in range(first, count):
            out[INODE_ID, column] = inode_id
        if full:
            return count, slot, given, False
        slot += 1
        skip = 0
    return count, slot, 0, False
