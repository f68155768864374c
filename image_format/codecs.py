"""Compression codecs of fsimage sections, by Hadoop's class names; streaming in both directions."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from image_format.block_codecs import (
    BlockCompressor,
    BlockDecompressor,
    compress_lz4,
    compress_snappy,
    expand_lz4,
    expand_snappy,
)
from image_format.errors import CodecError, UnsupportedCodecError
from image_format.stream_codecs import Bzip2Compressor, Bzip2Decompressor, ZstdCompressor, ZstdDecompressor

__all__ = [
    "CODECS",
    "CODEC_SHORT_NAMES",
    "Buffer",
    "Codec",
    "Compressor",
    "Decompressor",
    "codec_class_name",
    "find_codec",
    "register_codec",
]

Buffer = bytes | bytearray | memoryview

_PACKAGE = "org.apache.hadoop.io.compress."
# input given to zlib at once, and the largest chunk a decompressor yields
_INPUT = 256 * 1024
_CHUNK = 1024 * 1024


class Compressor(Protocol):
    """Makes one compressed stream: the pieces of `compress` in order, then that of `finish`."""

    def compress(self, buffer: Buffer, /) -> bytes | memoryview: ...

    def finish(self) -> bytes: ...


class Decompressor(Protocol):
    """Reads one compressed stream that must fill `buffer` exactly; yields chunks of bounded size."""

    def decompress_iter(self, buffer: memoryview, /) -> Iterator[bytes | memoryview]:
        """Raises `CodecError`, its offset counted from the start of `buffer`, when the stream is damaged."""


@dataclass(frozen=True, slots=True)
class Codec:
    """One entry of the registry: the name in the FileSummary, and what makes new streams."""

    name: str
    compressor: Callable[[], Compressor]
    decompressor: Callable[[], Decompressor]


class _Identity:
    """Bytes as they are, for images without a codec."""

    def compress(self, buffer: Buffer) -> memoryview:
        return memoryview(buffer)

    def finish(self) -> bytes:
        return b""

    def decompress_iter(self, buffer: memoryview) -> Iterator[memoryview]:
        for start in range(0, len(buffer), _CHUNK):
            yield buffer[start : start + _CHUNK]


class _ZlibCompressor:
    """One RFC 1950 stream (DefaultCodec, DeflateCodec)."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj()

    def compress(self, buffer: Buffer) -> bytes:
        return self._stream.compress(buffer)

    def finish(self) -> bytes:
        return self._stream.flush()


class _GzipCompressor:
    """One RFC 1952 member with the ten-byte header Java writes: no name, no time."""

    _HEADER = bytes.fromhex("1f8b0800000000000000")

    def __init__(self) -> None:
        self._stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._crc = 0
        self._size = 0
        self._head = self._HEADER

    def compress(self, buffer: Buffer) -> bytes:
        self._crc = zlib.crc32(buffer, self._crc)
        self._size += memoryview(buffer).nbytes
        head, self._head = self._head, b""
        return head + self._stream.compress(buffer)

    def finish(self) -> bytes:
        return self._head + self._stream.flush() + struct.pack("<II", self._crc, self._size & 0xFFFFFFFF)


class _ZlibDecompressor:
    """Reads a zlib or gzip stream, as `wbits` says."""

    def __init__(self, wbits: int) -> None:
        self._stream = zlib.decompressobj(wbits)

    def decompress_iter(self, buffer: memoryview) -> Iterator[bytes]:
        for start in range(0, len(buffer), _INPUT):
            pending: Buffer = buffer[start : start + _INPUT]
            while len(pending) and not self._stream.eof:
                if chunk := self._step(pending, start):
                    yield chunk
                pending = self._stream.unconsumed_tail
            if self._stream.eof:
                end = min(start + _INPUT, len(buffer)) - len(self._stream.unused_data)
                if end < len(buffer):
                    raise CodecError("bytes follow the end of the compressed stream", offset=end)
                return
        # output may be pending when the last input was taken and the chunk was full
        while chunk := self._step(b"", len(buffer)):
            yield chunk
        if not self._stream.eof:
            raise CodecError("the compressed stream is cut", offset=len(buffer))

    def _step(self, pending: Buffer, start: int) -> bytes:
        try:
            return self._stream.decompress(pending, _CHUNK)
        except zlib.error as error:
            raise CodecError(f"the compressed stream is damaged ({error})", offset=start) from error


CODECS: dict[str, Codec] = {}


def register_codec(name: str, compressor: Callable[[], Compressor], decompressor: Callable[[], Decompressor]) -> None:
    """Make a codec known under the class name that stands in the FileSummary."""
    CODECS[name] = Codec(name, compressor, decompressor)


def find_codec(name: str, file: str = "") -> Codec:
    """The codec of that class name; "" is no compression.

    Raises:
        UnsupportedCodecError: none is registered under that name.
    """
    codec = CODECS.get(name)
    if codec is None:
        known = ", ".join(filter(None, CODECS))
        raise UnsupportedCodecError(f"codec {name} is not supported; known are {known}", file=file)
    return codec


CODEC_SHORT_NAMES = {
    "none": "",
    "default": _PACKAGE + "DefaultCodec",
    "deflate": _PACKAGE + "DeflateCodec",
    "gzip": _PACKAGE + "GzipCodec",
    "bzip2": _PACKAGE + "BZip2Codec",
    "snappy": _PACKAGE + "SnappyCodec",
    "lz4": _PACKAGE + "Lz4Codec",
    "zstd": _PACKAGE + "ZStandardCodec",
}


def codec_class_name(name: str) -> str:
    """Hadoop's class name for a short name such as "gzip" ("none" gives ""), or a class name as it is.

    Raises:
        UnsupportedCodecError: neither is known.
    """
    chosen = CODEC_SHORT_NAMES.get(name.lower(), name)
    if chosen not in CODECS or not name:
        known = ", ".join(CODEC_SHORT_NAMES)
        raise UnsupportedCodecError(
            f"codec {name!r} is not known", hint=f"Name one of {known}, or Hadoop's class name of one of them."
        )
    return chosen


register_codec("", _Identity, _Identity)
register_codec(_PACKAGE + "DefaultCodec", _ZlibCompressor, lambda: _ZlibDecompressor(zlib.MAX_WBITS))
register_codec(_PACKAGE + "DeflateCodec", _ZlibCompressor, lambda: _ZlibDecompressor(zlib.MAX_WBITS))
register_codec(_PACKAGE + "GzipCodec", _GzipCompressor, lambda: _ZlibDecompressor(zlib.MAX_WBITS | 16))
register_codec(_PACKAGE + "BZip2Codec", Bzip2Compressor, Bzip2Decompressor)
register_codec(
    _PACKAGE + "SnappyCodec", lambda: BlockCompressor(compress_snappy), lambda: BlockDecompressor(expand_snappy)
)
register_codec(_PACKAGE + "Lz4Codec", lambda: BlockCompressor(compress_lz4), lambda: BlockDecompressor(expand_lz4))
register_codec(_PACKAGE + "ZStandardCodec", ZstdCompressor, ZstdDecompressor)
