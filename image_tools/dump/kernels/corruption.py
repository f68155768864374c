"""Kernel that looks for inodes that directories name and the INODE section lacks."""

from __future__ import annotations

from image_format.kernels.jit import lean_kernel
from image_format.kernels.packed import find_packed
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, read_varint, skip_field

DIRECTORY, CHILD, REFERENCE = range(3)
"""Kinds of missing inodes: the directory of an entry, one of its children, one that it has by a reference."""


@lean_kernel
def find_missing(buf, pos, ids, referred, out):
    """Walk the DirEntry records from `pos` on.

    Args:
        buf: INODE_DIR; ids: of all inodes, ascending; referred: id by number of a reference.
        out: result, rows of (what is missing, inode id, id of the entry's directory), whose own row comes first.

    Returns:
        (position of the first entry that was not walked whole, rows that were filled, whether it is damaged; it has
        no room if it is not).
    """
    count = 0
    while pos < buf.size:
        begun = count
        length, start = read_varint(buf, pos, buf.size)
        if start < 0 or length < 0 or length > buf.size - start:
            return pos, begun, True
        end = start + length
        parent = 0
        at = start
        while at < end:
            tag, at = read_varint(buf, at, end)
            stop = skip_field(buf, at, end, tag) if at >= 0 else -1
            if stop < 0:
                return pos, begun, True
            if tag == DirEntry.parent:
                parent, _ = read_varint(buf, at, end)
            at = stop
        if find_packed(ids, parent) < 0:
            if count == out.shape[0]:
                return pos, begun, False
            out[count, 0] = DIRECTORY
            out[count, 1] = parent
            out[count, 2] = parent
            count += 1
        at = start
        while at < end:
            tag, at = read_varint(buf, at, end)
            stop = skip_field(buf, at, end, tag)
            field = tag | DELIMITED
            if field == DirEntry.children or field == DirEntry.refChildren:
                if tag == field:
                    _, at = read_varint(buf, at, end)
                while at < stop:
                    child, at = read_varint(buf, at, stop)
                    if at < 0:
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
            at = stop
        pos = end
    return pos, count, False
