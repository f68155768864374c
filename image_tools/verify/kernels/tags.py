"""Tags and names of records, for the kernels of verification."""

from __future__ import annotations

from image_format.kernels.jit import lean_kernel
from image_format.kernels.tags import INode
from image_format.kernels.wire import VARINT_ERROR, read_varint, skip_field

_MIN_TAG, _MAX_TAG = 1 << 3, (1 << 32) - 1


@lean_kernel
def read_tag(buf, pos, end):
    """`read_varint` for a tag, for which 0 to 7 (no field's) and more than 32 bits are damage, too."""
    tag, pos = read_varint(buf, pos, end)
    if tag < _MIN_TAG or tag > _MAX_TAG:
        return tag, VARINT_ERROR
    return tag, pos


@lean_kernel
def record_name(buf, offset):
    """(start, size) of INode.name (or any field 3 of bytes) in the delimited record at `offset`."""
    length, pos = read_varint(buf, offset, buf.size)
    end = pos + length
    start = pos
    size = 0
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        if pos < 0:
            break
        stop = skip_field(buf, pos, end, tag)
        if stop < 0:
            break
        if tag == INode.name:
            size, start = read_varint(buf, pos, end)
        pos = stop
    return start, size
