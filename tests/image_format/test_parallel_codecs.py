"""Streams compressed by several threads: plain decoders read them, regardless of the number of threads."""

from __future__ import annotations

import bz2
import gzip
import random
import struct
import threading
import zlib
from collections.abc import Callable
from functools import partial

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from image_format.codecs import find_codec
from image_format.compressors import BlockFormat, Bzip2Format, GzipFormat, PiecewiseCompressor, ZlibFormat
from image_format.writer import ImageWriter
from tests.depth import examples
from tests.image_format.image_support import CODEC_NAMES

PACKAGE = "org.apache.hadoop.io.compress."
COMPRESSING = tuple(filter(None, CODEC_NAMES))
BLOCK = 64 * 1024
LARGEST_PIECE = 1 << 20


def block_decoder(expand: Callable[[bytes, int], bytes]) -> Callable[[bytes], bytes]:
    """Return a decoder of Hadoop's framing with one chunk in each block."""

    def decode(stored: bytes) -> bytes:
        out, position = bytearray(), 0
        while position < len(stored):
            length, size = struct.unpack_from(">ii", stored, position)
            assert length <= BLOCK
            block = expand(stored[position + 8 : position + 8 + size], length)
            assert len(block) == length
            out += block
            position += 8 + size
        return bytes(out)

    return decode


PLAIN_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "DefaultCodec": zlib.decompress,
    "DeflateCodec": zlib.decompress,
    "GzipCodec": gzip.decompress,
    "BZip2Codec": bz2.decompress,
    "SnappyCodec": block_decoder(lambda chunk, _: bytes(cramjam.snappy.decompress_raw(chunk))),
    "Lz4Codec": block_decoder(lambda chunk, size: bytes(cramjam.lz4.decompress_block(chunk, output_len=size))),
    "ZStandardCodec": lambda stored: zstandard.ZstdDecompressor().decompressobj().decompress(stored),
}
PIECES = {
    "DefaultCodec": ZlibFormat.piece_size,
    "DeflateCodec": ZlibFormat.piece_size,
    "GzipCodec": GzipFormat.piece_size,
    "BZip2Codec": Bzip2Format.piece_size,
    "SnappyCodec": BlockFormat.piece_size,
    "Lz4Codec": BlockFormat.piece_size,
    "ZStandardCodec": 1 << 19,
}
every_codec = pytest.mark.parametrize("name", COMPRESSING, ids=lambda name: name.removeprefix(PACKAGE))


def short(name: str) -> str:
    return name.removeprefix(PACKAGE)


