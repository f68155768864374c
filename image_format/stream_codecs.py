"""BZip2Codec and ZStandardCodec: streams in the formats of the standard tools."""

from __future__ import annotations

import bz2
from collections.abc import Iterator

import zstandard

from image_format.errors import CodecError

__all__ = ["Bzip2Compressor", "Bzip2Decompressor", "ZstdCompressor", "ZstdDecompressor"]

Buffer = bytes | bytearray | memoryview

_INPUT = 256 * 1024
_CHUNK = 1024 * 1024
# Four bytes can stand for a block of 128 KiB, and the library gives all that its input holds at once.
_ZSTD_INPUT = 128


class Bzip2Compressor:
    """One .bz2 stream with blocks of 900 kB."""

    def __init__(self) -> None:
        self._stream = bz2.BZ2Compressor()

    def compress(self, buffer: Buffer) -> bytes:
        return self._stream.compress(buffer)

    def finish(self) -> bytes:
        return self._stream.flush()


class Bzip2Decompressor:
    """Reads one .bz2 stream."""

    def decompress_iter(self, buffer: memoryview) -> Iterator[bytes]:
        stream = bz2.BZ2Decompressor()
        position = 0
        while not stream.eof:
            fed: Buffer = b""
            if stream.needs_input:
                if position >= len(buffer):
                    raise CodecError("the compressed stream is cut", offset=len(buffer))
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
    """One Zstandard frame at the library's default level 3, as Hadoop's."""

    def __init__(self) -> None:
        self._stream = zstandard.ZstdCompressor().compressobj()

    def compress(self, buffer: Buffer) -> bytes:
        return self._stream.compress(buffer)

    def finish(self) -> bytes:
        return self._stream.flush()


class ZstdDecompressor:
    """Reads one Zstandard frame."""

    def decompress_iter(self, buffer: memoryview) -> Iterator[bytes]:
        stream = zstandard.ZstdDecompressor().decompressobj()
        position = 0
        while not stream.eof:
            if position >= len(buffer):
                raise CodecError("the compressed stream is cut", offset=len(buffer))
            fed = buffer[position : position + _ZSTD_INPUT]
            try:
                expanded = stream.decompress(fed)
            except zstandard.ZstdError as error:
                raise CodecError(f"the compressed stream is damaged ({error})", offset=position) from error
            position += len(fed)
            for start in range(0, len(expanded), _CHUNK):
                yield expanded[start : start + _CHUNK]
        end = position - len(stream.unused_data)
        if end < len(buffer):
            raise CodecError("bytes follow the end of the compressed stream", offset=end)
