"""Frames of operations, each with its length, transaction id and checksum (see journal.binary_codec)."""

from __future__ import annotations

from engine.replay.kernels.records import crc32, i32, i64
from image_format.kernels.jit import lean_kernel, step

LENGTH, TXID, BODY = 1, 5, 13
"""Offsets of an operation's length field (which counts the bytes from itself to the checksum), txid and fields."""
CHECKSUM = 4
"""Size in bytes of the checksum after the body."""
_MIN_LENGTH = BODY - LENGTH
NO_END = (1 << 63) - 1
"""Transaction id above all others, and maximum of a counter."""


@step
def frame_end(buf, pos):
    """Return the position of the checksum of the operation at `pos`; -1 if the operation is incomplete."""
    if buf.size - pos < BODY + CHECKSUM:
        return -1
    length = i32(buf, pos + LENGTH)
    end = pos + LENGTH + length
    return end if length >= _MIN_LENGTH and end + CHECKSUM <= buf.size else -1


@step
def checksum_fits(buf, pos, end):
    """Return whether the checksum at `end` matches the operation at `pos`."""
    return crc32(buf, pos, end) == i32(buf, end) & 0xFFFFFFFF


@lean_kernel
def check_frames(buf, pos, stop, last_txid):
    """Check the operations from `pos` that begin before `stop`, up to `last_txid`.

    The bytes after that transaction are not read and need not exist.

    Returns:
        (position after the last valid operation, whether unchecked bytes follow).
    """
    while pos < stop:
        end = frame_end(buf, pos)
        if end < 0 or not checksum_fits(buf, pos, end):
            return pos, False
        last = i64(buf, pos + TXID) >= last_txid
        pos = end + CHECKSUM
        if last:
            return pos, False
    return pos, pos < buf.size
