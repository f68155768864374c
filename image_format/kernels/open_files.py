"""Kernels for FILES_UNDERCONSTRUCTION that read entries as ids and paths, and write them from rows and unread files."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.readers import ABSENT, ALONE, read_open_file
from image_format.kernels.tags import FileUnderConstructionEntry
from image_format.kernels.text import valid_utf8
from image_format.kernels.wire import copy_bytes, octet, put_varint, record_span, varint_size

NO_PATH = -1
"""Size of a path that kernels cannot read: the path is not absolute, not UTF-8, or in a record with other fields."""

_ROOT_ROW = 0
_SLASH = 47

UNREAD_DTYPE = np.dtype(
    [
        ("id", "i8"),
        ("slot", "i8"),
        ("name_offset", "i8"),  # in the section
        ("name_length", "i4"),
        ("directory", "i4"),  # row of the file's directory
    ]
)
"""An open file of the base image without a row, as described by its entry. The name is UTF-8."""


@kernel
def count_entries(buf):
    """Return the number of delimited records in a section, or -1 for a damaged section."""
    count = 0
    pos = np.int64(0)
    while 0 <= pos < buf.size:
        _, pos = record_span(buf, pos)
        count += 1
    return np.int64(count if pos >= 0 else -1)


@kernel
def read_entries(buf, offsets, ids, spans):
    """Read as many records as `offsets` has elements; the records must be complete.

    Args:
        offsets, ids: results: the offset and the inode id of each record.
        spans: result: rows of (start, size) of the path; the size is `NO_PATH` if the plain parser must read the path.
    """
    pos = np.int64(0)
    for number in range(offsets.size):
        offsets[number] = pos
        body, end = record_span(buf, pos)
        inode_id, start, size, status = read_open_file(buf, body, end)
        ids[number] = inode_id if inode_id != ABSENT else 0
        spans[number, 0] = start
        plain = status == ALONE and inode_id != ABSENT and start + size == end and _is_plain(buf, start, end)
        spans[number, 1] = size if plain else NO_PATH
        pos = end


@lean_kernel
def _is_plain(buf, start, end):
    """Return whether a path is absolute, has no empty component, and is UTF-8."""
    if start >= end or octet(buf, start) != _SLASH or octet(buf, end - 1) == _SLASH:
        return False
    slash = False
    for pos in range(start, end):
        value = octet(buf, pos)
        if slash and value == _SLASH:
            return False
        slash = value == _SLASH
    return valid_utf8(buf, start, end)


@kernel
def entry_sizes(rows, names, unread, section, wanted, sizes):
    """Fill `sizes` with the size of each file's path, or `NO_PATH` if a name in the path is not UTF-8.

    Args:
        rows, names: arrays of the `InodeTable`.
        unread, section: files without a row (see `UNREAD_DTYPE`), and the section with their names.
        wanted: row of each file, or the inverted number of a file in `unread`.
    """
    for number in range(wanted.size):
        size = np.int64(0)
        row = np.int64(wanted[number])
        if row < 0:
            size += unread[~row]["name_length"] + 1
            row = np.int64(unread[~row]["directory"])
        while row > _ROOT_ROW:
            start, length = rows[row]["name_offset"], np.int64(rows[row]["name_length"])
            if not valid_utf8(names, start, start + length):
                size = np.int64(-1 << 62)
            size += length + 1
            row = np.int64(rows[row]["parent"])
        sizes[number] = size if size > 0 else NO_PATH


@kernel
def encode_entries(rows, names, unread, section, wanted, sizes, out):
    """Write the delimited records of files with paths of these sizes; return the number of bytes written.

    Args:
        rows, names, unread, section, wanted: see `entry_sizes`.
        out: result, with space for the paths and 32 more bytes for each path.
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
        # write the path from its last name to its first name
        while row > _ROOT_ROW:
            at = _put_before(out, at, names, rows[row]["name_offset"], np.int64(rows[row]["name_length"]))
            row = np.int64(rows[row]["parent"])
    return pos


@lean_kernel
def _put_before(out, at, names, start, length):
    """Write a slash and a name that end at `at`; return their start."""
    at -= length
    copy_bytes(out, at, names, start, length)
    out[at - 1] = _SLASH
    return at - 1
