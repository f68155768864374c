"""Finds the complete operations at the start of a buffer, and checks their txids and checksums, with NumPy."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from journal.binary_codec import TERMINATOR
from journal.segment_frames import CHECKSUM_SIZE, HEAD_SIZE, MIN_LENGTH

_LENGTH = Struct(">i")
_TXID_AT = 1 + _LENGTH.size
_AROUND_BODY = 1 + CHECKSUM_SIZE
"""Bytes of an operation that its length field does not count."""

_RESTART = 0x6DD90A9D
"""The number for which the CRC-32 of its four bytes, in little-endian order, is 0."""

Ints = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]


class Frames(NamedTuple):
    """Complete operations: the start of each in a buffer, and the position and the txid after the last operation."""

    starts: Ints
    end: int
    next_txid: int

    @property
    def ends(self) -> Ints:
        """The position after the fields of each operation, where its checksum begins."""
        following: Ints = np.append(self.starts[1:], self.end)[: len(self.starts)]
        return following - CHECKSUM_SIZE


def whole_frames(buffer: bytes, first_txid: int, last_txid: int | None) -> Frames:
    """Find the operations at the start of `buffer` with txids from `first_txid` to at most `last_txid`.

    The result ends before the terminator and before the first operation that is incomplete or has a wrong checksum or
    txid.
    """
    frames = _by_length(buffer, first_txid)
    data = np.frombuffer(buffer, np.uint8)
    expected = np.arange(first_txid, frames.next_txid)
    fits = (_at_each_byte(buffer, ">i8")[frames.starts + _TXID_AT] == expected) & (data[frames.starts] != TERMINATOR)
    if last_txid is not None:
        fits &= expected <= last_txid
    frames = _first(frames, fits, first_txid)
    stored = _at_each_byte(buffer, ">u4")[frames.ends]
    if _all_match(data[: frames.end], frames.ends, stored):
        return frames
    bodies = map(buffer.__getitem__, map(slice, frames.starts.tolist(), frames.ends.tolist()))
    actual = np.fromiter(map(crc32, bodies), np.int64, len(frames.starts))
    return _first(frames, actual == stored, first_txid)


def _at_each_byte(buffer: bytes | bytearray, dtype: str) -> npt.NDArray[np.generic]:
    """Return a view with the number that begins at each byte of a buffer."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(max(0, len(buffer) - size + 1), dtype, buffer, strides=(1,))


def _all_match(data: Octets, places: Ints, checksums: npt.NDArray[np.generic]) -> bool:
    """Return whether all operations in `data` match their checksums, by computing only one CRC.

    Let c be the value of a CRC-32. The four further bytes c xor `_RESTART`, in little-endian order, reset the CRC
    register to its initial value. If these bytes replace each checksum, the CRC of all operations is therefore 0 if
    every checksum is correct. If one checksum is wrong, the CRC is not 0. If several checksums are wrong, the CRC is 0
    only with the probability of a CRC-32 collision.
    """
    chained = bytearray(data)
    _at_each_byte(chained, "<u4")[places] = checksums.astype("<u4") ^ np.uint32(_RESTART)
    return crc32(chained) == 0


def _by_length(buffer: bytes, first_txid: int) -> Frames:
    starts: list[int] = []
    note, length_at = starts.append, _LENGTH.unpack_from
    position = 0
    last = len(buffer) - HEAD_SIZE - CHECKSUM_SIZE
    while position <= last:
        (length,) = length_at(buffer, position + 1)
        if length < MIN_LENGTH:
            break
        note(position)
        position += length + _AROUND_BODY
    if position > len(buffer):
        position = starts.pop()
    return Frames(np.array(starts, np.int64), position, first_txid + len(starts))


def _first(frames: Frames, fits: npt.NDArray[np.bool_], first_txid: int) -> Frames:
    """Return the operations before the first operation for which `fits` is False."""
    if fits.all():
        return frames
    count = int(fits.argmin())
    return Frames(frames.starts[:count], int(frames.starts[count]), first_txid + count)
