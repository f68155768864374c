"""Compression codecs of fsimage sections, by Hadoop's class names; streaming in both directions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from image_format.codec_streams import (
    BlockDecompressor,
    Bzip2Decompressor,
    ZstdCompressor,
    ZstdDecompressor,
    compress_lz4,
    compress_snappy,
    expand_lz4,
    expand_snappy,
)
from image_format.compressors import BlockFormat, Bzip2Format, GzipFormat, PieceFormat, PiecewiseCompressor, ZlibFormat
from image_format.errors import CodecError, UnsupportedCodecError

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

_PACKAGE = "org.apache.hadoop.io.compress."
# Size of the pieces passed to zlib, and of the largest chunk that a decompressor yields.
_INPUT = 256 * 1024
_CHUNK = 1024 * 1024
# Maximum output per byte of a stream, plus a constant: a NameNode's streams yield about 5 bytes per byte, at most 30.
_MAX_RATIO = 200
_MAX_EXTRA = 64 * 1024 * 1024


class Compressor(Protocol):
    """Compressor of one stream, which consists of all results of `compress`, in order, and the result of `finish`."""

    def compress(self, buffer: Buffer, /) -> bytes | memoryview: ...

    def finish(self) -> bytes: ...

    def close(self) -> None:
        """Release the threads; also necessary if the stream is abandoned before `finish`."""


class MakeCompressor(Protocol):
    """Factory of compressors; `threads` (0 for one per core) does not affect the compressed bytes."""

    def __call__(self, threads: int = 0, /) -> Compressor: ...


class Decompressor(Protocol):
    """Decompressor of one stream into chunks of bounded size; the stream must fill `buffer` exactly."""

    def decompress_iter(self, buffer: memoryview, /) -> Iterator[bytes | memoryview]:
        """Yield the chunks; raise `CodecError` with an offset in `buffer` if the stream is damaged."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Codec with its class name in the FileSummary and its factories of compressors and decompressors.

    `quick` means that decompression is faster than the additional copy that several threads need.
    """

    name: str
    compressor: MakeCompressor
    decompressor: Callable[[], Decompressor]
    quick: bool = False


class _NoCodec:
    """Identity codec for images without compression."""

    def __init__(self, threads: int = 0) -> None: ...

    def compress(self, buffer: Buffer) -> memoryview:
        return memoryview(buffer)

    def finish(self) -> bytes:
        return b""

    def close(self) -> None: ...

    def decompress_iter(self, buffer: memoryview) -> Iterator[memoryview]:
        for start in range(0, len(buffer), _CHUNK):
            yield buffer[start : start + _CHUNK]


class _ZlibDecompressor:
    """Decompressor of a zlib or gzip stream, depending on `wbits`."""

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
        # Output may be pending if the last chunk was full.
        while chunk := self._step(b"", len(buffer)):
            yield chunk
        if not self._stream.eof:
            raise CodecError("the compressed stream is truncated", offset=len(buffer))

    def _step(self, pending: Buffer, start: int) -> bytes:
        try:
            return self._stream.decompress(pending, _CHUNK)
        except zlib.error as error:
            raise CodecError(f"the compressed stream is damaged ({error})", offset=start) from error


def find_codec(name: str, file: str = "") -> Codec:
    """Return the codec with a class name; "" means no compression.

    Raises:
        UnsupportedCodecError: the name is unknown.
    """
    codec = CODECS.get(name)
    if codec is None:
        known = ", ".join(filter(None, CODECS))
        raise UnsupportedCodecError(f"codec {name} is not supported; supported codecs: {known}", file=file)
    return codec


def expand(name: str, stored: memoryview, file: str = "") -> Iterator[bytes | memoryview]:
    """Yield the bytes of one compressed stream, in chunks of bounded size.

    Raises:
        CodecError: the stream is damaged, or yields more than 64 MiB plus 200 bytes for each compressed byte. `offset`
            is relative to the start of the stream.
        UnsupportedCodecError: see `find_codec`.
    """
    left = _MAX_EXTRA + _MAX_RATIO * len(stored)
    for chunk in find_codec(name, file).decompressor().decompress_iter(stored):
        left -= len(chunk)
        if left < 0:
            text = (
                f"its {len(stored)} bytes expand by more than the factor {_MAX_RATIO}, which a NameNode's stream "
                "never does"
            )
            raise CodecError(text, offset=0)
        yield chunk


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
    """Return Hadoop's class name for a short name such as "gzip" ("none" gives ""); a class name is returned unchanged.

    Raises:
        UnsupportedCodecError: the name is unknown.
    """
    chosen = CODEC_SHORT_NAMES.get(name.lower(), name)
    if chosen not in CODECS or not name:
        known = ", ".join(CODEC_SHORT_NAMES)
        raise UnsupportedCodecError(
            f"codec {name!r} is not known", hint=f"Specify one of {known}, or Hadoop's class name of one of them."
        )
    return chosen


def _piecewise(form: Callable[[], PieceFormat[T]]) -> MakeCompressor:
    return lambda threads=0: PiecewiseCompressor(form(), threads)


_ZLIB = _piecewise(ZlibFormat)
_SNAPPY = _piecewise(lambda: BlockFormat(compress_snappy))
_LZ4 = _piecewise(lambda: BlockFormat(compress_lz4))

CODECS: Final = {
    codec.name: codec
    for codec in (
        Codec("", _NoCodec, _NoCodec),
        Codec(_PACKAGE + "DefaultCodec", _ZLIB, lambda: _ZlibDecompressor(zlib.MAX_WBITS)),
        Codec(_PACKAGE + "DeflateCodec", _ZLIB, lambda: _ZlibDecompressor(zlib.MAX_WBITS)),
        Codec(_PACKAGE + "GzipCodec", _piecewise(GzipFormat), lambda: _ZlibDecompressor(zlib.MAX_WBITS | 16)),
        Codec(_PACKAGE + "BZip2Codec", _piecewise(Bzip2Format), Bzip2Decompressor),
        Codec(_PACKAGE + "SnappyCodec", _SNAPPY, lambda: BlockDecompressor(expand_snappy), quick=True),
        Codec(_PACKAGE + "Lz4Codec", _LZ4, lambda: BlockDecompressor(expand_lz4), quick=True),
        Codec(_PACKAGE + "ZStandardCodec", ZstdCompressor, ZstdDecompressor, quick=True),
    )
}
"""Codecs by class name."""
