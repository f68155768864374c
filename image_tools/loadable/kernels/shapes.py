"""Shapes of records: a record of the same shape as an accepted record needs no further check.

The check of an inode in the usual form reads its tags, its lengths, the ends of its numbers and the values of a few
fields. Therefore, a record of the same length that equals an accepted record in these bits is also accepted. The
inodes of an image have few shapes, and comparing the bits takes a third of the time of reading the fields.

A table contains one shape in each of its rows. The length of the record and the length of its name select the row.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import FILE
from image_format.kernels.jit import Kernel, lean_kernel
from image_format.kernels.tags import INode, INodeFile
from image_format.kernels.wire import DELIMITED, VARINT, WIRE_TYPE, fixed64, octet, read_varint

ROWS = 512
WORDS = 24
"""Eight-byte words of the longest record with a shape."""
SIZE, KIND, CREDIT, COLUMNS = 0, 1, 2, 3
"""Columns of the table: length of the record (0: empty row), type of the inode, credit of the row."""

_BYTES = 8 * WORDS
_MAX_CREDIT = 8
_CONTINUED = 0x80
LONGEST_VARINT = 10
_ID = 3
"""Position of the id's first byte in a record in the usual form, after the type and a tag."""


def inlined_kernel(function):
    """Compile as `lean_kernel` does, but inline the function into its callers, because calls would take longer."""
    return Kernel(function, {"_nrt": False, "forceinline": True})


@inlined_kernel
def shape_row(buf, pos, end):
    """Return the row for the record in `buf[pos:end]`, -1 if it is too long or too close to the end of `buf`."""
    if end - pos > _BYTES or pos + _BYTES > buf.size:
        return np.int64(-1)
    at = pos + _ID
    while octet(buf, at) >= _CONTINUED and at < pos + _ID + LONGEST_VARINT:
        at += 1
    return (np.int64(octet(buf, at + 2)) * 37 + (end - pos)) % ROWS


@shape_row.in_python
def _shape_row(buf, pos, end):
    return -1


@inlined_kernel
def kind_of_shape(buf, pos, end, row, table, values, masks):
    """Return the type of the inode if the record has the shape in `row`, otherwise 0.

    Args:
        row: result of `shape_row`.
        table: `COLUMNS` numbers for each row.
        values, masks: for each row, `WORDS` words of an accepted record and of the bits that must be equal.
    """
    if row < 0 or table[row, SIZE] != end - pos:
        return np.int64(0)
    differences = np.uint64(0)
    for word in range((end - pos + 7) >> 3):
        differences |= (fixed64(buf, pos + 8 * word) ^ values[row, word]) & masks[row, word]
    if differences != 0:
        return np.int64(0)
    if table[row, CREDIT] < _MAX_CREDIT:
        table[row, CREDIT] += 1
    return table[row, KIND]


@kind_of_shape.in_python
def _kind_of_shape(buf, pos, end, row, table, values, masks):
    return 0


@lean_kernel
def _require(masks, row, at, bits):
    """Require that these bits of the byte at offset `at` of a record are equal."""
    masks[row, at >> 3] |= np.uint64(bits) << np.uint64(8 * (at & 7))


@lean_kernel
def _decides(tag):
    """Return whether a loader accepts only some values of this field of INodeFile."""
    return (
        tag == INodeFile.replication
        or tag == INodeFile.preferredBlockSize
        or tag == INodeFile.storagePolicyID
        or tag == INodeFile.blockType
    )


@lean_kernel
def note_shape(buf, pos, end, kind, row, table, values, masks):
    """Store the shape of an accepted record in the usual form, unless records often matched the shape in `row`.

    These bits must be equal: the tags, the lengths, the highest bit in each byte of a number, and the values that
    decide whether a loader accepts the record.
    """
    if row < 0:
        return
    table[row, CREDIT] -= 1
    if table[row, CREDIT] >= 0:
        return
    table[row, SIZE], table[row, KIND], table[row, CREDIT] = end - pos, kind, 0
    for word in range(WORDS):
        values[row, word] = fixed64(buf, pos + 8 * word)
        masks[row, word] = 0
    at = pos
    inner = False
    block = pos
    while at < end:
        tag = octet(buf, at)
        _require(masks, row, at - pos, 0xFF)
        at += 1
        wire = tag & WIRE_TYPE
        if wire == DELIMITED:
            length, start = read_varint(buf, at, end)
            for each in range(at, start):
                _require(masks, row, each - pos, 0xFF)
            at = start
            if not inner and tag == INode.name:
                at += length
            elif inner:
                block = start + length
            inner = inner or tag == INode.file or tag == INode.directory
        elif wire == VARINT:
            decides = at > block and kind == FILE and _decides(tag) if inner else tag == INode.type
            _, stop = read_varint(buf, at, end)
            for each in range(at, stop):
                _require(masks, row, each - pos, 0xFF if decides else _CONTINUED)
            at = stop
        else:
            at += 8
