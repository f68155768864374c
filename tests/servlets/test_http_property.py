"""Arbitrary bytes in arbitrary pieces: requests are processed one by one, or the connection is refused once."""

from __future__ import annotations

import contextlib
import itertools
import socket
from types import SimpleNamespace

import h11
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.port_limits import PortLimits
from servlets.http_connection import HttpChannel, Port, WorkResult
from servlets.http_request import body_length, environment
from tests.depth import examples

LINES = st.sampled_from(
    [
        b"GET / HTTP/1.1",
        b"HEAD /status?a=b HTTP/1.0",
        "GET /größe?a=目 HTTP/1.1".encode(),
        b"PUT /imagetransfer HTTP/1.1",
        b"GET http://x/ HTTP/1.1",
        b"Host: x",
        b"Content-Length: 0",
        b"Content-Length: 00000000000000000003",
        b"Content-Length: 3, 3",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: CHUNKED",
        b"Connection: close",
        b"Expect: 100-continue",
        b"A:" + b"b" * 20_000,
        b"Cookie: a",
        b"Cookie: b",
        b"",
        b"\x00",
        b" folded",
    ]
)
REQUESTS = st.lists(LINES, max_size=8).map(lambda lines: b"\r\n".join(lines) + b"\r\n\r\n")
STREAMS = st.lists(REQUESTS | st.binary(max_size=60), max_size=4).map(b"".join)


def served(pieces: list[bytes]) -> tuple[list[tuple[bytes, int | None]], list[str], bytes]:
    """Return processed requests, refusals, and sent bytes; each request is answered immediately."""
    requests: list[tuple[bytes, int | None]] = []
    refusals: list[str] = []
    gone: list[HttpChannel] = []

    def work(channel: HttpChannel, http: h11.Connection, request: h11.Request) -> None:
        length = body_length(request)
        assert environment(request, None, "192.0.2.1", ("192.0.2.2", 80))["PATH_INFO"].startswith("/")
        requests.append((bytes(request.target), length))
        rest, _ = http.trailing_data
        channel.done(WorkResult(reuse=length == 0, rest=rest))

    loop = SimpleNamespace(update=lambda channel: None, discard=lambda channel, reason="": gone.append(channel))
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        there.setblocking(False)
        channel = HttpChannel(Port(PortLimits(), loop, refusals.append, work, lambda _: None, 1.0), here, "192.0.2.1")
        for piece in pieces:
            if gone or channel.sending:
                break
            there.sendall(piece)
            channel.readable()
        if channel.sending:
            channel.writable()
        with contextlib.suppress(BlockingIOError):
            return requests, refusals, there.recv(65536)
    return requests, refusals, b""


@examples(100)
@given(STREAMS, st.lists(st.integers(0, 200), max_size=5))
def test_requests_do_not_depend_on_how_bytes_are_split(data: bytes, cuts: list[int]) -> None:
    whole = served([data] if data else [])
    requests, refusals, sent = whole
    assert len(refusals) <= 1
    assert sent.startswith(b"HTTP/1.1 4") or sent.startswith(b"HTTP/1.1 5") if refusals else sent == b""
    assert len(sent) < 1000
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    pieces = [data[begin:end] for begin, end in itertools.pairwise(places)]
    again = served([piece for piece in pieces if piece])
    assert again[0] == requests
    assert len(again[1]) == len(refusals)
