"""Kernels that tell which inode records of two images surely mean the same, without decoding them."""

from __future__ import annotations

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.tags import INode, INodeDirectory, INodeFile, INodeSymlink
from image_format.kernels.wire import read_varint, skip_field

_ABSENT = -1
_UNCLEAR = -2


@kernel
def _permission_in(buf, pos, end, permission, acl, xattrs):
    """Offset of the fixed64 with the tag `permission`; `_UNCLEAR` where another field names strings too."""
    found = _ABSENT
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0 or tag in (acl, xattrs):
            return _UNCLEAR
        if tag == permission:
            if found >= 0:
                return _UNCLEAR
            found = pos
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return _UNCLEAR
    return found


@kernel
def _permission_offset(buf, pos):
    """Offset of the permission in the delimited INode at `pos`, `_ABSENT`, or `_UNCLEAR`."""
    length, pos = read_varint(buf, pos, buf.size)
    end = pos + length
    found = _ABSENT
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return _UNCLEAR
        stop = skip_field(buf, pos, end, tag)
        if stop < 0:
            return _UNCLEAR
        if tag == INode.file or tag == INode.directory or tag == INode.symlink:
            if found != _ABSENT:
                return _UNCLEAR
            _, body = read_varint(buf, pos, end)
            if tag == INode.file:
                found = _permission_in(buf, body, stop, INodeFile.permission, INodeFile.acl, INodeFile.xAttrs)
            elif tag == INode.directory:
                found = _permission_in(
                    buf, body, stop, INodeDirectory.permission, INodeDirectory.acl, INodeDirectory.xAttrs
                )
            else:
                found = _permission_in(buf, body, stop, INodeSymlink.permission, 0, 0)
            if found == _UNCLEAR:
                return _UNCLEAR
        pos = stop
    return found


@lean_kernel
def _serial(buf, pos):
    """The 24-bit little-endian number at `pos`."""
    return int(buf[pos]) | int(buf[pos + 1]) << 8 | int(buf[pos + 2]) << 16


@lean_kernel
def _same_string(a_strings, a, b_strings, b):
    return a < a_strings.size and b < b_strings.size and a_strings[a] >= 0 and a_strings[a] == b_strings[b]


@kernel
def _same_bytes(a, a_pos, b, b_pos, size):
    for i in range(size):  # noqa: SIM110 - a kernel
        if a[a_pos + i] != b[b_pos + i]:
            return False
    return True


@kernel
def same_records(a, a_bounds, a_users, a_groups, b, b_bounds, b_users, b_groups, renumbered, same):
    """Fill `same`: whether pair k has equal bytes, apart from serials of the same user and group.

    Args:
        a, b: INODE sections.
        a_bounds, b_bounds: rows of (start, end), one a pair of delimited records.
        a_users, a_groups, b_users, b_groups: a number for each serial, alike for the same name, -1 for none.
        renumbered: whether equal serials may stand for different names; records with ACLs or extended
            attributes are then not the same for this function.
    """
    for k in range(same.size):
        same[k] = False
        a_start, b_start = a_bounds[k, 0], b_bounds[k, 0]
        size = a_bounds[k, 1] - a_start
        if size != b_bounds[k, 1] - b_start:
            continue
        if not renumbered:
            same[k] = _same_bytes(a, a_start, b, b_start, size)
            continue
        found = _permission_offset(a, a_start)
        if found == _UNCLEAR:
            continue
        if found == _ABSENT:
            same[k] = _same_bytes(a, a_start, b, b_start, size)
            continue
        # The two mode bytes come first, the group's three and the user's three after them.
        front = found + 2 - a_start
        if (
            _same_bytes(a, a_start, b, b_start, front)
            and _same_bytes(a, found + 8, b, b_start + front + 6, size - front - 6)
            and _same_string(a_groups, _serial(a, found + 2), b_groups, _serial(b, b_start + front))
        ):
            same[k] = _same_string(a_users, _serial(a, found + 5), b_users, _serial(b, b_start + front + 3))
