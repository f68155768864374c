"""Kernels that check permissions, ACLs, xattrs, quotas and blocks of inodes, and the bits for their faults."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.kernels.jit import kernel
from image_format.kernels.readers import read_block, read_type_quota, read_xattr
from image_format.kernels.tags import AclFeatureProto, QuotaByStorageTypeFeatureProto, XAttrFeatureProto
from image_format.kernels.wire import next_field
from image_format.permission import GROUP_SHIFT, NAME_SHIFT, SERIAL_MASK, TYPE_SHIFT, USER_SHIFT, AclType

DAMAGED = 1
"""The record ends within the section, but is not an INode."""
KIND = 2
"""A message of another type is set, alone or together with the message of the record's type."""
RESERVED_ID = 4
USER = 8
GROUP = 16
ACL_NAME = 32
XATTR_NAME = 64
REPLICATION = 128
"""A contiguous file with a replication that no loader accepts."""
BOTH_REDUNDANCIES = 256
POLICY = 512
"""A striped file without a policy, or with a policy that is not in the image."""
LAYOUT = 1024
"""A file with an erasure coding policy whose block type is not STRIPED."""
IMPOSSIBLE = 2048
"""A block size, length, quota or storage policy outside its range."""
NAME = 4096
OPEN = 8192
"""The file is under construction, which is not a fault."""

MISSING_USE = 2
"""Value that `audit_inodes` writes for an unknown serial that a record uses."""

_ACL_USER: int = AclType.USER.value
_ACL_GROUP: int = AclType.GROUP.value

Serials = npt.NDArray[np.uint8]


class KnownSerials(NamedTuple):
    """Arrays by serial: 1 if the string table contains it. Kernels write `MISSING_USE` for a missing serial in use."""

    users: Serials
    groups: Serials
    xattrs: Serials


@kernel
def _little_endian(buf, pos, size):
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(buf[pos + i]) << np.uint64(8 * i)
    return np.int64(value)


@kernel
def _use(known, serial):
    """Return whether a serial is known, and mark an unknown serial; 0 is the null string."""
    if serial == 0 or known[serial] == 1:
        return True
    known[serial] = MISSING_USE
    return False


@kernel
def audit_permission(buf, pos, users, groups):
    """Return flags of the permission at `pos`."""
    value = _little_endian(buf, pos, 8)
    flags = 0
    if not _use(users, (value >> USER_SHIFT) & SERIAL_MASK):
        flags |= USER
    if not _use(groups, (value >> GROUP_SHIFT) & SERIAL_MASK):
        flags |= GROUP
    return flags


@kernel
def audit_acl(buf, pos, end, users, groups):
    """Return flags of the names in an AclFeatureProto, -1 if damaged."""
    flags = 0
    while pos < end:
        tag, value, at, pos = next_field(buf, pos, end)
        if pos < 0 or (tag == AclFeatureProto.entries and value % 4 != 0):
            return -1
        while (tag == AclFeatureProto.entries or tag == AclFeatureProto.entries_unpacked) and at < pos:
            entry = _little_endian(buf, at, 4)
            kind = (entry >> TYPE_SHIFT) & 3
            serial = (entry >> NAME_SHIFT) & SERIAL_MASK
            if kind == _ACL_USER and not _use(users, serial):
                flags |= ACL_NAME
            if kind == _ACL_GROUP and not _use(groups, serial):
                flags |= ACL_NAME
            at += 4
    return flags


@kernel
def audit_xattrs(buf, pos, end, names):
    """Return flags of the names in an XAttrFeatureProto; -1 if it is damaged or an attribute lacks its name."""
    flags = 0
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return -1
        if tag == XAttrFeatureProto.xAttrs:
            name, _, _, status = read_xattr(buf, start, pos)
            if status < 0:
                return -1
            if not _use(names, (_little_endian(buf, name, 4) >> NAME_SHIFT) & SERIAL_MASK):
                flags |= XATTR_NAME
    return flags


@kernel
def audit_quotas(buf, pos, end):
    """Return 0 if every entry of a QuotaByStorageTypeFeatureProto has a type and a quota, -1 if damaged."""
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return -1
        if tag == QuotaByStorageTypeFeatureProto.quotas:
            _, _, status = read_type_quota(buf, start, pos)
            if status < 0:
                return -1
    return 0


@kernel
def audit_client(buf, pos, end):
    """Return `OPEN` if the FileUnderConstructionFeature is whole, -1 if damaged."""
    while 0 <= pos < end:
        _, _, _, pos = next_field(buf, pos, end)
    return OPEN if pos >= 0 else -1


@kernel
def audit_block(buf, pos, end, limit, maxima):
    """Check the ranges of a BlockProto, and raise `maxima`; return flags, -1 if damaged."""
    block_id, genstamp, length, status = read_block(buf, pos, end)
    if status < 0:
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
