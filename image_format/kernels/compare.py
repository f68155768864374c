"""Kernels that find, without decoding, the inode records of two images that certainly have the same meaning."""

from __future__ import annotations

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.tags import INode, INodeDirectory, INodeFile, INodeSymlink
from image_format.kernels.wire import next_field, record_span

_ABSENT = -1
_UNCLEAR = -2


@kernel
def _permission_in(buf, pos, end, permission, acl, xattrs):
    """Return the offset of the fixed64 with the `permission` tag, or `_UNCLEAR` if other fields contain serials too."""
    found = _ABSENT
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0 or tag in (acl, xattrs):
            return _UNCLEAR
        if tag == permission:
            if found >= 0:
                return _UNCLEAR
            found = start
    return found


@kernel
def _permission_offset(buf, pos):
    """Return the offset of the permission in the delimited INode at `pos`, `_ABSENT`, or `_UNCLEAR`."""
    pos, end = record_span(buf, pos)
    if pos < 0:
        return _UNCLEAR
    found = _ABSENT
    while pos < end:
        tag, _, body, pos = next_field(buf, pos, end)
        if pos < 0:
            return _UNCLEAR
        if tag == INode.file or tag == INode.directory or tag == INode.symlink:
            if found != _ABSENT:
                return _UNCLEAR
            if tag == INode.file:
                found = _permission_in(buf, body, pos, INodeFile.permission, INodeFile.acl, INodeFile.xAttrs)
            elif tag == INode.directory:
                found = _permission_in(
                    buf, body, pos, INodeDirectory.permission, INodeDirectory.acl, INodeDirectory.xAttrs
                )
            else:
                found = _permission_in(buf, body, pos, INodeSymlink.permission, 0, 0)
            if found == _UNCLEAR:
                return _UNCLEAR
    return found


@lean_kernel
def _serial(buf, pos):
    """Return the 24-bit little-endian number at `pos`."""
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
    """Set `same` for each pair with equal bytes, apart from different serials of the same user and group.

    Args:
        a, b: INODE sections.
        a_bounds, b_bounds: rows of (start, end) of delimited records, one row for each pair.
        a_users, a_groups, b_users, b_groups: a number for each serial, equal for equal names; -1 for a serial without a
            name.
        renumbered: whether equal serials may mean different names; records with ACLs or extended attributes are then
            treated as different.
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
        # The two bytes of the mode precede three bytes of the group and three bytes of the user.
        front = found + 2 - a_start
        if (
            _same_bytes(a, a_start, b, b_start, front)
            and _same_bytes(a, found + 8, b, b_start + front + 6, size - front - 6)
            and _same_string(a_groups, _serial(a, found + 2), b_groups, _serial(b, b_start + front))
        ):
            same[k] = _same_string(a_users, _serial(a, found + 5), b_users, _serial(b, b_start + front + 3))
