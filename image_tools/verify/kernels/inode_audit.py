"""Kernel that walks INODE and notes, in bits, what is wrong with each record."""

from __future__ import annotations

import numpy as np

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_format.kernels.jit import kernel, measured_by
from image_format.kernels.tags import INode, INodeDirectory, INodeFile, INodeSymlink
from image_format.kernels.wire import DELIMITED, VARINT, WIRE_TYPE, read_varint, skip_field
from image_format.proto import fsimage_pb2 as pb
from image_tools.verify.kernels.attribute_audit import (
    BOTH_REDUNDANCIES,
    DAMAGED,
    IMPOSSIBLE,
    KIND,
    LAYOUT,
    NAME,
    OPEN,
    POLICY,
    REPLICATION,
    RESERVED_ID,
    audit_acl,
    audit_block,
    audit_permission,
    audit_quotas,
    audit_xattrs,
    present_fields,
)
from image_tools.verify.kernels.tags import read_tag

_CONTIGUOUS: int = pb.CONTIGUOUS
_STRIPED: int = pb.STRIPED
_MAX_BLOCK_SIZE = (1 << 48) - 1
_MAX_STORAGE_POLICY = 15
_MAX_CODING_POLICY = 255


@kernel
def _audit_file(buf, pos, end, users, groups, xattrs, policies, rules, maxima):
    """Flags of an INodeFile, -1 for damage; arguments as in `audit_inodes`."""
    flags = 0
    replication = np.int64(-1)
    block_size = np.int64(0)
    storage_policy = np.int64(0)
    block_type = np.int64(0)
    policy = np.int64(-1)
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        found = 0
        if tag & WIRE_TYPE == VARINT:
            value, _ = read_varint(buf, pos, end)
            if tag == INodeFile.replication:
                replication = value
            elif tag == INodeFile.preferredBlockSize:
                block_size = value
            elif tag == INodeFile.storagePolicyID:
                storage_policy = value
            elif tag == INodeFile.blockType:
                block_type = value
            elif tag == INodeFile.erasureCodingPolicyID:
                policy = value
        elif tag == INodeFile.permission:
            found = audit_permission(buf, pos, users, groups)
        elif tag & WIRE_TYPE == DELIMITED:
            _, pos = read_varint(buf, pos, end)
            if tag == INodeFile.blocks:
                found = audit_block(buf, pos, stop, rules[0], maxima)
            elif tag == INodeFile.fileUC:
                found = OPEN if present_fields(buf, pos, stop) >= 0 else -1
            elif tag == INodeFile.acl:
                found = audit_acl(buf, pos, stop, users, groups)
            elif tag == INodeFile.xAttrs:
                found = audit_xattrs(buf, pos, stop, xattrs)
        if found < 0:
            return -1
        flags |= found
        pos = stop
    if block_size < 1 or block_size > _MAX_BLOCK_SIZE or storage_policy < 0 or storage_policy > _MAX_STORAGE_POLICY:
        flags |= IMPOSSIBLE
    if rules[2] == 0 or (policy < 0 and block_type == _CONTIGUOUS):
        if replication < 1 or replication > rules[1]:
            flags |= REPLICATION
        return flags
    if policy >= 0 and replication >= 0:
        flags |= BOTH_REDUNDANCIES
    if policy < 0 or policy > _MAX_CODING_POLICY or policies[policy] == 0:
        flags |= POLICY
    elif block_type != _STRIPED:
        flags |= LAYOUT
    return flags


@kernel
def _audit_directory(buf, pos, end, users, groups, xattrs):
    """Flags of an INodeDirectory, -1 for damage."""
    flags = 0
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        found = 0
        if tag == INodeDirectory.nsQuota or tag == INodeDirectory.dsQuota:
            value, _ = read_varint(buf, pos, end)
            found = IMPOSSIBLE if value < -1 else 0
        elif tag == INodeDirectory.permission:
            found = audit_permission(buf, pos, users, groups)
        elif tag == INodeDirectory.acl or tag == INodeDirectory.xAttrs or tag == INodeDirectory.typeQuotas:
            _, pos = read_varint(buf, pos, end)
            if tag == INodeDirectory.acl:
                found = audit_acl(buf, pos, stop, users, groups)
            elif tag == INodeDirectory.xAttrs:
                found = audit_xattrs(buf, pos, stop, xattrs)
            else:
                found = audit_quotas(buf, pos, stop)
        if found < 0:
            return -1
        flags |= found
        pos = stop
    return flags


