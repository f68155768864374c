"""ACLs and xattrs of base inodes, which kernels can copy only if they support all fields."""

from __future__ import annotations

from engine.replay.kernels.state import UNUSUAL
from image_format.kernels.inode import NO_ACL
from image_format.kernels.jit import step
from image_format.kernels.readers import ALONE, read_xattr
from image_format.kernels.tags import AclFeatureProto, INode, INodeDirectory, INodeFile, XAttrFeatureProto
from image_format.kernels.wire import next_field, record_span

_ENTRY_SIZE = 4


@step
def features_mark(buf, offset):
    """Return the row mark for the INODE record with features at `offset`: `NO_ACL`, or 0 if the record has an ACL.

    The result is `UNUSUAL` for a damaged record, and for a record with features other than an ACL and xattrs with known
    fields. Examples are a symlink or storage type quotas. Python reads the features when the kernels return
    (`InodeTable.read_features`).
    """
    pos, end = record_span(buf, offset)
    acls = 0
    lists = 0
    bodies = 0
    while 0 <= pos < end:
        tag, _, at, pos = next_field(buf, pos, end)
        if pos < 0 or tag == INode.symlink:
            return UNUSUAL
        if tag != INode.file and tag != INode.directory:
            continue
        bodies += 1
        while at < pos:
            field, _, start, at = next_field(buf, at, pos)
            if at < 0:
                return UNUSUAL
            if field == (INodeFile.acl if tag == INode.file else INodeDirectory.acl):
                acls += 1 if _is_acl(buf, start, at) else 2
            elif field == (INodeFile.xAttrs if tag == INode.file else INodeDirectory.xAttrs):
                lists += 1 if _are_xattrs(buf, start, at) else 2
            elif tag == INode.directory and field == INodeDirectory.typeQuotas:
                return UNUSUAL
    if bodies != 1 or acls > 1 or lists > 1 or acls + lists == 0:
        return UNUSUAL
    return 0 if acls else NO_ACL


@step
def _is_acl(buf, pos, end):
    """Return whether a message is an AclFeatureProto without unknown fields."""
    while 0 <= pos < end:
        tag, value, _, pos = next_field(buf, pos, end)
        packed = tag == AclFeatureProto.entries and value % _ENTRY_SIZE == 0
        if not packed and tag != AclFeatureProto.entries_unpacked:
            return False
    return pos == end


@step
def _are_xattrs(buf, pos, end):
    """Return whether a message is an XAttrFeatureProto without unknown fields."""
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        _, _, _, status = read_xattr(buf, start, pos)
        if tag != XAttrFeatureProto.xAttrs or status != ALONE:
            return False
    return pos == end
