"""Clients that attack the HTTP server: they are idle or slow, do not read, send malformed requests, or connect in large
numbers.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
from contextlib import ExitStack, suppress

import pytest
from flask import Blueprint, Response, request

from hadoop_common.port_limits import PortLimits
from hadoop_common.throttle import Throttle
from servlets.application import create_application
from servlets.errors import HttpServerError
from servlets.file_body import FileBody
from servlets.http_server import HttpServer
from tests.depth import scaled
from tests.socket_peer import threads_without

WAIT = 600.0
BIG = 16 << 20
GET_BIG = b"GET /imagetransfer HTTP/1.1\r\nHost: x\r\n\r\n"


def application(page_may_end: threading.Event | None = None):
    blueprint = Blueprint("test", __name__)

    @blueprint.get("/")
    @blueprint.get("/console/charts")
    @blueprint.get("/docs/operations.md")
    def page():
        assert page_may_end is None or page_may_end.wait(WAIT)
        return "page"

    @blueprint.get("/health/live")
    def live():
        return "alive"

    @blueprint.get("/status")
    def status():
        return "s" * BIG

    @blueprint.get("/imagetransfer")
    def image():
        return Response(
            FileBody(io.BytesIO(bytes(BIG)), "image", BIG, Throttle(0), 65536), headers={"Content-Length": BIG}
        )

    @blueprint.put("/imagetransfer")
    def put_image():
        while request.stream.read(1 << 20):
            pass
        return "taken"

    return create_application(blueprint)


def serving(threads: int = 2, page_may_end: threading.Event | None = None, **limits) -> HttpServer:
    return HttpServer(
        application(page_may_end),
        "127.0.0.1",
        0,
        threads=threads,
        limits=PortLimits(**limits),
        shutdown_timeout=0.2,
        linger=0.2,
    )


def stranger(
    server: HttpServer, sent: bytes = b"", host: str = "127.0.0.1", receive_bytes: int = 4096
) -> socket.socket:
    """Return a client with a small receive buffer at a separate address."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer.settimeout(WAIT)
    peer.bind((host, 0))
    peer.connect(server.address)
    with suppress(OSError):
        peer.sendall(sent)
    return peer


def get(server: HttpServer, path: str, host: str = "127.0.0.1") -> bytes:
    connection = http.client.HTTPConnection(*server.address, timeout=WAIT, source_address=(host, 0))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read()
    finally:
        connection.close()


def end_of(peer: socket.socket) -> bytes:
    """Return all bytes until the server ends the connection."""
    came = b""
    with suppress(ConnectionResetError):
        while data := peer.recv(65536):
            came += data
    return came


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"GET /health/live HTTP/1.1\r\nHost: x\r\n", b"PUT /imagetransfer HTT"])
def test_idle_connections_occupy_no_thread(sent):
    with serving() as server, ExitStack() as closing:
        for _ in range(scaled(300, quick=40)):
            closing.enter_context(stranger(server, sent))
        assert get(server, "/health/live") == b"alive"
        assert len(get(server, "/imagetransfer")) == BIG