@kernel
def _audit_symlink(buf, pos, end, users, groups):
    """Flags of an INodeSymlink, -1 for damage."""
    flags = 0
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return -1
        if tag == INodeSymlink.permission:
            flags |= audit_permission(buf, pos, users, groups)
        pos = stop
    return flags


@kernel
def _audit_name(buf, pos, size, inode_id):
    """Only the root's name is empty, and no name holds a slash."""
    if (size == 0) != (inode_id == ROOT_INODE_ID):
        return NAME
    for i in range(size):
        if buf[pos + i] == 0x2F:
            return NAME
    return 0


@kernel
def _audit_inode(buf, pos, end, users, groups, xattrs, policies, rules, maxima):
    """(id, kind, flags) of the INode between `pos` and `end`."""
    inode_id = np.int64(0)
    kind = np.int64(0)
    bodies = 0
    flags = 0
    name = pos
    size = np.int64(0)
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return inode_id, kind, DAMAGED
        if tag == INode.type:
            kind, _ = read_varint(buf, pos, end)
        elif tag == INode.id:
            inode_id, _ = read_varint(buf, pos, end)
        elif tag == INode.name:
            size, name = read_varint(buf, pos, end)
        elif tag == INode.file or tag == INode.directory or tag == INode.symlink:
            _, pos = read_varint(buf, pos, end)
            found = 0
            if tag == INode.file:
                bodies |= 1 << FILE
                found = _audit_file(buf, pos, stop, users, groups, xattrs, policies, rules, maxima)
            elif tag == INode.directory:
                bodies |= 1 << DIRECTORY
                found = _audit_directory(buf, pos, stop, users, groups, xattrs)
            else:
                bodies |= 1 << SYMLINK
                found = _audit_symlink(buf, pos, stop, users, groups)
            if found < 0:
                return inode_id, kind, DAMAGED
            flags |= found
        pos = stop
    if inode_id <= 0 or kind < FILE or kind > SYMLINK or bodies == 0:
        return inode_id, kind, DAMAGED
    if bodies != 1 << kind:
        flags |= KIND
        if bodies & (1 << kind) == 0 and bodies & (bodies - 1) != 0:
            return inode_id, kind, DAMAGED
    if inode_id < ROOT_INODE_ID:
        flags |= RESERVED_ID
    return inode_id, kind, flags | _audit_name(buf, name, size, inode_id)


# tables of serials have room for every serial
@measured_by("buf", "ids")
@kernel
def audit_inodes(buf, pos, ids, offsets, kinds, flags, count, users, groups, xattrs, policies, rules, maxima):
    """Walk the delimited INode records of `buf` from `pos`; fill the rows of four arrays from `count` on.

    Args:
        ids, offsets, kinds, flags: results by slot; 0 is the id of a record that cannot be decoded.
        users, groups, xattrs: by serial: 1 where the string table has it; `MISSING_USE` is written where not.
        policies: by id, 1 where the erasure coding policy is known.
        rules: genstampV1Limit, largest replication, 1 where the layout has erasure coding.
        maxima: updated: highest id of a contiguous block, generation stamp, legacy generation stamp, id of a
            striped block.

    Returns:
        (rows filled, position, damaged): position is the section's end, where the arrays were full, or where
        a record starts whose frame is cut.
    """
    size = buf.size
    while pos < size:
        if count == ids.size:
            return count, pos, False
        start = pos
        length, pos = read_varint(buf, pos, size)
        if pos < 0 or length < 0 or length > size - pos:
            return count, start, True
        inode_id, kind, found = _audit_inode(buf, pos, pos + length, users, groups, xattrs, policies, rules, maxima)
        ids[count] = 0 if found & DAMAGED else inode_id
        offsets[count] = start
        kinds[count] = kind if FILE <= kind <= SYMLINK else 0
        flags[count] = found
        count += 1
        pos += length
    return count, pos, False
