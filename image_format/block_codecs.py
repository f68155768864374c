"""SnappyCodec and Lz4Codec: raw compressed chunks in the frames of Hadoop's BlockCompressorStream.

A stream repeats: int32 uncompressed length of a block, then chunks (int32 length, bytes) until they give that length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

import cramjam

from image_format.errors import CodecError

Buffer = bytes | bytearray | memoryview

_LENGTH = Struct(">i")
# What a chunk gives at most for each of its bytes, and beside that: a damaged length takes no more memory.
_SNAPPY_RATIO = 22
_LZ4_RATIO = 255
_SLACK = 64


def compress_snappy(block: Buffer) -> bytes:
    return bytes(cramjam.snappy.compress_raw(block))


def expand_snappy(chunk: Buffer, limit: int) -> bytes:
    """Raises ValueError where the chunk is damaged or gives more than `limit` bytes."""
    length = cramjam.snappy.decompress_raw_len(chunk)
    if length > _room(chunk, limit, _SNAPPY_RATIO):
        raise ValueError("it is longer than its block, or than its bytes can give")
    # Where there is no memory, the call that makes the room itself ends the process.
    room = bytearray(length)
    size = cramjam.snappy.decompress_raw_into(chunk, room)
    return bytes(memoryview(room)[:size])


def compress_lz4(block: Buffer) -> bytes:
    return bytes(cramjam.lz4.compress_block(block, store_size=False))


def expand_lz4(chunk: Buffer, limit: int) -> bytes:
    """Raises ValueError where the chunk is damaged or gives more than `limit` bytes."""
    room = bytearray(_room(chunk, limit, _LZ4_RATIO))
    # The call that returns new bytes would fill them up with zeros.
    size = cramjam.lz4.decompress_block_into(chunk, room, output_len=len(room))
    return bytes(memoryview(room)[:size])


def _room(chunk: Buffer, limit: int, ratio: int) -> int:
    return min(limit, ratio * len(chunk) + _SLACK)


class BlockDecompressor:
    """Reads one stream; `expand` turns a raw chunk into at most so many bytes.

    A stream has no end mark, so one that is cut between two blocks is only noticed by what reads its content.
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
                    raise CodecError("the compressed stream is cut", offset=position)
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
            raise CodecError("the compressed stream is cut", offset=position)
        length: int = _LENGTH.unpack_from(buffer, position)[0]
        if length < 0:
            raise CodecError(f"a length in the compressed stream is {length}", offset=position)
        return length, position + _LENGTH.size
