"""Kernel that walks INODE and returns the faults of each record as bits."""

from __future__ import annotations

import numpy as np

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_format.kernels.jit import kernel, measured_by
from image_format.kernels.readers import read_redundancy
from image_format.kernels.tags import INode, INodeDirectory, INodeFile, INodeSymlink
from image_format.kernels.wire import next_field, record_span
from image_format.proto import fsimage_pb2 as pb
from image_tools.verify.kernels.attribute_audit import (
    BOTH_REDUNDANCIES,
    DAMAGED,
    IMPOSSIBLE,
    KIND,
    LAYOUT,
    NAME,
    POLICY,
    REPLICATION,
    RESERVED_ID,
    audit_acl,
    audit_block,
    audit_client,
    audit_permission,
    audit_quotas,
    audit_xattrs,
)

_CONTIGUOUS: int = pb.CONTIGUOUS
_STRIPED: int = pb.STRIPED
_MAX_BLOCK_SIZE = (1 << 48) - 1
_MAX_STORAGE_POLICY = 15
_MAX_CODING_POLICY = 255


@kernel
def _audit_file(buf, pos, end, strings, policies, rules, maxima):
    """Return the flags of an INodeFile, -1 if damaged; arguments as in `audit_inodes`."""
    flags = 0
    replication, block_size, storage_policy, block_type, policy, status = read_redundancy(buf, pos, end)
    if status < 0:
        return -1
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        found = 0
        if tag == INodeFile.permission:
            found = audit_permission(buf, start, strings.users, strings.groups)
        elif tag == INodeFile.blocks:
            found = audit_block(buf, start, pos, rules[0], maxima)
        elif tag == INodeFile.fileUC:
            found = audit_client(buf, start, pos)
        elif tag == INodeFile.acl:
            found = audit_acl(buf, start, pos, strings.users, strings.groups)
        elif tag == INodeFile.xAttrs:
            found = audit_xattrs(buf, start, pos, strings.xattrs)
        if found < 0:
            return -1
        flags |= found
    if block_size < 1 or block_size > _MAX_BLOCK_SIZE or storage_policy < 0 or storage_policy > _MAX_STORAGE_POLICY:
        flags |= IMPOSSIBLE
    return flags | _audit_redundancy(replication, block_type, policy, policies, rules)


@kernel
def _audit_redundancy(replication, block_type, policy, policies, rules):
    """Return the flags of a file's replication, or of its erasure coding."""
    if rules[2] == 0 or (policy < 0 and block_type == _CONTIGUOUS):
        return REPLICATION if replication < 1 or replication > rules[1] else 0
    flags = BOTH_REDUNDANCIES if policy >= 0 and replication >= 0 else 0
    if policy < 0 or policy > _MAX_CODING_POLICY or policies[policy] == 0:
        flags |= POLICY
    elif block_type != _STRIPED:
        flags |= LAYOUT
    return flags


@kernel
def _audit_directory(buf, pos, end, strings):
    """Return the flags of an INodeDirectory, -1 if damaged."""
    flags = 0
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return -1
        found = 0
        if tag == INodeDirectory.nsQuota or tag == INodeDirectory.dsQuota:
            found = IMPOSSIBLE if value < -1 else 0
        elif tag == INodeDirectory.permission:
            found = audit_permission(buf, start, strings.users, strings.groups)
        elif tag == INodeDirectory.acl:
            found = audit_acl(buf, start, pos, strings.users, strings.groups)
        elif tag == INodeDirectory.xAttrs:
            found = audit_xattrs(buf, start, pos, strings.xattrs)
        elif tag == INodeDirectory.typeQuotas:
            found = audit_quotas(buf, start, pos)
        if found < 0:
            return -1
        flags |= found
    return flags


@kernel
def _audit_symlink(buf, pos, end, strings):
    """Return the flags of an INodeSymlink, -1 if damaged."""
    flags = 0
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return -1
        if tag == INodeSymlink.permission:
            flags |= audit_permission(buf, start, strings.users, strings.groups)
    return flags


@kernel
def _audit_name(buf, pos, size, inode_id):
    """Return `NAME` for an empty name of an inode other than the root, and for a name with a slash."""
    if (size == 0) != (inode_id == ROOT_INODE_ID):
        return NAME
    for i in range(size):
        if buf[pos + i] == 0x2F:
            return NAME
    return 0


@kernel
def _audit_inode(buf, pos, end, strings, policies, rules, maxima):
    """Return (id, kind, flags) of the INode in `buf[pos:end]`."""
    inode_id = np.int64(0)
    kind = np.int64(0)
    bodies = 0
    flags = 0
    name = pos
    size = np.int64(0)
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        found = 0
        if pos < 0:
            found = -1
        elif tag == INode.type:
            kind = value
        elif tag == INode.id:
            inode_id = value
        elif tag == INode.name:
            size = value
            name = start
        elif tag == INode.file:
            bodies |= 1 << FILE
            found = _audit_file(buf, start, pos, strings, policies, rules, maxima)
        elif tag == INode.directory:
            bodies |= 1 << DIRECTORY
            found = _audit_directory(buf, start, pos, strings)
        elif tag == INode.symlink:
            bodies |= 1 << SYMLINK
            found = _audit_symlink(buf, start, pos, strings)
        if found < 0:
            return inode_id, kind, DAMAGED
        flags |= found
    if inode_id <= 0 or kind < FILE or kind > SYMLINK or bodies == 0:
        return inode_id, kind, DAMAGED
    if bodies != 1 << kind:
        flags |= KIND
        if bodies & (1 << kind) == 0 and bodies & (bodies - 1) != 0:
            return inode_id, kind, DAMAGED
    if inode_id < ROOT_INODE_ID:
        flags |= RESERVED_ID
    return inode_id, kind, flags | _audit_name(buf, name, size, inode_id)


@measured_by("buf", "ids")
@kernel
def audit_inodes(buf, pos, ids, offsets, kinds, flags, count, strings, policies, rules, maxima):
    """Walk the delimited INode records of `buf` from `pos`; fill the rows of four arrays from `count`.

    Args:
        ids, offsets, kinds, flags: results by slot; 0 is the id of a record that cannot be decoded.
        strings: a `KnownSerials`.
        policies: 1 if the erasure coding policy is known, by id.
        rules: genstampV1Limit, largest replication, 1 if the layout has erasure coding.
        maxima: updated with the highest id of a contiguous block, generation stamp, legacy generation stamp, and id of
            a striped block.

    Returns:
        (rows filled, position, damaged): the position is the section's end, where the arrays were full, or the start of
            a truncated record.
    """
    while pos < buf.size and count < ids.size:
        start = pos
        body, pos = record_span(buf, start)
        if body < 0:
            return count, start, True
        inode_id, kind, found = _audit_inode(buf, body, pos, strings, policies, rules, maxima)
        ids[count] = 0 if found & DAMAGED else inode_id
        offsets[count] = start
        kinds[count] = kind if FILE <= kind <= SYMLINK else 0
        flags[count] = found
        count += 1
    return count, pos, False
