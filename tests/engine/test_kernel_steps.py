"""The steps of replay kernels: checksums, numbers, text and paths in encoded operations."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.replay.kernels import records
from image_format.kernels.jit import kernel
from journal.errors import CorruptOpError
from journal.primitives import PrimitiveReader, decode_cesu8, write_vlong
from tests.image_format.kernel_values import octets


@kernel
def _crc32(buf, start, end):
    return records.crc32(buf, start, end)


@kernel
def _vlong(buf, pos, end):
    return records.vlong(buf, pos, end)


@kernel
def _is_plain_text(buf, start, end):
    return records.is_plain_text(buf, start, end)


@kernel
def _path_end(buf, pos, end):
    return records.path_end(buf, pos, end)


@given(st.binary(max_size=300), st.integers(0, 20))
def test_crc32_equals_that_of_zlib(data: bytes, start: int) -> None:
    start = min(start, len(data))
    assert _crc32(octets(data), start, len(data)) == zlib.crc32(data[start:])


def _written(value: int) -> bytes:
    out = bytearray()
    write_vlong(out, value)
    return bytes(out)


@given(st.binary(max_size=12) | st.integers(-(1 << 63), (1 << 63) - 1).map(_written))
def test_variable_length_numbers_equal_those_of_the_reader(data: bytes) -> None:
    reader = PrimitiveReader(data)
    try:
        expected = reader.vlong(), reader.position
    except CorruptOpError:
        expected = 0, -1
    assert _vlong(octets(data), 0, len(data)) == expected


@given(st.binary(max_size=8) | st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_plain_text_is_the_same_in_cesu8_and_utf8(data: bytes) -> None:
    if _is_plain_text(octets(data), 0, len(data)):
        assert decode_cesu8(data).encode() == data
    else:
        assert not data.isascii()


@pytest.mark.parameters(20)
@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("/a", True),
        ("/a/b", True),
        ("/é/中", True),
        ("/", False),
        ("", False),
        ("a", False),
        ("/a/", False),
        ("/a//b", False),
        ("//a", False),
        ("/\U0001f600", False),
        ("/\ud800", False),
        ("/.staging", True),
        ("/a/.s", True),
        ("/a/.reserved", True),
        ("/a.sn/b.snapshot", True),
        ("/.reserved/raw/a", False),
        ("/.snapshot", False),
        ("/a/.snapshot", False),
        ("/a/.snapshot/s1", False),
        ("/é/.snapshot", False),
    ],
)
def test_end_of_paths_that_kernels_look_up(path: str, taken: bool) -> None:
    raw = path.encode("utf-8", "surrogatepass")
    data = len(raw).to_bytes(2, "big") + raw + b"x"
    assert _path_end(octets(data), 0, len(data)) == (len(raw) + 2 if taken else -1)
    assert _path_end(octets(data), 0, len(raw) + 1) == -1
