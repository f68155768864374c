"""Kernels for the attributes of one inode: what a layout may not hold is counted, string serials are renumbered.

They work on writable copies of records. Serials lie in fields of fixed width (permission, ACL entries, xattr names),
so that no record changes its size. Arguments are those of `convert.convert_inodes`.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.tags import (
    AclFeatureProto,
    INode,
    INodeDirectory,
    INodeFile,
    INodeSymlink,
    QuotaByStorageTypeEntryProto,
    QuotaByStorageTypeFeatureProto,
    XAttrCompactProto,
    XAttrFeatureProto,
)
from image_format.kernels.wire import read_varint, skip_field
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
FINDINGS = 10
"""Rows of `found`: how many there are of each, and the id of the first inode that has one."""

OK, DAMAGED, NO_STRING = 0, 1, 2
"""Outcome of a walk: well, a damaged record, a serial that the string table does not have."""
_MAX_REPLICATION_HADOOP_3 = 2047
_PROVIDED_POLICY, _NVDIMM_POLICY = 1, 14
_PROVIDED_TYPE, _NVDIMM_TYPE = 5, 6
_ACL_USER: int = AclType.USER.value
_ACL_GROUP: int = AclType.GROUP.value
_NO_BODY = -1


@lean_kernel
def note(found, row, inode_id):
    if found[row, 0] == 0:
        found[row, 1] = inode_id
    found[row, 0] += 1


@lean_kernel
def _renumber_bytes(buf, pos, serials):
    """Renumber the three-byte serial at `pos`; an empty map leaves it."""
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
    """Renumber the serial in bits 6-29 of the fixed32 at `pos`; an empty map leaves it."""
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


@lean_kernel
def length_delimited(buf, pos, end):
    """(start, end) of the length-delimited value at `pos`, both negative where it does not fit."""
    length, start = read_varint(buf, pos, end)
    stop = start + length
    if start < 0 or length < 0 or length > end - start:
        start = _NO_BODY
        stop = _NO_BODY
    return start, stop


@kernel
def _permission(buf, pos, end, users, groups):
    """The fixed64 permission at `pos`: group in bytes 2-4, user in bytes 5-7."""
    if end - pos < 8:
        return DAMAGED
    return max(_renumber_bytes(buf, pos + 2, groups), _renumber_bytes(buf, pos + 5, users))


@kernel
def _acl_entry(buf, pos, users, groups):
    kind = buf[pos] >> TYPE_SHIFT & 3
    if kind == _ACL_USER:
        return _renumber_bits(buf, pos, users)
    if kind == _ACL_GROUP:
        return _renumber_bits(buf, pos, groups)
    return OK


@kernel
def _acl(buf, pos, end, users, groups):
    """An AclFeatureProto: fixed32 entries, packed or not."""
    result = OK
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == AclFeatureProto.entries:
            pos, stop = length_delimited(buf, pos, end)
            if pos < 0 or (stop - pos) % 4:
                return DAMAGED
            while pos < stop:
                result = max(result, _acl_entry(buf, pos, users, groups))
                pos += 4
        elif tag == AclFeatureProto.entries_unpacked:
            if end - pos < 4:
                return DAMAGED
            result = max(result, _acl_entry(buf, pos, users, groups))
            pos += 4
        else:
            pos = skip_field(buf, pos, end, tag)
            if pos < 0:
                return DAMAGED
    return result


@lean_kernel
def _note_policy(policy, inode_id, found):
    if policy == _PROVIDED_POLICY:
        note(found, PROVIDED_POLICIES, inode_id)
    if policy == _NVDIMM_POLICY:
        note(found, NVDIMM_POLICIES, inode_id)


@kernel
def _xattr(buf, pos, end, xattrs, special, inode_id, found):
    """An XAttrCompactProto; `special` has the packed names that mean something, see `convert_inodes`."""
    result = OK
    packed = np.int64(-1)
    value = np.int64(-1)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        start = pos
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return DAMAGED
        if tag == XAttrCompactProto.name:
            packed = np.int64(0)
            for i in range(4):
                packed |= np.int64(buf[start + i]) << 8 * i
            result = max(result, _renumber_bits(buf, start, xattrs))
        elif tag == XAttrCompactProto.value:
            start, stop = length_delimited(buf, start, end)
            value = np.int64(buf[start]) if stop - start == 1 else np.int64(-1)
    if packed == special[0]:
        note(found, EC_XATTRS, inode_id)
    if packed == special[1]:
        note(found, MARKED_SNAPSHOTS, inode_id)
    if packed == special[2]:
        _note_policy(value, inode_id, found)
    return result


@kernel
def _xattr_list(buf, pos, end, xattrs, special, inode_id, found):
    result = OK
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag == XAttrFeatureProto.xAttrs:
            pos, stop = length_delimited(buf, pos, end)
            if pos < 0:
                return DAMAGED
            result = max(result, _xattr(buf, pos, stop, xattrs, special, inode_id, found))
            pos = stop
        else:
            pos = skip_field(buf, pos, end, tag)
            if pos < 0:
                return DAMAGED
    return result


@kernel
def _type_quotas(buf, pos, end, inode_id, found):
    """A QuotaByStorageTypeFeatureProto."""
    note(found, TYPE_QUOTAS, inode_id)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        if tag != QuotaByStorageTypeFeatureProto.quotas:
            pos = skip_field(buf, pos, end, tag)
            if pos < 0:
                return DAMAGED
            continue
        pos, stop = length_delimited(buf, pos, end)
        if pos < 0:
            return DAMAGED
        while pos < stop:
            tag, pos = read_varint(buf, pos, stop)
            start = pos
            if pos >= 0:
                pos = skip_field(buf, pos, stop, tag)
            if pos < 0:
                return DAMAGED
            if tag == QuotaByStorageTypeEntryProto.storageType:
                kind, _ = read_varint(buf, start, stop)
                if kind == _PROVIDED_TYPE:
                    note(found, PROVIDED_QUOTAS, inode_id)
                if kind == _NVDIMM_TYPE:
                    note(found, NVDIMM_QUOTAS, inode_id)
    return OK


@kernel
def convert_file(buf, pos, end, users, groups, xattrs, special, inode_id, found):
    """An INodeFile."""
    result = OK
    striped = False
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        start = pos
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return DAMAGED
        if tag == INodeFile.permission:
            result = max(result, _permission(buf, start, end, users, groups))
        elif tag == INodeFile.acl:
            start, stop = length_delimited(buf, start, end)
            result = max(result, _acl(buf, start, stop, users, groups))
        elif tag == INodeFile.xAttrs:
            start, stop = length_delimited(buf, start, end)
            result = max(result, _xattr_list(buf, start, stop, xattrs, special, inode_id, found))
        elif tag == INodeFile.replication:
            value, _ = read_varint(buf, start, end)
            if value > _MAX_REPLICATION_HADOOP_3:
                note(found, WIDE_REPLICATION, inode_id)
        elif tag == INodeFile.storagePolicyID:
            value, _ = read_varint(buf, start, end)
            _note_policy(value, inode_id, found)
        elif tag == INodeFile.blockType:
            value, _ = read_varint(buf, start, end)
            striped = striped or value != 0
        elif tag == INodeFile.erasureCodingPolicyID:
            striped = True
    if striped:
        note(found, STRIPED, inode_id)
    return result


@kernel
def convert_directory(buf, pos, end, users, groups, xattrs, special, inode_id, found):
    """An INodeDirectory."""
    result = OK
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        start = pos
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return DAMAGED
        if tag == INodeDirectory.permission:
            result = max(result, _permission(buf, start, end, users, groups))
        elif tag == INodeDirectory.acl:
            start, stop = length_delimited(buf, start, end)
            result = max(result, _acl(buf, start, stop, users, groups))
        elif tag == INodeDirectory.xAttrs:
            start, stop = length_delimited(buf, start, end)
            result = max(result, _xattr_list(buf, start, stop, xattrs, special, inode_id, found))
        elif tag == INodeDirectory.typeQuotas:
            start, stop = length_delimited(buf, start, end)
            result = max(result, _type_quotas(buf, start, stop, inode_id, found))
    return result


@kernel
def _symlink(buf, pos, end, users, groups):
    """An INodeSymlink."""
    result = OK
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        start = pos
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return DAMAGED
        if tag == INodeSymlink.permission:
            result = max(result, _permission(buf, start, end, users, groups))
    return result


@kernel
def convert_inode(buf, pos, end, users, groups, xattrs, special, found):
    """An INode."""
    result = OK
    inode_id = np.int64(0)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return DAMAGED
        start = pos
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return DAMAGED
        if tag == INode.id:
            inode_id, _ = read_varint(buf, start, end)
        elif tag == INode.file:
            start, stop = length_delimited(buf, start, end)
            result = max(result, convert_file(buf, start, stop, users, groups, xattrs, special, inode_id, found))
        elif tag == INode.directory:
            start, stop = length_delimited(buf, start, end)
            result = max(result, convert_directory(buf, start, stop, users, groups, xattrs, special, inode_id, found))
        elif tag == INode.symlink:
            start, stop = length_delimited(buf, start, end)
            result = max(result, _symlink(buf, start, stop, users, groups))
    return result
