"""ACLs and xattrs of inodes of the base image: kernels keep them as they are, and only have to know all of them."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.state import UNUSUAL
from image_format.kernels.inode import NO_ACL
from image_format.kernels.jit import step
from image_format.kernels.tags import (
    AclFeatureProto,
    INode,
    INodeDirectory,
    INodeFile,
    XAttrCompactProto,
    XAttrFeatureProto,
)
from image_format.kernels.wire import read_varint, skip_field

_ENTRY_SIZE = 4


@step
def features_mark(buf, offset):
    """Mark of a row for the record at `offset` of INODE that has features: `NO_ACL`, or 0 where it has one.

    `UNUSUAL` is whatever has more than one ACL and one list of xattrs, both of known fields: symlinks, quotas for
    storage types, damage. Python reads the features when the kernels return (`InodeTable.read_features`).
    """
    length, pos = read_varint(buf, offset, buf.size)
    end = pos + length
    acl = False
    xattrs = False
    bodies = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else np.int64(-1)
        if stop < 0 or tag == INode.symlink:
            return UNUSUAL
        if tag == INode.file or tag == INode.directory:
            bodies += 1
            _, pos = read_varint(buf, pos, end)
            while pos < stop:
                field, pos = read_varint(buf, pos, stop)
                behind = skip_field(buf, pos, stop, field) if pos >= 0 else np.int64(-1)
                if behind < 0:
                    return UNUSUAL
                if field == (INodeFile.acl if tag == INode.file else INodeDirectory.acl):
                    if acl or not _is_acl(buf, pos, behind):
                        return UNUSUAL
                    acl = True
                elif field == (INodeFile.xAttrs if tag == INode.file else INodeDirectory.xAttrs):
                    if xattrs or not _are_xattrs(buf, pos, behind):
                        return UNUSUAL
                    xattrs = True
                elif tag == INode.directory and field == INodeDirectory.typeQuotas:
                    return UNUSUAL
                pos = behind
        pos = stop
    if bodies != 1 or not (acl or xattrs):
        return UNUSUAL
    return 0 if acl else NO_ACL


@step
def _is_acl(buf, pos, end):
    """Whether the message at `pos`, behind its length, is an AclFeatureProto without unknown fields."""
    _, pos = read_varint(buf, pos, end)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if tag == AclFeatureProto.entries:
            size, pos = read_varint(buf, pos, end)
            if pos < 0 or size < 0 or size % _ENTRY_SIZE != 0 or size > end - pos:
                return False
            pos += size
        elif tag == AclFeatureProto.entries_unpacked and pos >= 0:
            pos += _ENTRY_SIZE
        else:
            return False
    return pos == end


@step
def _are_xattrs(buf, pos, end):
    """Whether the message at `pos`, behind its length, is an XAttrFeatureProto without unknown fields."""
    _, pos = read_varint(buf, pos, end)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else np.int64(-1)
        if stop < 0 or tag != XAttrFeatureProto.xAttrs:
            return False
        _, pos = read_varint(buf, pos, end)
        named = False
        while pos < stop:
            field, pos = read_varint(buf, pos, stop)
            behind = skip_field(buf, pos, stop, field) if pos >= 0 else np.int64(-1)
            if behind < 0 or (field != XAttrCompactProto.name and field != XAttrCompactProto.value):
                return False
            named = named or field == XAttrCompactProto.name
            pos = behind
        if not named:
            return False
        pos = stop
    return True
