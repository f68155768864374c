"""Kernels that convert inode attributes to another layout; they count unsupported attributes and renumber serials.

They modify writable copies of records. Serials are stored in fields of fixed width (permission, ACL entries, xattr
names), so that a record keeps its size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.readers import read_type_quota, read_xattr
from image_format.kernels.tags import (
    AclFeatureProto,
    INode,
    INodeDirectory,
    INodeFile,
    INodeSymlink,
    QuotaByStorageTypeFeatureProto,
    XAttrFeatureProto,
)
from image_format.kernels.wire import next_field
from image_format.permission import NAME_SHIFT, SERIAL_MASK, TYPE_SHIFT, AclType

STRIPED = 0
WIDE_REPLICATION = 1
PROVIDED_POLICIES = 2
NVDIMM_POLICIES = 3
TYPE_QUOTAS = 4
PROVIDED_QUOTAS = 5
NVDIMM_QUOTAS = 6
EC_XATTRS = 7
MARKED_SNAPSHOTS = 8
DIFF_BLOCKS = 9
SM4_ZONES = 10
FINDINGS = 11
"""Rows of `found`, one for each kind of finding: number of findings, and id of the first affected inode."""

OK, DAMAGED, NO_STRING = 0, 1, 2
"""Outcome of a conversion: success, a damaged record, or a serial that the string table lacks."""
_MAX_REPLICATION_HADOOP_3 = 2047
_PROVIDED_POLICY, _NVDIMM_POLICY = 1, 14
_PROVIDED_TYPE, _NVDIMM_TYPE = 5, 6
# ZoneEncryptionInfoProto.suite, and CipherSuiteProto.SM4_CTR_NOPADDING of hdfs.proto
_SUITE_TAG, _SM4 = 1 << 3, 3
_ACL_USER: int = AclType.USER.value
_ACL_GROUP: int = AclType.GROUP.value

Serials = npt.NDArray[np.int64]


class Conversion(NamedTuple):
    """Changes and findings of a conversion.

    Attributes:
        users, groups, xattrs: new serials by old serial, or 0 if the old table lacks the serial; empty arrays change
            nothing.
        special: packed xattr names of the erasure coding policy, marked snapshots, the storage policy and encryption
            zones; -1 for a name that the string table lacks.
        found: result: `FINDINGS` rows of (count, id of the first inode).
    """

    users: Serials
    groups: Serials
    xattrs: Serials
    special: Serials
    found: Serials


@lean_kernel
def note(found, row, inode_id):
    """Count a finding, and record the inode of the first finding."""
    if found[row, 0] == 0:
        found[row, 1] = inode_id
    found[row, 0] += 1


@lean_kernel
def _renumber_bytes(buf, pos, serials):
    """Renumber the three-byte serial at `pos`; an empty map leaves it unchanged."""
    serial = np.int64(buf[pos]) | np.int64(buf[pos + 1]) << 8 | np.int64(buf[pos + 2]) << 16
    result = OK
    if serials.size and serial:
        fresh = serials[serial] if serial < serials.size else np.int64(0)
        if fresh == 0:
            result = NO_STRING
        buf[pos] = fresh & 0xFF
        buf[pos + 1] = fresh >> 8 & 0xFF
        buf[pos + 2] = fresh >> 16 & 0xFF
    return result


@lean_kernel
def _renumber_bits(buf, pos, serials):
    """Renumber the serial in bits 6-29 of the fixed32 at `pos`; an empty map leaves it unchanged."""
    packed = (
        np.int64(buf[pos]) | np.int64(buf[pos + 1]) << 8 | np.int64(buf[pos + 2]) << 16 | np.int64(buf[pos + 3]) << 24
    )
    serial = packed >> NAME_SHIFT & SERIAL_MASK
    result = OK
    if serials.size and serial:
        fresh = serials[serial] if serial < serials.size else np.int64(0)
        if fresh == 0:
            result = NO_STRING
        packed = packed & ~(np.int64(SERIAL_MASK) << NAME_SHIFT) | fresh << NAME_SHIFT
        for i in range(4):
            buf[pos + i] = packed >> 8 * i & 0xFF
    return result


@kernel
def _permission(buf, pos, rules):
    """Convert the fixed64 permission at `pos`: group in bytes 2-4, user in bytes 5-7."""
    return max(_renumber_bytes(buf, pos + 2, rules.groups), _renumber_bytes(buf, pos + 5, rules.users))


@kernel
def _acl(buf, pos, end, rules):
    """Convert an AclFeatureProto: fixed32 entries, packed or not."""
    result = OK
    while pos < end:
        tag, value, at, pos = next_field(buf, pos, end)
        if pos < 0 or (tag == AclFeatureProto.entries and value % 4):
            return DAMAGED
        while (tag == AclFeatureProto.entries or tag == AclFeatureProto.entries_unpacked) and at < pos:
            kind = buf[at] >> TYPE_SHIFT & 3
            if kind == _ACL_USER:
                result = max(result, _renumber_bits(buf, at, rules.users))
            elif kind == _ACL_GROUP:
                result = max(result, _renumber_bits(buf, at, rules.groups))
            at += 4
    return result


@lean_kernel
def _note_policy(policy, inode_id, found):
    if policy == _PROVIDED_POLICY:
        note(found, PROVIDED_POLICIES, inode_id)
    if policy == _NVDIMM_POLICY:
        note(found, NVDIMM_POLICIES, inode_id)


@kernel
def _note_zone(buf, pos, end, inode_id, found):
    """Count an encryption zone if its ZoneEncryptionInfoProto contains the SM4 cipher; ignore a damaged message."""
    suite = np.int64(0)
    while 0 <= pos < end:
        tag, value, _, pos = next_field(buf, pos, end)
        if pos >= 0 and tag == _SUITE_TAG:
            suite = value
    if suite == _SM4:
        note(found, SM4_ZONES, inode_id)


@kernel
def _xattr(buf, pos, end, rules, inode_id):
    """Convert an XAttrCompactProto."""
    name, start, size, status = read_xattr(buf, pos, end)
    if status < 0:
        return DAMAGED
    packed = np.int64(0)
    for i in range(4):
        packed |= np.int64(buf[name + i]) << 8 * i
    if packed == rules.special[0]:
        note(rules.found, EC_XATTRS, inode_id)
    if packed == rules.special[1]:
        note(rules.found, MARKED_SNAPSHOTS, inode_id)
    if packed == rules.special[2] and size == 1:
        _note_policy(np.int64(buf[start]), inode_id, rules.found)
    if packed == rules.special[3]:
        _note_zone(buf, start, start + size, inode_id, rules.found)
    return _renumber_bits(buf, name, rules.xattrs)


@kernel
def _xattr_list(buf, pos, end, rules, inode_id):
    """Convert an XAttrFeatureProto."""
    result = OK
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == XAttrFeatureProto.xAttrs:
            result = max(result, _xattr(buf, start, pos, rules, inode_id))
    return result


@kernel
def _type_quotas(buf, pos, end, inode_id, found):
    """Count the quotas of a QuotaByStorageTypeFeatureProto."""
    note(found, TYPE_QUOTAS, inode_id)
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == QuotaByStorageTypeFeatureProto.quotas:
            kind, _, status = read_type_quota(buf, start, pos)
            if status < 0:
                return DAMAGED
            if kind == _PROVIDED_TYPE:
                note(found, PROVIDED_QUOTAS, inode_id)
            if kind == _NVDIMM_TYPE:
                note(found, NVDIMM_QUOTAS, inode_id)
    return OK


@kernel
def convert_file(buf, pos, end, rules, inode_id):
    """Convert an INodeFile."""
    result = OK
    striped = False
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == INodeFile.permission:
            result = max(result, _permission(buf, start, rules))
        elif tag == INodeFile.acl:
            result = max(result, _acl(buf, start, pos, rules))
        elif tag == INodeFile.xAttrs:
            result = max(result, _xattr_list(buf, start, pos, rules, inode_id))
        elif tag == INodeFile.replication and value > _MAX_REPLICATION_HADOOP_3:
            note(rules.found, WIDE_REPLICATION, inode_id)
        elif tag == INodeFile.storagePolicyID:
            _note_policy(value, inode_id, rules.found)
        elif tag == INodeFile.blockType:
            striped = striped or value != 0
        elif tag == INodeFile.erasureCodingPolicyID:
            striped = True
    if striped:
        note(rules.found, STRIPED, inode_id)
    return result


@kernel
def convert_directory(buf, pos, end, rules, inode_id):
    """Convert an INodeDirectory."""
    result = OK
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == INodeDirectory.permission:
            result = max(result, _permission(buf, start, rules))
        elif tag == INodeDirectory.acl:
            result = max(result, _acl(buf, start, pos, rules))
        elif tag == INodeDirectory.xAttrs:
            result = max(result, _xattr_list(buf, start, pos, rules, inode_id))
        elif tag == INodeDirectory.typeQuotas:
            result = max(result, _type_quotas(buf, start, pos, inode_id, rules.found))
    return result


@kernel
def _symlink(buf, pos, end, rules):
    """Convert an INodeSymlink."""
    result = OK
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == INodeSymlink.permission:
            result = max(result, _permission(buf, start, rules))
    return result


@kernel
def convert_inode(buf, pos, end, rules):
    """Convert an INode."""
    result = OK
    inode_id = np.int64(0)
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == INode.id:
            inode_id = value
        elif tag == INode.file:
            result = max(result, convert_file(buf, start, pos, rules, inode_id))
        elif tag == INode.directory:
            result = max(result, convert_directory(buf, start, pos, rules, inode_id))
        elif tag == INode.symlink:
            result = max(result, _symlink(buf, start, pos, rules))
    return result