def body(size: int, seed: int = 1) -> bytes:
    """Return data of which about half compresses well and the other half hardly at all; the data repeats, so that a
    piece resembles the end of the previous piece.
    """
    unit = random.Random(seed).randbytes(1000) + b"/user/worker/part-%07d" % seed * 45
    return (unit * (size // len(unit) + 1))[:size]


def compressed(name: str, content: bytes, threads: int, step: int = 8 << 20) -> bytes:
    stream = find_codec(name).compressor(threads)
    parts = [bytes(stream.compress(content[start : start + step])) for start in range(0, len(content), step)]
    return b"".join([*parts, stream.finish()])


def compressing_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("image-compress")]


@every_codec
@pytest.mark.parametrize("pieces", [0, 1, 2, 7])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_output_is_readable_and_independent_of_the_thread_count(name: str, pieces: int, more: int) -> None:
    content = body(max(0, pieces * PIECES[short(name)] + more))
    alone = compressed(name, content, 1)
    assert PLAIN_DECODERS[short(name)](alone) == content
    assert compressed(name, content, 3, step=100_001) == alone
    assert compressing_threads() == []


@every_codec
@given(sizes=st.lists(st.integers(0, LARGEST_PIECE), max_size=4), threads=st.integers(1, 4), seed=st.integers(0, 9))
@examples(10)
def test_parallel_compression_round_trip(name: str, sizes: list[int], threads: int, seed: int) -> None:
    contents = [body(size, seed + index) for index, size in enumerate(sizes)]
    stream = find_codec(name).compressor(threads)
    stored = b"".join([bytes(stream.compress(content)) for content in contents] + [stream.finish()])
    assert PLAIN_DECODERS[short(name)](stored) == b"".join(contents)
    assert b"".join(find_codec(name).decompressor().decompress_iter(memoryview(stored))) == b"".join(contents)


@pytest.mark.parametrize("unit", [b"\0", b"aaaabbbb", b"aaaa", bytes(range(256))])
def test_each_piece_is_exactly_one_bzip2_block(unit: bytes) -> None:
    content = (unit * (2 * Bzip2Format.piece_size))[: 2 * Bzip2Format.piece_size]
    stored = compressed(PACKAGE + "BZip2Codec", content, 2)
    assert bz2.decompress(stored) == content
    assert bin(int.from_bytes(stored, "big")).count(bin(0x314159265359)[2:]) == 2


def test_deflate_uses_the_previous_piece_as_dictionary() -> None:
    """Without its dictionary, the second piece would be as large as the first."""
    noise = random.Random(3).randbytes(ZlibFormat.piece_size // 16) * 16
    once, twice = (len(compressed(PACKAGE + "GzipCodec", noise[:30_000] * count, 1)) for count in (18, 36))
    assert twice - once < 15_000


# ---- pieces that threads compress --------------------------------------------------------------------------


class Gated:
    """A stream in which each piece waits for its own gate."""

    piece_size = 1

    def __init__(self, pieces: int, faulty: int = -1) -> None:
        self.gates = [threading.Event() for _ in range(pieces)]
        self.faulty = faulty
        self.prepared = self.joined = self.most = 0

    def head(self) -> bytes:
        return b"<"

    def prepare(self, piece: bytearray) -> Callable[[], bytes]:
        number, self.prepared = self.prepared, self.prepared + 1
        self.most = max(self.most, self.prepared - self.joined)
        return partial(self._work, number, bytes(piece))

    def join(self, compressed: bytes) -> bytes:
        self.joined += 1
        return compressed

    def tail(self) -> bytes:
        return b">"

    def _work(self, number: int, piece: bytes) -> bytes:
        assert self.gates[number].wait(600)
        if number == self.faulty:
            raise MemoryError
        if number:
            # only now may the previous piece continue, so that the pieces finish from the last to the first
            self.gates[number - 1].set()
        return piece


def test_compressed_pieces_keep_their_order() -> None:
    form = Gated(4)
    stream = PiecewiseCompressor(form, 4)
    begun = stream.compress(b"abcd")
    form.gates[3].set()
    assert begun + stream.finish() == b"<abcd>"


def test_few_pieces_are_in_flight() -> None:
    form = Gated(1000)
    for gate in form.gates:
        gate.set()
    stream = PiecewiseCompressor(form, 2)
    content = bytes(index & 0xFF for index in range(1000))
    assert stream.compress(content) + stream.finish() == b"<" + content + b">"
    assert form.most <= 5


@pytest.mark.parametrize("content", [b"abc", b"abcdefghijklmnop"])
def test_an_error_in_a_thread_reaches_the_caller(content: bytes) -> None:
    form = Gated(len(content), faulty=1)
    for gate in form.gates:
        gate.set()
    stream = PiecewiseCompressor(form, 2)
    with pytest.raises(MemoryError):
        stream.compress(content)
        stream.finish()
    stream.close()
    assert compressing_threads() == []


def test_an_abandoned_stream_leaves_no_thread() -> None:
    form = Gated(8)
    stream = PiecewiseCompressor(form, 2)
    stream.compress(b"abcd")
    assert compressing_threads()
    for gate in form.gates[:2]:
        gate.set()
    stream.close()
    assert compressing_threads() == []
    assert form.joined == 0


@every_codec
def test_an_error_inside_a_section_leaves_no_thread(name: str) -> None:
    writer = ImageWriter(lambda _: None, -63, name, threads=2)
    with pytest.raises(KeyError), writer.section("INODE") as section:
        section.write(body(5 << 20))
        raise KeyError
    assert compressing_threads() == []
