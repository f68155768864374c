"""Kernels that find the few inodes with a feature, and what directories say of quotas and children."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import packed_at
from image_format.kernels.scan import count_children
from image_format.kernels.tags import (
    INode,
    INodeDirectory,
    INodeFile,
    QuotaByStorageTypeEntryProto,
    QuotaByStorageTypeFeatureProto,
)
from image_format.kernels.wire import read_varint, skip_field

ACL, XATTRS, OPEN, DIRECTORY, DAMAGED = 1, 2, 4, 8, 16
"""Bits of a mark."""
NS_QUOTA, DS_QUOTA, FIRST_TYPE_QUOTA = 0, 1, 2
TYPES = 6
"""Storage types, StorageTypeProto numbers 1 to 6."""
QUOTA_ROWS = FIRST_TYPE_QUOTA + TYPES
_NO_LIMIT = -1


@lean_kernel
def _body_marks(buf, pos, end, acl, xattrs, lease):
    """Marks of an INodeFile or INodeDirectory in which features have these tags."""
    found = 0
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos >= 0:
            if tag == acl:
                found |= ACL
            elif tag == xattrs:
                found |= XATTRS
            elif tag == lease:
                found |= OPEN
            pos = skip_field(buf, pos, end, tag)
    return found if pos >= 0 else DAMAGED


@kernel
def mark_features(buf, offsets, first, behind):
    """For each of the slots `first` to `behind` - 1, which of ACL, XATTRS, OPEN and DIRECTORY its INode has."""
    marks = np.zeros(behind - first, np.uint8)
    for slot in range(first, behind):
        found = 0
        length, pos = read_varint(buf, packed_at(offsets, slot), buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            pos = -1
            end = 0
        else:
            end = pos + length
        while 0 <= pos < end:
            tag, pos = read_varint(buf, pos, end)
            stop = skip_field(buf, pos, end, tag) if pos >= 0 else -1
            if stop >= 0 and (tag == INode.file or tag == INode.directory):
                _, pos = read_varint(buf, pos, end)
                if tag == INode.file:
                    found |= _body_marks(buf, pos, stop, INodeFile.acl, INodeFile.xAttrs, INodeFile.fileUC)
                else:
                    found |= _body_marks(buf, pos, stop, INodeDirectory.acl, INodeDirectory.xAttrs, 0) | DIRECTORY
            pos = stop
        marks[slot - first] = found if pos >= 0 else found | DAMAGED
    return marks


@lean_kernel
def _type_quota(buf, pos, end, out, column):
    """Put the limit of a QuotaByStorageTypeEntryProto where its type has its row; whether it is whole."""
    kind = limit = 0
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos >= 0 and tag == QuotaByStorageTypeEntryProto.storageType:
            kind, pos = read_varint(buf, pos, end)
        elif pos >= 0 and tag == QuotaByStorageTypeEntryProto.quota:
            limit, pos = read_varint(buf, pos, end)
        elif pos >= 0:
            pos = skip_field(buf, pos, end, tag)
    if 0 < kind <= TYPES:
        out[FIRST_TYPE_QUOTA + kind - 1, column] = limit
    return pos >= 0


@kernel
def _type_quotas(buf, pos, end, out, column):
    """Read a QuotaByStorageTypeFeatureProto; whether it is whole."""
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else -1
        if stop >= 0 and tag == QuotaByStorageTypeFeatureProto.quotas:
            _, pos = read_varint(buf, pos, end)
            if not _type_quota(buf, pos, stop, out, column):
                return False
        pos = stop
    return pos >= 0


@kernel
def _directory(buf, pos, end, out, column):
    """Read the quotas of an INodeDirectory; whether it is whole."""
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else -1
        if stop >= 0:
            if tag == INodeDirectory.nsQuota or tag == INodeDirectory.dsQuota:
                value, _ = read_varint(buf, pos, end)
                out[NS_QUOTA if tag == INodeDirectory.nsQuota else DS_QUOTA, column] = value
            elif tag == INodeDirectory.typeQuotas:
                _, pos = read_varint(buf, pos, end)
                if not _type_quotas(buf, pos, stop, out, column):
                    return False
        pos = stop
    return pos >= 0


@kernel
def directory_quotas(buf, offsets, slots, ids, out):
    """Read the directory records in `slots`.

    Args:
        ids: result, the inode ids.
        out: result, `QUOTA_ROWS` rows with a column a directory; a field that is not there is 0, as in Hadoop, a
            storage type that is not there -1.

    Returns:
        Number of whole records at the start of `slots`.
    """
    for column in range(slots.size):
        out[:FIRST_TYPE_QUOTA, column] = 0
        out[FIRST_TYPE_QUOTA:, column] = _NO_LIMIT
        length, pos = read_varint(buf, packed_at(offsets, slots[column]), buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return column
        end = pos + length
        while 0 <= pos < end:
            tag, pos = read_varint(buf, pos, end)
            stop = skip_field(buf, pos, end, tag) if pos >= 0 else -1
            if stop >= 0 and tag == INode.id:
                ids[column], _ = read_varint(buf, pos, end)
            elif stop >= 0 and tag == INode.directory:
                _, pos = read_varint(buf, pos, end)
                if not _directory(buf, pos, stop, out, column):
                    return column
            pos = stop
        if pos < 0:
            return column
    return slots.size


@kernel
def children_counts(buf, starts):
    """(children, refChildren) of the DirEntry at each of `starts` in INODE_DIR, zeros where that is -1.

    Negative numbers stand for a damaged entry.
    """
    counts = np.zeros((starts.size, 2), np.int64)
    for i in range(starts.size):
        if starts[i] >= 0:
            plain, references = count_children(buf, starts[i])
            counts[i, 0] = plain
            counts[i, 1] = references
    return counts
