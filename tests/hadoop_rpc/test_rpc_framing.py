"""Frames and delimited messages, split at any place and damaged in any way."""

from __future__ import annotations

import itertools
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.errors import RpcProtocolError
from hadoop_rpc.framing import MAX_FRAME, DelimitedReader, RpcFrameBuffer, delimited, frame
from hadoop_rpc.proto import rpc_pb2 as pb


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(0, 2000), max_size=12))
def test_frames_round_trip_in_pieces_of_any_size(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(body) for body in bodies)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    buffer = RpcFrameBuffer()
    found = []
    for start, end in itertools.pairwise(edges):
        buffer.feed(stream[start:end])
        while (body := buffer.next_frame()) is not None:
            found.append(body)
    assert found == bodies


@given(st.lists(st.binary(max_size=400), max_size=6))
def test_delimited_messages_round_trip(bodies: list[bytes]) -> None:
    reader = DelimitedReader(b"".join(delimited(body) for body in bodies))
    assert [reader.read_bytes() for _ in bodies] == bodies
    assert reader.done


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    reader = DelimitedReader(data)
    with suppress(RpcProtocolError):
        while not reader.done:
            reader.read(pb.RpcRequestHeaderProto)


@pytest.mark.parametrize("length", [-1, MAX_FRAME + 1, -(1 << 31)])
def test_frame_with_an_invalid_length_is_refused(length: int) -> None:
    buffer = RpcFrameBuffer()
    buffer.feed(struct.pack(">i", length))
    with pytest.raises(RpcProtocolError, match=str(length)):
        buffer.next_frame()


def test_endless_varint_is_refused() -> None:
    with pytest.raises(RpcProtocolError, match="does not end a message length"):
        DelimitedReader(b"\xff" * 9).read_bytes()
