"""Kernels for FILES_UNDERCONSTRUCTION: entries to ids and paths, and rows and unread files to entries."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.tags import FileUnderConstructionEntry
from image_format.kernels.wire import copy_bytes, octet, put_varint, read_varint, varint_size

NO_PATH = -1
"""Size of a path that kernels do not know: it is no absolute path of ASCII, or the record is an odd one."""

_ROOT_ROW = 0
_SLASH = 47
_ASCII = 128

UNREAD_DTYPE = np.dtype(
    [
        ("id", "i8"),
        ("slot", "i8"),
        ("name_offset", "i8"),  # in the section
        ("name_length", "i4"),
        ("directory", "i4"),  # row of the directory it is in
    ]
)
"""An open file of the base image that has no row: what its entry says. The name is ASCII."""


@kernel
def count_entries(buf):
    """Number of delimited records in a section; -1 where one is damaged."""
    count = 0
    pos = np.int64(0)
    while pos < buf.size:
        length, body = read_varint(buf, pos, buf.size)
        if body < 0 or length < 0 or length > buf.size - body:
            return np.int64(-1)
        pos = body + length
        count += 1
    return np.int64(count)


@kernel
def read_entries(buf, offsets, ids, spans):
    """Read as many whole records as `offsets` is long.

    Args:
        offsets, ids: result, where each record starts, and its inode id.
        spans: result, rows of (start, size) of the path; the size is `NO_PATH` where the plain parser has to look.
    """
    pos = np.int64(0)
    for number in range(offsets.size):
        offsets[number] = pos
        length, body = read_varint(buf, pos, buf.size)
        end = body + length
        tag, at = read_varint(buf, body, end)
        inode_id, at = read_varint(buf, at, end) if at >= 0 and tag == FileUnderConstructionEntry.inodeId else (0, -1)
        tag, at = read_varint(buf, at, end) if at >= 0 else (0, -1)
        size, at = read_varint(buf, at, end) if at >= 0 and tag == FileUnderConstructionEntry.fullPath else (0, -1)
        ids[number] = inode_id
        spans[number, 0] = at
        spans[number, 1] = size if at >= 0 and at + size == end and _is_plain(buf, at, end) else NO_PATH
        pos = end


@lean_kernel
def _is_plain(buf, start, end):
    """Whether a path is absolute, has no empty component, and is ASCII."""
    if start >= end or octet(buf, start) != _SLASH or octet(buf, end - 1) == _SLASH:
        return False
    slash = False
    for pos in range(start, end):
        value = octet(buf, pos)
        if value >= _ASCII or (slash and value == _SLASH):
            return False
        slash = value == _SLASH
    return True


@kernel
def entry_sizes(rows, names, unread, section, wanted, sizes):
    """Size of the path of each file, `NO_PATH` where a name in it is not ASCII.

    Args:
        rows, names: of the `InodeTable`.
        unread, section: files that have no row, see `UNREAD_DTYPE`, and the section with their names.
        wanted: row of each file, or the inverted number of one in `unread`.
    """
    for number in range(wanted.size):
        size = np.int64(0)
        row = np.int64(wanted[number])
        if row < 0:
            size += unread[~row]["name_length"] + 1
            row = np.int64(unread[~row]["directory"])
        while row > _ROOT_ROW:
            start, length = rows[row]["name_offset"], np.int64(rows[row]["name_length"])
            for pos in range(start, start + length):
                if octet(names, pos) >= _ASCII:
                    size = np.int64(-1 << 62)
            size += length + 1
            row = np.int64(rows[row]["parent"])
        sizes[number] = size if size > 0 else NO_PATH


@kernel
def encode_entries(rows, names, unread, section, wanted, sizes, out):
    """Write the delimited records of files whose paths have these sizes; returns how many bytes there are.

    Args:
        rows, names, unread, section, wanted: see `entry_sizes`.
        out: room for the paths and 32 bytes more for each.
    """
    pos = np.int64(0)
    for number in range(wanted.size):
        row = np.int64(wanted[number])
        inode_id, size = rows[row]["id"] if row >= 0 else unread[~row]["id"], sizes[number]
        pos = put_varint(out, pos, 2 + varint_size(inode_id) + varint_size(size) + size)
        out[pos] = FileUnderConstructionEntry.inodeId
        pos = put_varint(out, pos + 1, inode_id)
        out[pos] = FileUnderConstructionEntry.fullPath
        pos = put_varint(out, pos + 1, size)
        at = pos = pos + size
        if row < 0:
            file = unread[~row]
            at = _put_before(out, at, section, file["name_offset"], np.int64(file["name_length"]))
            row = np.int64(file["directory"])
        # from the last name to the first
        while row > _ROOT_ROW:
            at = _put_before(out, at, names, rows[row]["name_offset"], np.int64(rows[row]["name_length"]))
            row = np.int64(rows[row]["parent"])
    return pos


@lean_kernel
def _put_before(out, at, names, start, length):
    """Write a slash and a name that end at `at`; returns where they start."""
    at -= length
    copy_bytes(out, at, names, start, length)
    out[at - 1] = _SLASH
    return at - 1
