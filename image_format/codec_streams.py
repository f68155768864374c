"""Streams of SnappyCodec, Lz4Codec, BZip2Codec and ZStandardCodec.

Snappy and LZ4 streams use the framing of Hadoop's BlockCompressorStream. A block begins with its uncompressed length
(int32), and chunks (int32 length, bytes) follow until they yield that length. The other two codecs have the formats of
the standard tools.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterator
from struct import Struct

import cramjam
import zstandard

from hadoop_common.process_tuning import available_cores
from image_format.errors import CodecError

Buffer = bytes | bytearray | memoryview

_LENGTH = Struct(">i")
# Maximum output per byte of a chunk, plus a constant. Limits the memory allocated for a corrupt length field.
_SNAPPY_RATIO = 22
_LZ4_RATIO = 255
_SLACK = 64


def compress_snappy(block: Buffer) -> bytes:
    return bytes(cramjam.snappy.compress_raw(block))


def expand_snappy(chunk: Buffer, limit: int) -> bytes:
    """Expand a chunk; raise ValueError if it is damaged or yields more than `limit` bytes."""
    length = cramjam.snappy.decompress_raw_len(chunk)
    if length > _room(chunk, limit, _SNAPPY_RATIO):
        raise ValueError("it expands to more than its block or its size allows")
    # If the library allocated the memory itself, the process would end when memory is short.
    room = bytearray(length)
    size = cramjam.snappy.decompress_raw_into(chunk, room)
    return bytes(memoryview(room)[:size])


def compress_lz4(block: Buffer) -> bytes:
    return bytes(cramjam.lz4.compress_block(block, store_size=False))


def expand_lz4(chunk: Buffer, limit: int) -> bytes:
    """Expand a chunk; raise ValueError if it is damaged or yields more than `limit` bytes."""
    room = bytearray(_room(chunk, limit, _LZ4_RATIO))
    # The call that returns a new bytes object would first fill it with zeros.
    size = cramjam.lz4.decompress_block_into(chunk, room, output_len=len(room))
    return bytes(memoryview(room)[:size])


def _room(chunk: Buffer, limit: int, ratio: int) -> int:
    return min(limit, ratio * len(chunk) + _SLACK)


class BlockDecompressor:
    """Decompressor of one stream; `expand` expands a raw chunk to no more than the given number of bytes.

    A stream has no end mark, so only the reader of its content can detect a truncation between two blocks.
    """

    def __init__(self, expand: Callable[[Buffer, int], bytes]) -> None:
        self._expand = expand

    def decompress_iter(self, buffer: memoryview) -> Iterator[bytes]:
        position = 0
        while position < len(buffer):
            missing, position = self._length(buffer, position)
            if not missing and position < len(buffer):
                raise CodecError("bytes follow the end of the compressed stream", offset=position)
            while missing:
                size, start = self._length(buffer, position)
                if size > len(buffer) - start:
                    raise CodecError("the compressed stream is truncated", offset=position)
                try:
                    chunk = self._expand(buffer[start : start + size], missing)
                except (ValueError, cramjam.DecompressionError) as error:
                    raise CodecError(f"a compressed chunk is damaged ({error})", offset=position) from error
                if not chunk:
                    raise CodecError("a compressed chunk is empty", offset=position)
                missing -= len(chunk)
                position = start + size
                yield chunk

    @staticmethod
    def _length(buffer: memoryview, position: int) -> tuple[int, int]:
        if position + _LENGTH.size > len(buffer):
            raise CodecError("the compressed stream is truncated", offset=position)
        length: int = _LENGTH.unpack_from(buffer, position)[0]
        if length < 0:
            raise CodecError(f"a length in the compressed stream is {length}", offset=position)
        return length, position + _LENGTH.size


_INPUT = 256 * 1024
_CHUNK = 1024 * 1024
# The library expands its complete input in one call. A block can expand to 128 KiB, and may be encoded in four bytes.
_ZSTD_BLOCKS = 8
_ZSTD_INPUT = 128
_ZSTD_BLOCK_HEADER = 3
_ZSTD_RUN = 1
# Each thread needs several MiB of memory.
_ZSTD_MAX_THREADS = 8


class Bzip2Decompressor:
    """Decompressor of one .bz2 stream."""

    def decompress_iter(self, buffer: memoryview) -> Iterator[bytes]:
        stream = bz2.BZ2Decompressor()
        position = 0
        while not stream.eof:
            fed: Buffer = b""
            if stream.needs_input:
                if position >= len(buffer):
                    raise CodecError("the compressed stream is truncated", offset=len(buffer))
                fed = buffer[position : position + _INPUT]
            try:
                chunk = stream.decompress(fed, _CHUNK)
            except OSError as error:
                raise CodecError(f"the compressed stream is damaged ({error})", offset=position) from error
            position += len(fed)
            if chunk:
                yield chunk
        if position - len(stream.unused_data) < len(buffer):
            raise CodecError("bytes follow the end of the compressed stream", offset=position - len(stream.unused_data))


class ZstdCompressor:
    """Compressor of one Zstandard frame with the library's threads.

    The level is 3, which is the default of the library and of Hadoop.

    Args:
        threads: number of threads, or 0 for one per core; the frame does not depend on this number.
    """

    def __init__(self, threads: int = 0) -> None:
        chosen = min(threads or available_cores(), _ZSTD_MAX_THREADS)
        self._stream: zstandard.ZstdCompressionObj | None = zstandard.ZstdCompressor(threads=chosen).compressobj()

    def compress(self, buffer: Buffer) -> bytes:
        assert self._stream is not None
        return self._stream.compress(buffer)

    def finish(self) -> bytes:
        assert self._stream is not None
        rest = self._stream.flush()
        self.close()
        return rest

    def close(self) -> None:
        self._stream = None


class ZstdDecompressor:
    """Decompressor of one Zstandard frame."""

    def decompress_iter(self, buffer: memoryview) -> Iterator[bytes]:
        stream = zstandard.ZstdDecompressor().decompressobj()
        position = 0
        for fed in _zstd_inputs(buffer):
            try:
                expanded = stream.decompress(fed)
            except zstandard.ZstdError as error:
                raise CodecError(f"the compressed stream is damaged ({error})", offset=position) from error
            position += len(fed)
            for start in range(0, len(expanded), _CHUNK):
                yield expanded[start : start + _CHUNK]
            if stream.eof:
                break
        else:
            raise CodecError("the compressed stream is truncated", offset=len(buffer))
        end = position - len(stream.unused_data)
        if end < len(buffer):
            raise CodecError("bytes follow the end of the compressed stream", offset=end)


def _zstd_inputs(buffer: memoryview) -> Iterator[memoryview]:
    """Yield a frame in pieces with limited output: a few blocks each, or a few bytes each if it is not a frame."""
    start = end = _zstd_header(buffer)
    yield buffer[:start]
    last, blocks = not start, 0
    while not last and end + _ZSTD_BLOCK_HEADER <= len(buffer):
        header = int.from_bytes(buffer[end : end + _ZSTD_BLOCK_HEADER], "little")
        last = bool(header & 1)
        end += _ZSTD_BLOCK_HEADER + (1 if header >> 1 & 3 == _ZSTD_RUN else header >> 3)
        blocks += 1
        if last or blocks == _ZSTD_BLOCKS:
            yield buffer[start:end]
            start, blocks = end, 0
    for position in range(start, len(buffer), _ZSTD_INPUT):
        yield buffer[position : position + _ZSTD_INPUT]


def _zstd_header(buffer: memoryview) -> int:
    """Return the number of bytes before the first block, or 0 if `buffer` is not a frame."""
    if len(buffer) < 5 or bytes(buffer[:4]) != zstandard.FRAME_HEADER:
        return 0
    descriptor = buffer[4]
    single = descriptor >> 5 & 1
    size_field = (single, 2, 4, 8)[descriptor >> 6]
    return 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + size_field
