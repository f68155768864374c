"""Frames of operations, each with its length, txid and checksum (see journal.binary_codec)."""

from __future__ import annotations

from engine.replay.kernels.records import crc32, i32, i64
from image_format.kernels.jit import lean_kernel, step

LENGTH, TXID, BODY = 1, 5, 13
"""Behind the opcode: the length of what follows up to the checksum, itself included; the txid; the fields."""
CHECKSUM = 4
"""Bytes behind it."""
_MIN_LENGTH = BODY - LENGTH
NO_END = (1 << 63) - 1
"""A txid behind all others, and as large as a counter can be."""


@step
def frame_end(buf, pos):
    """Where the checksum of the operation at `pos` stands, -1 where no whole operation does."""
    if buf.size - pos < BODY + CHECKSUM:
        return -1
    length = i32(buf, pos + LENGTH)
    end = pos + LENGTH + length
    return end if length >= _MIN_LENGTH and end + CHECKSUM <= buf.size else -1


@step
def checksum_fits(buf, pos, end):
    """Whether the checksum at `end` is that of the operation at `pos`."""
    return crc32(buf, pos, end) == i32(buf, end) & 0xFFFFFFFF


@lean_kernel
def check_frames(buf, pos, stop, last_txid):
    """Walk over the operations that begin before `stop`, from the one at `pos` on, up to `last_txid`.

    What follows that one is not looked at: nobody promised that it is there.

    Returns:
        (position behind the last operation that is whole, whether there is more to walk).
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
