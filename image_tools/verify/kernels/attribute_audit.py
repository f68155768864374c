"""Kernels that check what inodes consist of: permissions, ACLs, xattrs, quotas, blocks; and the bits for faults."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel
from image_format.kernels.tags import (
    AclFeatureProto,
    BlockProto,
    QuotaByStorageTypeEntryProto,
    QuotaByStorageTypeFeatureProto,
    XAttrCompactProto,
    XAttrFeatureProto,
)
from image_format.kernels.wire import read_varint, skip_field
from image_format.permission import GROUP_SHIFT, NAME_SHIFT, SERIAL_MASK, TYPE_SHIFT, USER_SHIFT, AclType
from image_tools.verify.kernels.tags import read_tag

DAMAGED = 1
"""The record's frame is whole, what is in it is no INode."""
KIND = 2
"""Another message than the type's is set; it is the only one, or the type's is set as well."""
RESERVED_ID = 4
USER = 8
GROUP = 16
ACL_NAME = 32
XATTR_NAME = 64
REPLICATION = 128
"""A contiguous file whose replication no loader takes."""
BOTH_REDUNDANCIES = 256
POLICY = 512
"""A striped file without a policy, or with one the image does not have."""
LAYOUT = 1024
"""A file with an erasure coding policy whose block type is not STRIPED."""
IMPOSSIBLE = 2048
"""A block size, length, quota or storage policy outside its range."""
NAME = 4096
OPEN = 8192
"""The file is under construction; no fault."""

MISSING_USE = 2
"""What `audit_inodes` writes over a 0 in the arrays of known serials when a record uses that serial."""

_ACL_USER: int = AclType.USER.value
_ACL_GROUP: int = AclType.GROUP.value
_QUOTA_FIELDS = 1 << (QuotaByStorageTypeEntryProto.storageType >> 3) | 1 << (QuotaByStorageTypeEntryProto.quota >> 3)


@kernel
def _little_endian(buf, pos, size):
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(buf[pos + i]) << np.uint64(8 * i)
    return np.int64(value)


@kernel
def _use(known, serial):
    """Whether a serial is known; 0 is the null string."""
    if serial == 0 or known[serial] == 1:
        return True
    known[serial] = MISSING_USE
    return False


@kernel
def audit_permission(buf, pos, users, groups):
    value = _little_endian(buf, pos, 8)
    flags = 0
    if not _use(users, (value >> USER_SHIFT) & SERIAL_MASK):
        flags |= USER
    if not _use(groups, (value >> GROUP_SHIFT) & SERIAL_MASK):
        flags |= GROUP
    return flags


@kernel
def audit_acl(buf, pos, end, users, groups):
    """Names of the entries of an AclFeatureProto; -1 for damage."""
    flags = 0
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        if tag == AclFeatureProto.entries or tag == AclFeatureProto.entries_unpacked:
            if tag == AclFeatureProto.entries:
                _, pos = read_varint(buf, pos, end)
                if (stop - pos) % 4 != 0:
                    return -1
            while pos < stop:
                entry = _little_endian(buf, pos, 4)
                kind = (entry >> TYPE_SHIFT) & 3
                serial = (entry >> NAME_SHIFT) & SERIAL_MASK
                if kind == _ACL_USER and not _use(users, serial):
                    flags |= ACL_NAME
                if kind == _ACL_GROUP and not _use(groups, serial):
                    flags |= ACL_NAME
                pos += 4
        pos = stop
    return flags


@kernel
def audit_xattrs(buf, pos, end, names):
    """Names in an XAttrFeatureProto; -1 for damage, such as an attribute without its name."""
    flags = 0
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        if tag == XAttrFeatureProto.xAttrs:
            _, pos = read_varint(buf, pos, end)
            named = False
            while pos < stop:
                inner, pos = read_tag(buf, pos, stop)
                behind = skip_field(buf, pos, stop, inner) if pos >= 0 else pos
                if behind < 0:
                    return -1
                if inner == XAttrCompactProto.name:
                    named = True
                    if not _use(names, (_little_endian(buf, pos, 4) >> NAME_SHIFT) & SERIAL_MASK):
                        flags |= XATTR_NAME
                pos = behind
            if not named:
                return -1
        pos = stop
    return flags


@kernel
def audit_quotas(buf, pos, end):
    """0 where every entry of a QuotaByStorageTypeFeatureProto has type and quota, -1 for damage."""
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        if tag == QuotaByStorageTypeFeatureProto.quotas:
            _, pos = read_varint(buf, pos, end)
            found = present_fields(buf, pos, stop)
            if found < 0 or found & _QUOTA_FIELDS != _QUOTA_FIELDS:
                return -1
        pos = stop
    return 0


@kernel
def present_fields(buf, pos, end):
    """A bit for each of the fields 1 to 31 that a message has, -1 for damage."""
    found = 0
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        if tag >> 3 < 32:
            found |= 1 << (tag >> 3)
        pos = stop
    return found


@kernel
def audit_block(buf, pos, end, limit, maxima):
    """Ranges of a BlockProto, and the highest ids and generation stamps; -1 for damage."""
    block_id = np.int64(0)
    genstamp = np.int64(0)
    length = np.int64(0)
    has_id = False
    has_stamp = False
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        if tag == BlockProto.blockId:
            block_id, _ = read_varint(buf, pos, end)
            has_id = True
        elif tag == BlockProto.genStamp:
            genstamp, _ = read_varint(buf, pos, end)
            has_stamp = True
        elif tag == BlockProto.numBytes:
            length, _ = read_varint(buf, pos, end)
        pos = stop
    if not (has_id and has_stamp):
        return -1
    if genstamp < limit:
        maxima[2] = max(maxima[2], genstamp)
    else:
        maxima[1] = max(maxima[1], genstamp)
        if block_id < 0:
            maxima[3] = max(maxima[3], block_id)
        else:
            maxima[0] = max(maxima[0], block_id)
    return IMPOSSIBLE if length < 0 or genstamp < 0 else 0
