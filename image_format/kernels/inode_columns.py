"""Kernels that decode runs of INode records to columns, each a row of one array."""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.tags import BlockProto, INode, INodeDirectory, INodeFile, INodeSymlink
from image_format.kernels.wire import DELIMITED, VARINT, WIRE_TYPE, read_varint, skip_field

(
    ID,
    KIND,
    PERMISSION,
    LENGTH,
    MTIME,
    ATIME,
    REPLICATION,
    BLOCK_SIZE,
    BLOCK_COUNT,
    STORAGE_POLICY,
    EC_POLICY,
    NS_QUOTA,
    DS_QUOTA,
    NAME_START,
    NAME_SIZE,
    HAS_XATTRS,
    COLUMNS,
) = range(17)
"""Rows of the array that `decode_columns` fills, and how many there are."""

_INT32 = 0xFFFFFFFF


@lean_kernel
def _fixed64(buf, pos):
    value = np.int64(0)
    for i in range(8):
        value |= np.int64(buf[pos + i]) << (8 * i)
    return value


@lean_kernel
def _signed32(value):
    low = value & _INT32
    return low - (_INT32 + 1) if low > 0x7FFFFFFF else low


@lean_kernel
def _block_bytes(buf, pos, end):
    """(BlockProto.numBytes, whether the message is whole)."""
    size = np.int64(0)
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            break
        if tag & WIRE_TYPE == VARINT:
            value, pos = read_varint(buf, pos, end)
            if tag == BlockProto.numBytes:
                size = value
        else:
            pos = skip_field(buf, pos, end, tag)
    return size, pos == end


@kernel
def _file(buf, pos, end, out, row):
    """Fill a row from an INodeFile; whether it is whole."""
    length = np.int64(0)
    blocks = np.int64(0)
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return False
        if tag & WIRE_TYPE == VARINT:
            value, pos = read_varint(buf, pos, end)
            if tag == INodeFile.modificationTime:
                out[MTIME, row] = value
            elif tag == INodeFile.accessTime:
                out[ATIME, row] = value
            elif tag == INodeFile.preferredBlockSize:
                out[BLOCK_SIZE, row] = value
            elif tag == INodeFile.replication:
                out[REPLICATION, row] = _signed32(value)
            elif tag == INodeFile.storagePolicyID:
                out[STORAGE_POLICY, row] = value & 0xFF
            elif tag == INodeFile.erasureCodingPolicyID:
                out[EC_POLICY, row] = value & 0xFF
            continue
        body = pos
        pos = skip_field(buf, pos, end, tag)
        if tag == INodeFile.permission and pos >= 0:
            out[PERMISSION, row] = _fixed64(buf, body)
        elif tag == INodeFile.blocks and pos >= 0:
            _, body = read_varint(buf, body, end)
            size, whole = _block_bytes(buf, body, pos)
            if not whole:
                return False
            length += size
            blocks += 1
    out[LENGTH, row] = length
    out[BLOCK_COUNT, row] = blocks
    return pos == end


@kernel
def _directory(buf, pos, end, out, row):
    """Fill a row from an INodeDirectory; whether it is whole."""
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return False
        if tag & WIRE_TYPE == VARINT:
            value, pos = read_varint(buf, pos, end)
            if tag == INodeDirectory.modificationTime:
                out[MTIME, row] = value
            elif tag == INodeDirectory.nsQuota:
                out[NS_QUOTA, row] = value
            elif tag == INodeDirectory.dsQuota:
                out[DS_QUOTA, row] = value
            continue
        body = pos
        pos = skip_field(buf, pos, end, tag)
        if tag == INodeDirectory.permission and pos >= 0:
            out[PERMISSION, row] = _fixed64(buf, body)
        elif tag == INodeDirectory.xAttrs:
            out[HAS_XATTRS, row] = True
    return pos == end


@kernel
def _symlink(buf, pos, end, out, row):
    """Fill a row from an INodeSymlink; whether it is whole."""
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return False
        body = pos
        pos = skip_field(buf, pos, end, tag)
        if tag == INodeSymlink.permission and pos >= 0:
            out[PERMISSION, row] = _fixed64(buf, body)
        elif tag == INodeSymlink.modificationTime and pos >= 0:
            out[MTIME, row], _ = read_varint(buf, body, end)
        elif tag == INodeSymlink.accessTime and pos >= 0:
            out[ATIME, row], _ = read_varint(buf, body, end)
    return pos == end


@kernel
def decode_record(buf, pos, end, out, row):
    """Fill a row from the INode between `pos` and `end`; whether it is whole."""
    kind = np.int64(0)
    body = np.int64(0)
    whole = True
    while 0 <= pos < end and whole:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return False
        if tag & WIRE_TYPE == VARINT:
            value, pos = read_varint(buf, pos, end)
            if tag == INode.type:
                kind = value
            elif tag == INode.id:
                out[ID, row] = value
        elif tag & WIRE_TYPE == DELIMITED:
            size, pos = read_varint(buf, pos, end)
            if pos < 0 or size < 0 or size > end - pos:
                return False
            if tag == INode.name:
                out[NAME_START, row] = pos
                out[NAME_SIZE, row] = size
            elif tag == INode.file:
                body = np.int64(FILE)
                whole = _file(buf, pos, pos + size, out, row)
            elif tag == INode.directory:
                body = np.int64(DIRECTORY)
                whole = _directory(buf, pos, pos + size, out, row)
            elif tag == INode.symlink:
                body = np.int64(SYMLINK)
                whole = _symlink(buf, pos, pos + size, out, row)
            pos += size
        else:
            pos = skip_field(buf, pos, end, tag)
    out[KIND, row] = body
    return whole and pos == end and kind == body and kind > 0 and out[ID, row] > 0


@kernel
def decode_columns(buf, offsets, out):
    """Fill `out`, int64 and a column an offset, with the fields of INode records.

    Args:
        buf: the INODE section; offsets: of the delimited records to decode.

    Returns:
        Index of the first damaged record, -1 where all are whole.
    """
    out[:] = 0
    out[STORAGE_POLICY] = -1
    out[EC_POLICY] = -1
    for row in range(offsets.size):
        length, pos = read_varint(buf, offsets[row], buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return row
        if not decode_record(buf, pos, pos + length, out, row):
            return row
    return -1
