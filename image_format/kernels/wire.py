"""Protobuf wire format for kernels: the only reader of fields and records, and the writer of numbers.

All kernels that walk messages use `next_field`. `image_format.kernels.readers` generates kernels for whole messages.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import lean_kernel

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types (protobuf encoding): the form of the value after a tag."""
WIRE_TYPE = 7
"""Bits of a tag that contain the wire type; the higher bits contain the field number."""

VARINT_ERROR = -1
"""Position that readers return for truncated or overlong bytes."""

_MIN_TAG, _MAX_TAG = 1 << 3, (1 << 32) - 1
_ALL_BITS = (1 << 64) - 1


@lean_kernel
def octet(buf, pos):
    """Return the byte at `pos`, which must not be negative, because a check of each position would be slower."""
    return buf[np.uint64(pos)]


@lean_kernel
def fixed64(buf, pos):
    """Return the eight bytes at `pos` as a little-endian uint64."""
    value = np.uint64(0)
    for i in range(8):
        value |= np.uint64(octet(buf, pos + i)) << np.uint64(8 * i)
    return value


@fixed64.in_python
def _fixed64(buf, pos):
    return np.uint64(int.from_bytes(buf[pos : pos + 8].tobytes(), "little"))


@lean_kernel
def copy_bytes(out, at, buf, start, size):
    """Copy `size` bytes from `buf[start]` to `out[at]`, three times as fast as with slices."""
    for i in range(size):
        out[np.uint64(at + i)] = buf[np.uint64(start + i)]


@copy_bytes.in_python
def _copy_bytes(out, at, buf, start, size):
    out[at : at + size] = buf[start : start + size]


@lean_kernel
def read_varint(buf, pos, end):
    """Return (value as int64 bits, next position); the position is `VARINT_ERROR` if no varint ends before `end`."""
    value = np.int64(0)
    shift = 0
    while pos < end and shift < 70:
        byte = np.int64(octet(buf, pos))
        pos += 1
        if shift < 63:
            value |= (byte & 0x7F) << shift
        elif shift == 63:
            value |= (byte & 1) << 63
        if byte < 0x80:
            return value, pos
        shift += 7
    return 0, VARINT_ERROR


@read_varint.in_python
def _read_varint(buf, pos, end):
    value = shift = 0
    while pos < end and shift < 70:
        byte = buf.item(pos)
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return np.uint64(value & _ALL_BITS).astype(np.int64), pos
        shift += 7
    return 0, VARINT_ERROR


@lean_kernel
def next_field(buf, pos, end):
    """Read the field at `pos` of a message that ends at `end`, which is greater than `pos`.

    Returns:
        (tag, value, start, position after the field). `value` is the number of a varint field, the length of a
        delimited field and 0 otherwise; `start` is the first byte of the value, without its length. The position is
        `VARINT_ERROR` for a tag without a field number or beyond 32 bits, for a group, and for a field that exceeds the
        message.
    """
    tag = np.int64(octet(buf, pos))
    start = pos + 1
    if tag >= 0x80:
        tag, start = read_varint(buf, pos, end)
    stop = np.int64(VARINT_ERROR)
    value = np.int64(0)
    wire = tag & WIRE_TYPE
    if start < 0 or tag < _MIN_TAG or tag > _MAX_TAG:
        return tag, value, stop, stop
    if wire == VARINT:
        value, stop = read_varint(buf, start, end)
    elif wire == DELIMITED:
        value, start = read_varint(buf, start, end)
        if start >= 0 and 0 <= value <= end - start:
            stop = start + value
    elif wire == FIXED64 and end - start >= 8:
        stop = start + 8
    elif wire == FIXED32 and end - start >= 4:
        stop = start + 4
    return tag, value, start, stop


@lean_kernel
def record_span(buf, pos):
    """Return (start, end) of a delimited record's message; both are `VARINT_ERROR` if `buf` ends within the record."""
    length, start = read_varint(buf, pos, buf.size)
    if start < 0 or length < 0 or length > buf.size - start:
        return np.int64(VARINT_ERROR), np.int64(VARINT_ERROR)
    return np.int64(start), np.int64(start + length)


@lean_kernel
def varint_size(value):
    """Return the number of bytes that `put_varint` writes; a negative value takes ten bytes."""
    if value < 0:
        return 10
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@lean_kernel
def put_varint(out, pos, value):
    """Write int64 `value` as an unsigned base-128 varint; return the next position."""
    if value < 0:
        for _ in range(9):
            out[pos] = (value & 0x7F) | 0x80
            pos += 1
            value >>= 7
        out[pos] = 1
        return pos + 1
    while value >= 0x80:
        out[pos] = (value & 0x7F) | 0x80
        pos += 1
        value >>= 7
    out[pos] = value
    return pos + 1
