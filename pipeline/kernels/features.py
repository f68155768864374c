"""Kernels that find the few inodes with a feature, and the quotas and numbers of children of directories."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import packed_at
from image_format.kernels.readers import read_type_quota
from image_format.kernels.scan import count_children
from image_format.kernels.tags import INode, INodeDirectory, INodeFile, QuotaByStorageTypeFeatureProto
from image_format.kernels.wire import next_field, record_span

ACL, XATTRS, OPEN, DIRECTORY, DAMAGED = 1, 2, 4, 8, 16
"""Bits of a mark."""
NS_QUOTA, DS_QUOTA, FIRST_TYPE_QUOTA = 0, 1, 2
TYPES = 6
"""Storage types, StorageTypeProto numbers 1 to 6."""
QUOTA_ROWS = FIRST_TYPE_QUOTA + TYPES
_NO_LIMIT = -1


@lean_kernel
def _body_marks(buf, pos, end, acl, xattrs, lease):
    """Return the marks of an INodeFile or INodeDirectory whose features have these tags."""
    found = 0
    while 0 <= pos < end:
        tag, _, _, pos = next_field(buf, pos, end)
        if tag == acl:
            found |= ACL
        elif tag == xattrs:
            found |= XATTRS
        elif tag == lease:
            found |= OPEN
    return found if pos >= 0 else DAMAGED


@kernel
def mark_features(buf, offsets, first, behind):
    """Return for each slot from `first` to `behind` - 1 which of ACL, XATTRS, OPEN and DIRECTORY its INode has."""
    marks = np.zeros(behind - first, np.uint8)
    for slot in range(first, behind):
        found = 0
        pos, end = record_span(buf, packed_at(offsets, slot))
        while 0 <= pos < end:
            tag, _, start, pos = next_field(buf, pos, end)
            if tag == INode.file:
                found |= _body_marks(buf, start, pos, INodeFile.acl, INodeFile.xAttrs, INodeFile.fileUC)
            elif tag == INode.directory:
                found |= _body_marks(buf, start, pos, INodeDirectory.acl, INodeDirectory.xAttrs, 0) | DIRECTORY
        marks[slot - first] = found if pos >= 0 else found | DAMAGED
    return marks


@kernel
def _type_quotas(buf, pos, end, out, column):
    """Read a QuotaByStorageTypeFeatureProto; return whether it is intact."""
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if tag == QuotaByStorageTypeFeatureProto.quotas:
            kind, limit, status = read_type_quota(buf, start, pos)
            if status < 0:
                return False
            if 0 < kind <= TYPES:
                out[FIRST_TYPE_QUOTA + kind - 1, column] = limit
    return pos >= 0


@kernel
def _directory(buf, pos, end, out, column):
    """Read the quotas of an INodeDirectory; return whether it is intact."""
    while 0 <= pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if tag == INodeDirectory.nsQuota:
            out[NS_QUOTA, column] = value
        elif tag == INodeDirectory.dsQuota:
            out[DS_QUOTA, column] = value
        elif tag == INodeDirectory.typeQuotas and not _type_quotas(buf, start, pos, out, column):
            return False
    return pos >= 0


@kernel
def directory_quotas(buf, offsets, slots, ids, out):
    """Read the directory records in `slots`.

    Args:
        ids: result, the inode ids.
        out: result, `QUOTA_ROWS` rows with a column per directory; an absent field is 0, as in Hadoop, and an absent
            storage type -1.

    Returns:
        Number of intact records at the start of `slots`.
    """
    for column in range(slots.size):
        out[:FIRST_TYPE_QUOTA, column] = 0
        out[FIRST_TYPE_QUOTA:, column] = _NO_LIMIT
        pos, end = record_span(buf, packed_at(offsets, slots[column]))
        while 0 <= pos < end:
            tag, value, start, pos = next_field(buf, pos, end)
            if tag == INode.id:
                ids[column] = value
            elif tag == INode.directory and not _directory(buf, start, pos, out, column):
                return column
        if pos < 0:
            return column
    return slots.size


@kernel
def children_counts(buf, starts):
    """Return the numbers (children, refChildren) in the DirEntry at each of `starts` in INODE_DIR; zeros for -1.

    Negative numbers mean a damaged entry.
    """
    counts = np.zeros((starts.size, 2), np.int64)
    for i in range(starts.size):
        if starts[i] >= 0:
            plain, references = count_children(buf, starts[i])
            counts[i, 0] = plain
            counts[i, 1] = references
    return counts
