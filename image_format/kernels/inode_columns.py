"""Kernels that decode runs of INode records to columns; each column is a row of one array."""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.readers import read_block
from image_format.kernels.tags import INode, INodeDirectory, INodeFile, INodeSymlink
from image_format.kernels.wire import fixed64, next_field, record_span

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
"""Rows of the array that `decode_columns` fills, and the number of rows."""

_INT32 = 0xFFFFFFFF


@lean_kernel
def _signed32(value):
    low = value & _INT32
    return low - (_INT32 + 1) if low > 0x7FFFFFFF else low


@kernel
def _file(buf, pos, end, out, row):
    """Store the fields of an INodeFile at index `row`; return whether the message is valid."""
    length = np.int64(0)
    blocks = np.int64(0)
    while 0 <= pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if tag == INodeFile.blocks:
            _, _, size, status = read_block(buf, start, pos)
            if status < 0:
                return False
            length += size
            blocks += 1
        elif tag == INodeFile.modificationTime:
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
        elif tag == INodeFile.permission and pos >= 0:
            out[PERMISSION, row] = np.int64(fixed64(buf, start))
    out[LENGTH, row] = length
    out[BLOCK_COUNT, row] = blocks
    return pos == end


@kernel
def _directory(buf, pos, end, out, row):
    """Store the fields of an INodeDirectory at index `row`; return whether the message is valid."""
    while 0 <= pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if tag == INodeDirectory.modificationTime:
            out[MTIME, row] = value
        elif tag == INodeDirectory.nsQuota:
            out[NS_QUOTA, row] = value
        elif tag == INodeDirectory.dsQuota:
            out[DS_QUOTA, row] = value
        elif tag == INodeDirectory.permission and pos >= 0:
            out[PERMISSION, row] = np.int64(fixed64(buf, start))
        elif tag == INodeDirectory.xAttrs:
            out[HAS_XATTRS, row] = True
    return pos == end


@kernel
def _symlink(buf, pos, end, out, row):
    """Store the fields of an INodeSymlink at index `row`; return whether the message is valid."""
    while 0 <= pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if tag == INodeSymlink.permission and pos >= 0:
            out[PERMISSION, row] = np.int64(fixed64(buf, start))
        elif tag == INodeSymlink.modificationTime:
            out[MTIME, row] = value
        elif tag == INodeSymlink.accessTime:
            out[ATIME, row] = value
    return pos == end


@kernel
def decode_record(buf, pos, end, out, row):
    """Store the fields of the INode in `buf[pos:end]` at index `row`; return whether the message is valid."""
    kind = np.int64(0)
    body = np.int64(0)
    whole = True
    while 0 <= pos < end and whole:
        tag, value, start, pos = next_field(buf, pos, end)
        if tag == INode.type:
            kind = value
        elif tag == INode.id:
            out[ID, row] = value
        elif tag == INode.name:
            out[NAME_START, row] = start
            out[NAME_SIZE, row] = value
        elif tag == INode.file:
            body = np.int64(FILE)
            whole = _file(buf, start, pos, out, row)
        elif tag == INode.directory:
            body = np.int64(DIRECTORY)
            whole = _directory(buf, start, pos, out, row)
        elif tag == INode.symlink:
            body = np.int64(SYMLINK)
            whole = _symlink(buf, start, pos, out, row)
    out[KIND, row] = body
    return whole and pos == end and kind == body and kind > 0 and out[ID, row] > 0


@kernel
def decode_columns(buf, offsets, out):
    """Fill `out`, an int64 array with a row for each field and an element for each offset, from INode records.

    Args:
        buf, offsets: the INODE section, and the offsets of the delimited records to decode.

    Returns:
        Index of the first damaged record, or -1 if all are valid.
    """
    out[:] = 0
    out[STORAGE_POLICY] = -1
    out[EC_POLICY] = -1
    for row in range(offsets.size):
        pos, end = record_span(buf, offsets[row])
        if pos < 0 or not decode_record(buf, pos, end, out, row):
            return row
    return -1
