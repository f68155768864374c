from __future__ import annotations

import gzip
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.exit_codes import ExitCode
from image_format.codec_streams import compress_snappy, expand_snappy
from image_format.codecs import find_codec
from image_format.errors import CodecError, UnsupportedCodecError
from tests.depth import examples
from tests.image_format.image_support import CODEC_NAMES

PACKAGE = "org.apache.hadoop.io.compress."
COMPRESSING = tuple(filter(None, CODEC_NAMES))
# Hadoop's block framing has neither an end mark nor a checksum, and its Zstandard frames have no checksum.
BLOCKS = (PACKAGE + "SnappyCodec", PACKAGE + "Lz4Codec")
ENDED = tuple(name for name in COMPRESSING if name not in BLOCKS)
CHECKED = tuple(name for name in ENDED if name != PACKAGE + "ZStandardCodec")


def compress(name: str, pieces: list[bytes]) -> bytes:
    stream = find_codec(name).compressor()
    return b"".join([bytes(stream.compress(piece)) for piece in pieces] + [stream.finish()])


def decompress(name: str, stored: bytes) -> bytes:
    return b"".join(find_codec(name).decompressor().decompress_iter(memoryview(stored)))


@pytest.mark.parametrize("name", CODEC_NAMES)
@given(pieces=st.lists(st.binary(max_size=2000), max_size=5), times=st.integers(1, 20))
def test_round_trip(name: str, pieces: list[bytes], times: int) -> None:
    assert decompress(name, compress(name, pieces * times)) == b"".join(pieces * times)


@pytest.mark.parametrize("name", CODEC_NAMES)
@pytest.mark.parametrize("body", [bytes(5_000_000), bytes(range(256)) * 9000, b"\x00" * 1048576, b"\x00" * 1048577])
def test_chunks_are_bounded(name: str, body: bytes) -> None:
    stored = compress(name, [body])
    chunks = [bytes(chunk) for chunk in find_codec(name).decompressor().decompress_iter(memoryview(stored))]
    assert max(map(len, chunks)) <= 1 << 20
    assert b"".join(chunks) == body


def test_streams_are_readable_by_standard_tools() -> None:
    assert zlib.decompress(compress(PACKAGE + "DefaultCodec", [b"abc"])) == b"abc"
    assert compress(PACKAGE + "DeflateCodec", []).hex() == "789c030000000001"
    member = compress(PACKAGE + "GzipCodec", [b"abc", b"def"])
    assert gzip.decompress(member) == b"abcdef"
    assert member[:10].hex() == "1f8b0800000000000000"
    assert gzip.decompress(compress(PACKAGE + "GzipCodec", [])) == b""


@pytest.mark.parametrize("name", COMPRESSING)
@given(body=st.binary(min_size=1, max_size=300), data=st.data())
@examples(50)
def test_every_truncated_stream_is_an_error(name: str, body: bytes, data: st.DataObject) -> None:
    stored = compress(name, [body])
    with pytest.raises(CodecError):
        decompress(name, stored[: data.draw(st.integers(int(name in BLOCKS), len(stored) - 1))])


@pytest.mark.parametrize("name", ENDED)
@pytest.mark.parametrize("size", [0, 100, 262_144, 700_000])
@pytest.mark.parametrize("garbage", [b"\x00", b"garbage", bytes(300_000)])
def test_bytes_after_the_end_of_the_stream_are_an_error(name: str, size: int, garbage: bytes) -> None:
    stored = compress(name, [bytes(index * 2654435761 >> 13 & 0xFF for index in range(size))])
    with pytest.raises(CodecError, match="bytes follow the end of the compressed stream") as raised:
        decompress(name, stored + garbage)
    assert raised.value.offset == len(stored)


@pytest.mark.parametrize("name", sorted(set(COMPRESSING) - set(CHECKED)))
@given(body=st.binary(min_size=1, max_size=300), data=st.data())
def test_damage_without_a_checksum_gives_bytes_or_a_codec_error(name: str, body: bytes, data: st.DataObject) -> None:
    stored = bytearray(compress(name, [body]))
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(CodecError):
        decompress(name, bytes(stored))


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(
    "stored", ["00000000ff", "00000005", "0000000500000009aa", "ffffffff", "0000000500000000", "7fffffff00000001ff"]
)
def test_damaged_block_frames_are_an_error(name: str, stored: str) -> None:
    with pytest.raises(CodecError):
        decompress(name, bytes.fromhex(stored))


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_several_chunks_is_read(name: str) -> None:
    frames = [compress(name, [piece]) for piece in (b"one", b"three")]
    joined = (8).to_bytes(4, "big") + frames[0][4:] + frames[1][4:]
    assert decompress(name, joined + bytes(4)) == b"onethree"


@pytest.mark.parametrize("name", CHECKED)
@given(body=st.binary(min_size=1, max_size=300), data=st.data())
def test_damage_is_found_or_harmless(name: str, body: bytes, data: st.DataObject) -> None:
    stored = bytearray(compress(name, [body]))
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(CodecError):
        assert decompress(name, bytes(stored)) == body


@pytest.mark.parameters(2)
@pytest.mark.parametrize("name", COMPRESSING)
def test_a_highly_compressed_section_needs_little_memory(name: str) -> None:
    stored = memoryview(compress(name, [bytes(1 << 20)] * 100))
    tracemalloc.start()
    try:
        total = sum(len(chunk) for chunk in find_codec(name).decompressor().decompress_iter(stored))
        assert total == 100 << 20
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("body", [bytes(1 << 20), b"abcdefgh" * (1 << 16), bytes(range(256)) * 300, b""])
def test_a_snappy_chunk_of_maximum_expansion_fits_its_buffer(body: bytes) -> None:
    assert expand_snappy(compress_snappy(body), 1 << 30) == body


def test_a_damaged_snappy_length_allocates_no_memory() -> None:
    """A length of 2**31 - 1 precedes two bytes; allocating that much would kill a process with less address space."""
    with pytest.raises(ValueError, match="or its size allows"):
        expand_snappy(bytes.fromhex("ffffffff07") + b"\0a", 1 << 31)


def test_the_error_names_an_unknown_codec() -> None:
    with pytest.raises(UnsupportedCodecError, match=r"fsimage_1: codec org.example.NoSuchCodec .*GzipCodec") as raised:
        find_codec("org.example.NoSuchCodec", "fsimage_1")
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
