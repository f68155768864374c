"""Compresses one stream in pieces on all cores; pieces are joined in order, so the bytes are always the same.

`PiecewiseCompressor` drives the threads. A `PieceFormat` defines how pieces become a stream: zlib and gzip, .bz2, and
Hadoop's blocks of raw chunks.
"""

from __future__ import annotations

import bz2
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from struct import Struct
from typing import Generic, NamedTuple, Protocol, TypeVar

from hadoop_common.process_tuning import available_cores

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

# Number of queued or running pieces per thread, enough to keep all threads busy.
_AHEAD = 2


class PieceFormat(Protocol[T]):
    """Format of one stream made of pieces.

    One thread calls the methods in the order of the stream; any thread may call the result of `prepare`.

    Attributes:
        piece_size: size in bytes of every piece except the last, which has at least one byte.
    """

    piece_size: int

    def head(self) -> bytes:
        """Return the start of the stream."""

    def prepare(self, piece: bytearray) -> Callable[[], T]:
        """Return the function that compresses the next piece."""

    def join(self, compressed: T) -> bytes:
        """Return the bytes that the next piece adds to the stream."""

    def tail(self) -> bytes:
        """Return the end of the stream."""


class PiecewiseCompressor(Generic[T]):
    """`Compressor` that processes a limited number of pieces in threads, so that memory does not grow with the stream.

    Args:
        form: format of the stream, used for one stream only.
        threads: number of threads, or 0 for one per core; with 1, the calling thread compresses.
    """

    def __init__(self, form: PieceFormat[T], threads: int = 0) -> None:
        self._form = form
        self._threads = threads or available_cores()
        self._ready = [form.head()]
        self._piece = bytearray()
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[T]] = deque()

    def compress(self, buffer: Buffer) -> bytes:
        """Add bytes and return the finished part of the stream; raise errors of earlier pieces."""
        view = memoryview(buffer)
        start = 0
        while start < len(view):
            end = start + self._form.piece_size - len(self._piece)
            self._piece += view[start:end]
            start = end
            if len(self._piece) == self._form.piece_size:
                self._submit()
        return self._take()

    def finish(self) -> bytes:
        """Return the rest of the stream."""
        if self._piece:
            self._submit()
        while self._running:
            self._collect()
        self._ready.append(self._form.tail())
        self.close()
        return self._take()

    def close(self) -> None:
        """Stop the threads; discard pieces that were not started."""
        self._running.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _submit(self) -> None:
        piece, self._piece = self._piece, bytearray()
        task = self._form.prepare(piece)
        # A stream of one piece is not worth a thread.
        if self._threads == 1 or (not self._running and len(piece) < self._form.piece_size):
            self._ready.append(self._form.join(task()))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "image-compress")
        self._running.append(self._pool.submit(task))
        while len(self._running) > _AHEAD * self._threads or (self._running and self._running[0].done()):
            self._collect()

    def _collect(self) -> None:
        self._ready.append(self._form.join(self._running.popleft().result()))

    def _take(self) -> bytes:
        ready, self._ready = self._ready, []
        return b"".join(ready)


_LENGTH = Struct(">i")
_WINDOW = 32 * 1024
# Empty last block of deflate.
_DEFLATE_END = b"\x03\x00"
_BZIP2_HEAD = b"BZh9"
_BZIP2_END = 0x177245385090
_END_BITS, _CRC_BITS = 48, 32
# Size of a block, smaller than the smallest buffer of a Hadoop reader (256 KiB minus its overhead).
_BLOCK = 64 * 1024


class _DeflateFormat:
    """Raw deflate: each piece ends at a byte boundary and may refer to the last 32 KiB of the previous piece."""

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
        """Add the piece to the checksum."""
        raise NotImplementedError


def _deflate(piece: bytearray, before: bytes) -> bytes:
    stream = (
        zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=before) if before else zlib.compressobj(wbits=-zlib.MAX_WBITS)
    )
    return stream.compress(piece) + stream.flush(zlib.Z_SYNC_FLUSH)


class ZlibFormat(_DeflateFormat):
    """A stream of RFC 1950."""

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
    """A member of RFC 1952 with the ten-byte header that Java writes, without a name or time."""

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
    """Blocks with one raw chunk each: int32 uncompressed length, int32 length of the chunk, the chunk.

    Args:
        compress: compresses a block to a raw chunk.
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
    """Block of a .bz2 stream: its bits as a number, the number of bits, and the CRC of the uncompressed data."""

    bits: int
    width: int
    crc: int


class Bzip2Format:
    """A .bz2 stream; each piece is one block, because run-length coding lengthens a piece by at most a quarter."""

    piece_size = 700_000

    def __init__(self) -> None:
        self._crc = 0
        # Fewer than eight remaining bits, which precede the next block.
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
        """Append bits; return the complete bytes."""
        bits |= self._held << count
        size, self._held_count = divmod(self._held_count + count, 8)
        self._held = bits & ((1 << self._held_count) - 1)
        return (bits >> self._held_count).to_bytes(size, "big")


def _bzip2_block(piece: bytearray) -> Bzip2Block:
    """Compress a piece separately, and extract its block from the resulting stream."""
    stream = bz2.compress(piece)
    end = int.from_bytes(stream[-16:], "big")
    padding = next(bits for bits in range(8) if (end >> bits + _CRC_BITS) & ((1 << _END_BITS) - 1) == _BZIP2_END)
    beyond = _END_BITS + _CRC_BITS + padding
    block = stream[len(_BZIP2_HEAD) :]
    return Bzip2Block(int.from_bytes(block, "big") >> beyond, 8 * len(block) - beyond, end >> padding & 0xFFFFFFFF)