@pytest.mark.parametrize(
    ("sent", "limit", "reason"),
    [
        (b"", "opening", "slow headers"),
        (b"GET /health/live HTTP/1.1\r\n", "opening", "slow headers"),
        (b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n", "idle", "idle"),
        (b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nGET", "opening", "slow headers"),
        (b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", "stall", "too slow"),
        (GET_BIG, "stall", "too slow"),
        (b"PUT /imagetransfer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234", "stall", "too slow"),
        (b"PUT /imagetransfer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n1234", "stall", "too slow"),
        (b"PUT /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234", "linger", "did not end its request"),
    ],
)
def test_silent_connections_are_closed(sent, limit, reason):
    # `serving` has a short linger; the other limits are high, because the peer may send late on a slow machine
    limits = {"opening": WAIT, "idle": WAIT, "stall": WAIT} | ({} if limit == "linger" else {limit: 0.2})
    with serving(**limits) as server, stranger(server, sent) as peer:
        while not (counts := server.refusals.counts()):
            threading.Event().wait(0.01)
        assert counts[reason] == 1
        end_of(peer)


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET /health/live HTTP/1.1\r\n", b"A: b\r\n"),
        (b"PUT /imagetransfer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", b"x"),
    ],
)
def test_slow_bytes_do_not_extend_a_deadline(begin, piece):
    with serving(opening=0.3, stall=0.3, least_rate=100_000) as server, stranger(server, begin) as peer:
        with pytest.raises(OSError):
            while True:
                peer.sendall(piece)
                threading.Event().wait(0.01)
        assert server.refusals.counts()


def test_clients_that_do_not_read_an_image_leave_threads_for_others():
    with serving(threads=4, peer_transfers=2) as server, ExitStack() as closing:
        for _ in range(40):
            closing.enter_context(stranger(server, GET_BIG, "127.0.0.2"))
        assert len(get(server, "/imagetransfer")) == BIG
        assert get(server, "/health/live", "127.0.0.2") == b"alive"


def test_the_stall_limit_is_shorter_while_others_wait(monkeypatch):
    """All clients come from one address, which can use only one thread at a time."""
    monkeypatch.setattr("hadoop_common.paced_socket._PRESSED", 0.2 / WAIT)
    with serving(threads=2, peer_transfers=1, stall=WAIT) as server, ExitStack() as closing:
        for _ in range(3):
            closing.enter_context(stranger(server, GET_BIG))
        assert len(get(server, "/imagetransfer")) == BIG


def test_a_status_blocked_by_a_disk_does_not_delay_the_liveness_probe():
    """The status is requested from several hosts, because a single host cannot occupy all threads."""
    disk, waiting = threading.Event(), threading.Semaphore(0)

    @(blueprint := Blueprint("hung", __name__)).get("/status")
    def status():
        waiting.release()
        assert disk.wait(WAIT)
        return "status"

    @blueprint.get("/health/live")
    def live():
        return "alive"

    with HttpServer(create_application(blueprint), "127.0.0.1", 0, threads=1) as server, ExitStack() as closing:
        closing.callback(disk.set)
        for host in ("127.0.0.1", "127.0.0.2"):
            closing.enter_context(stranger(server, b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", host))
            assert waiting.acquire(timeout=WAIT)
        assert get(server, "/health/live") == b"alive"


def test_clients_that_do_not_read_a_status_occupy_no_thread():
    with serving() as server, ExitStack() as closing:
        for _ in range(10):
            closing.enter_context(stranger(server, b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert get(server, "/health/live") == b"alive"


def test_blocked_pages_occupy_no_threads_of_images_and_status():
    may_end = threading.Event()
    with serving(page_may_end=may_end) as server, ExitStack() as closing:
        for number in range(40):
            path = (b"/", b"/console/charts?refresh=off", b"/docs/operations.md")[number % 3]
            request = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"
            closing.enter_context(stranger(server, request, f"127.0.0.{2 + number % 4}"))
        assert len(get(server, "/imagetransfer")) == BIG
        assert get(server, "/health/live") == b"alive"
        may_end.set()
        assert get(server, "/") == b"page"


def test_pages_do_not_wait_for_images():
    with serving(threads=1) as server, ExitStack() as closing:
        closing.enter_context(stranger(server, GET_BIG))
        assert get(server, "/") == b"page"


@pytest.mark.parametrize("sent", [b"GET /health/live HTTP/1.1\r\n", GET_BIG])
def test_idle_connections_make_room_for_new_ones(sent):
    with serving(connections=5) as server, ExitStack() as closing:
        for _ in range(scaled(500, quick=50)):
            closing.enter_context(stranger(server, sent))
        assert get(server, "/health/live") == b"alive"
        assert server.refusals.counts()["made room"] >= 44


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Content-Length: +3",
        b"Content-Length: 1_0",
        b"Content-Length: 0x3",
        b"Content-Length: -3",
        b"Content-Length : 3",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: xchunked",
        b"Host: another",
        b"No colon",
        b"Zero\0: x",
        b"Zero: x\0y",
        b": no name",
    ],
)
def test_ambiguous_headers_are_refused(headers):
    """Each request is followed by a request that must not be accepted."""
    hidden = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving() as server, stranger(server) as peer:
        peer.sendall(b"PUT /imagetransfer HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\nabc" + hidden)
        peer.shutdown(socket.SHUT_WR)
        answer = end_of(peer)
        assert answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5")
        assert answer.count(b"HTTP/1.1") == 1
        assert server.refusals.counts() == {"malformed": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"GET /health/live HTTP/1.1 more",
        b"GET http://elsewhere/health/live HTTP/1.1",
        b"GET /health/live#part HTTP/1.1",
        b"GET /health/\x01live HTTP/1.1",
        b"GET /health/live",
        b"G\x00T /health/live HTTP/1.1",
        b"CONNECT elsewhere:80 HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_malformed_request_lines_are_refused(line):
    with serving() as server, stranger(server, line + b"\r\nHost: x\r\n\r\n") as peer:
        peer.shutdown(socket.SHUT_WR)
        assert end_of(peer).startswith(b"HTTP/1.1 4")


def test_pipelined_requests_are_answered_in_order():
    live = b" /health/live HTTP/1.1\r\nHost: x\r\n"
    together = b"GET" + live + b"\r\nHEAD" + live + b"\r\n" + GET_BIG + b"GET" + live + b"Connection: close\r\n\r\n"
    with serving() as server, stranger(server, together, receive_bytes=1 << 20) as peer:
        came = end_of(peer)
    assert came.count(b"HTTP/1.1 200") == 4
    assert came.count(b"\r\nConnection: close\r\n") == 1
    assert came.count(b"\r\n\r\nalive") == 2
    assert BIG < len(came) < BIG + 2000


def test_the_connection_of_an_http_1_0_client_is_closed():
    with serving() as server, stranger(server, b"GET /health/live HTTP/1.0\r\n\r\n") as peer:
        assert end_of(peer).endswith(b"\r\n\r\nalive")


@pytest.mark.parametrize("refused", ["http-1", "http-loop"])
def test_a_start_without_threads_fails_with_a_sentence_and_cleans_up(refused):
    with threads_without(refused, WAIT):
        server = serving()
        with pytest.raises(HttpServerError, match="can't start new thread") as caught:
            server.start()
        assert caught.value.hint
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.address)
