from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servlets.http_request import ChunkedBody, SizedBody


def encode(chunks: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    return framed + b"0\r\n" + trailer + b"\r\n"


def read_all(body: io.RawIOBase, size: int) -> bytes:
    pieces = []
    while piece := body.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    return b"".join(pieces)


@given(st.lists(st.binary(min_size=1, max_size=300)), st.integers(1, 100), st.binary(max_size=20))
def test_chunks_are_decoded_and_the_next_request_remains(chunks, size, rest):
    connection = io.BytesIO(encode(chunks, b";name=value", b"Trailer: x\r\n") + rest)
    body = ChunkedBody(connection)
    assert read_all(body, size) == b"".join(chunks)
    assert body.complete
    assert connection.read() == rest


@given(st.lists(st.binary(min_size=1, max_size=50)), st.data())
def test_a_truncated_chunked_body_is_an_error(chunks, data):
    framed = encode(chunks)
    cut = data.draw(st.integers(0, len(framed) - 1))
    body = ChunkedBody(io.BytesIO(framed[:cut]))
    with pytest.raises((ConnectionAbortedError, ValueError)):
        read_all(body, 64)
    assert not body.complete


@pytest.mark.parametrize(
    "framed",
    [
        b"xyz\r\n",
        b"-5\r\nabc",
        b"\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"2\r\nabc\r\n0\r\n\r\n",
        b"1" * 16 + b"\r\n",
        b"0x5\r\n",
    ],
)
def test_malformed_chunks_are_an_error(framed):
    with pytest.raises(ValueError):
        read_all(ChunkedBody(io.BytesIO(framed)), 10)


def test_endless_trailers_are_refused():
    with pytest.raises(ValueError, match="trailer"):
        read_all(ChunkedBody(io.BytesIO(b"0\r\n" + b"A: b\r\n" * 100)), 10)


def test_a_giant_chunk_is_read_in_pieces():
    class Connection:
        asked = 0

        def readline(self, size: int) -> bytes:
            return b"ffffffffff\r\n"

        def readinto(self, buffer: memoryview) -> int:
            self.asked = max(self.asked, len(buffer))
            return len(buffer)

    connection = Connection()
    body = ChunkedBody(connection)
    for _ in range(10):
        assert len(body.read(4096) or b"") == 4096
    assert connection.asked == 4096


def test_a_sized_body_ends_after_its_length():
    connection = io.BytesIO(b"hello rest")
    body = SizedBody(connection, 5)
    assert not body.complete
    assert read_all(body, 3) == b"hello"
    assert body.complete
    assert connection.read() == b" rest"


def test_empty_sized_body_is_complete():
    assert SizedBody(io.BytesIO(), 0).complete


def test_a_truncated_sized_body_is_an_error():
    body = SizedBody(io.BytesIO(b"abc"), 5)
    with pytest.raises(ConnectionAbortedError, match="byte 3"):
        read_all(body, 10)
