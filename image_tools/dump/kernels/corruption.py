"""Kernel that finds inodes that directories list, but the INODE section does not contain."""

from __future__ import annotations

from image_format.kernels.jit import lean_kernel
from image_format.kernels.packed import find_packed
from image_format.kernels.readers import read_parent
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, next_field, read_varint, record_span

DIRECTORY, CHILD, REFERENCE = range(3)
"""Kinds of missing inodes: the directory of an entry, one of its children, or a child by reference."""


@lean_kernel
def find_missing(buf, pos, ids, referred, out):
    """Walk the DirEntry records from `pos`.

    Args:
        buf, ids, referred: INODE_DIR, the ids of all inodes in ascending order, and the id by number of a reference.
        out: result: rows of (kind of missing inode, inode id, id of the entry's directory), the directory's row first.

    Returns:
        (position of the first entry that was not walked completely, rows filled, damaged). If that entry is not
        damaged, `out` has no space for it.
    """
    count = 0
    while pos < buf.size:
        begun = count
        at, end = record_span(buf, pos)
        parent, status = read_parent(buf, at, end)
        if at < 0 or status < 0:
            return pos, begun, True
        if find_packed(ids, parent) < 0:
            if count == out.shape[0]:
                return pos, begun, False
            out[count, 0] = DIRECTORY
            out[count, 1] = parent
            out[count, 2] = parent
            count += 1
        while at < end:
            tag, _, value, at = next_field(buf, at, end)
            field = tag | DELIMITED
            while (field == DirEntry.children or field == DirEntry.refChildren) and value < at:
                child, value = read_varint(buf, value, at)
                if value < 0:
                    return pos, begun, True
                if field == DirEntry.refChildren:
                    if child < 0 or child >= referred.size:
                        return pos, begun, True
                    child = referred[child]
                if find_packed(ids, child) < 0:
                    if count == out.shape[0]:
                        return pos, begun, False
                    out[count, 0] = CHILD if field == DirEntry.children else REFERENCE
                    out[count, 1] = child
                    out[count, 2] = parent
                    count += 1
        pos = end
    return pos, count, False
