"""Kernel that turns the blocks of INodeFile records into columns."""

from __future__ import annotations

from image_format.kernels.jit import kernel, lean_kernel, measured_by
from image_format.kernels.packed import packed_at
from image_format.kernels.tags import BlockProto, INode, INodeFile
from image_format.kernels.wire import read_varint, skip_field

INODE_ID, INDEX, BLOCK_ID, GENSTAMP, BYTES, REPLICATION, STRIPED, POLICY, UNDER_CONSTRUCTION = range(9)
"""Rows of `out`; POLICY is the id of the erasure coding policy, -1 for none."""
COLUMNS = 9


@lean_kernel
def _block(buf, pos, end, out, row):
    """Fill a column of `out` from the BlockProto in `pos`..`end`; whether it is whole."""
    required = 0
    out[BYTES, row] = 0
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos >= 0 and (tag == BlockProto.blockId or tag == BlockProto.genStamp or tag == BlockProto.numBytes):
            value, pos = read_varint(buf, pos, end)
            if tag == BlockProto.blockId:
                out[BLOCK_ID, row] = value
                required |= 1
            elif tag == BlockProto.genStamp:
                out[GENSTAMP, row] = value
                required |= 2
            else:
                out[BYTES, row] = value
        elif pos >= 0:
            pos = skip_field(buf, pos, end, tag)
    return pos >= 0 and required == 3


@kernel
def _file(buf, pos, end, skip, out, count):
    """Rows of the INodeFile in `pos`..`end`, its first `skip` blocks left out, as far as `out` has room.

    Returns (rows filled, blocks of the file that had room or were left out, whether there are more); the first
    number is negative for a damaged file.
    """
    first = count
    index = 0
    replication = striped = under_construction = 0
    policy = -1
    full = False
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1, index, full
        stop = skip_field(buf, pos, end, tag)
        if stop < 0:
            return -1, index, full
        if tag == INodeFile.blocks and not full:
            if index >= skip and count == out.shape[1]:
                full = True
            else:
                if index >= skip:
                    _, pos = read_varint(buf, pos, end)
                    if not _block(buf, pos, stop, out, count):
                        return -1, index, full
                    out[INDEX, count] = index
                    count += 1
                index += 1
        elif tag == INodeFile.replication:
            replication, _ = read_varint(buf, pos, end)
        elif tag == INodeFile.blockType:
            striped, _ = read_varint(buf, pos, end)
        elif tag == INodeFile.erasureCodingPolicyID:
            policy, _ = read_varint(buf, pos, end)
        elif tag == INodeFile.fileUC:
            under_construction = 1
        pos = stop
    for row in range(first, count):
        out[REPLICATION, row] = replication
        out[STRIPED, row] = striped
        out[POLICY, row] = policy
        out[UNDER_CONSTRUCTION, row] = under_construction
    return count, index, full


@measured_by("buf", "offsets")
@kernel
def collect_blocks(buf, offsets, slot, behind, skip, out):
    """Fill the columns of `out` with the blocks of the inodes in slots `slot` to `behind` - 1.

    Args:
        buf: INODE; offsets: of each slot's delimited record.
        skip: blocks of the first inode that an earlier call has given.
        out: int64, `COLUMNS` rows, any number of columns.

    Returns:
        (columns filled, next slot, its blocks given so far, damaged); at the slot named where damaged.
    """
    count = 0
    while slot < behind:
        length, pos = read_varint(buf, packed_at(offsets, slot), buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return count, slot, skip, True
        end = pos + length
        first = count
        inode_id = 0
        given = 0
        full = False
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            if pos < 0:
                return first, slot, skip, True
            stop = skip_field(buf, pos, end, tag)
            if stop < 0:
                return first, slot, skip, True
            if tag == INode.id:
                inode_id, _ = read_varint(buf, pos, end)
            elif tag == INode.file:
                _, pos = read_varint(buf, pos, end)
                count, given, full = _file(buf, pos, stop, skip, out, first)
                if count < 0:
                    return first, slot, skip, True
            pos = stop
        for row in range(first, count):
            out[INODE_ID, row] = inode_id
        if full:
            return count, slot, given, False
        slot += 1
        skip = 0
    return count, slot, 0, False
