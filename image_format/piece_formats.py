"""Streams that are made of pieces: zlib and gzip, .bz2, and Hadoop's blocks of raw chunks."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview

_LENGTH = Struct(">i")
_WINDOW = 32 * 1024
# an empty last block of deflate
_DEFLATE_END = b"\x03\x00"
_BZIP2_HEAD = b"BZh9"
_BZIP2_END = 0x177245385090
_END_BITS, _CRC_BITS = 48, 32
# Below what the smallest buffer of a Hadoop reader (256 KiB less its overhead) can take.
_BLOCK = 64 * 1024


class _DeflateFormat:
    """Raw deflate: each piece ends on a byte and may refer to the last 32 KiB of the piece before."""

    piece_size = 512 * 1024

    def __init__(self) -> None:
        self._before = b""

    def prepare(self, piece: bytearray) -> Callable[[], bytes]:
        before, self._before = self._before, bytes(piece[-_WINDOW:])
        self._note(piece)
        return partial(_deflate, piece, before)

    def join(self, compressed: bytes) -> bytes:
        return compressed

    def _note(self, piece: bytearray) -> None:
        """Take the piece into the checksum."""
        raise NotImplementedError


def _deflate(piece: bytearray, before: bytes) -> bytes:
    stream = (
        zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=before) if before else zlib.compressobj(wbits=-zlib.MAX_WBITS)
    )
    return stream.compress(piece) + stream.flush(zlib.Z_SYNC_FLUSH)


class ZlibFormat(_DeflateFormat):
    """One RFC 1950 stream."""

    def __init__(self) -> None:
        super().__init__()
        self._adler = zlib.adler32(b"")

    def head(self) -> bytes:
        return b"\x78\x9c"

    def tail(self) -> bytes:
        return _DEFLATE_END + self._adler.to_bytes(4, "big")

    def _note(self, piece: bytearray) -> None:
        self._adler = zlib.adler32(piece, self._adler)


class GzipFormat(_DeflateFormat):
    """One RFC 1952 member with the ten-byte header Java writes: no name, no time."""

    def __init__(self) -> None:
        super().__init__()
        self._crc = 0
        self._size = 0

    def head(self) -> bytes:
        return bytes.fromhex("1f8b0800000000000000")

    def tail(self) -> bytes:
        return _DEFLATE_END + self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")

    def _note(self, piece: bytearray) -> None:
        self._crc = zlib.crc32(piece, self._crc)
        self._size += len(piece)


class BlockFormat:
    """Repeats: int32 uncompressed length of a block, int32 length of its raw chunk, the chunk.

    Args:
        compress: turns a block into a raw chunk.
    """

    piece_size = 16 * _BLOCK

    def __init__(self, compress: Callable[[Buffer], bytes]) -> None:
        self._compress = compress

    def head(self) -> bytes:
        return b""

    def prepare(self, piece: bytearray) -> Callable[[], bytes]:
        return partial(self._frames, piece)

    def join(self, compressed: bytes) -> bytes:
        return compressed

    def tail(self) -> bytes:
        return b""

    def _frames(self, piece: bytearray) -> bytes:
        view = memoryview(piece)
        return b"".join(self._frame(view[start : start + _BLOCK]) for start in range(0, len(view), _BLOCK))

    def _frame(self, block: memoryview) -> bytes:
        chunk = self._compress(block)
        return _LENGTH.pack(len(block)) + _LENGTH.pack(len(chunk)) + chunk


class Bzip2Block(NamedTuple):
    """A block of a .bz2 stream: its bits as a number, how many there are, and the CRC of what they stand for."""

    bits: int
    width: int
    crc: int


class Bzip2Format:
    """One .bz2 stream. A piece is one block, for run-length coding makes it at most a quarter longer than it is."""

    piece_size = 700_000

    def __init__(self) -> None:
        self._crc = 0
        # less than eight bits that the next block goes on from
        self._held = self._held_count = 0

    def head(self) -> bytes:
        return _BZIP2_HEAD

    def prepare(self, piece: bytearray) -> Callable[[], Bzip2Block]:
        return partial(_bzip2_block, piece)

    def join(self, compressed: Bzip2Block) -> bytes:
        self._crc = ((self._crc << 1 | self._crc >> 31) & 0xFFFFFFFF) ^ compressed.crc
        return self._append(compressed.bits, compressed.width)

    def tail(self) -> bytes:
        end = self._append(_BZIP2_END << _CRC_BITS | self._crc, _END_BITS + _CRC_BITS)
        return end + self._append(0, -self._held_count % 8)

    def _append(self, bits: int, count: int) -> bytes:
        """The whole bytes that there are with these bits."""
        bits |= self._held << count
        size, self._held_count = divmod(self._held_count + count, 8)
        self._held = bits & ((1 << self._held_count) - 1)
        return (bits >> self._held_count).to_bytes(size, "big")


def _bzip2_block(piece: bytearray) -> Bzip2Block:
    """Compress a piece on its own and take its block out of that stream."""
    stream = bz2.compress(piece)
    end = int.from_bytes(stream[-16:], "big")
    padding = next(bits for bits in range(8) if (end >> bits + _CRC_BITS) & ((1 << _END_BITS) - 1) == _BZIP2_END)
    beyond = _END_BITS + _CRC_BITS + padding
    block = stream[len(_BZIP2_HEAD) :]
    return Bzip2Block(int.from_bytes(block, "big") >> beyond, 8 * len(block) - beyond, end >> padding & 0xFFFFFFFF)
