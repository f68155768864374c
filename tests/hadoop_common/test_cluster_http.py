"""The client reads HTTP responses only up to the limit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hadoop_common.cluster_http import HttpAnswer, HttpFaultError, UnreachableServerError, open_request, send_request
from hadoop_common.file_faults import network_reason
from hadoop_common.http_connection import WaitCancelled, connection_for
from hadoop_common.tls.errors import HandshakeError
from tests.socket_peer import scripted_web


@contextmanager
def server(head: bytes, chunk: bytes, asked: list[bytes] | None = None) -> Iterator[str]:
    """Serve `head`, then `chunk` repeatedly until the caller disconnects; store the request in `asked`."""

    hung_up = threading.Event()

    def serve(peer: socket.socket) -> None:
        request = peer.recv(65536)
        if asked is not None:
            asked.append(request)
        peer.sendall(head)
        try:
            while chunk:
                peer.sendall(chunk)
        except OSError:
            hung_up.set()

    with scripted_web(serve) as url:
        yield f"{url}/"
    assert hung_up.is_set() == bool(chunk)


def test_endless_response_is_truncated() -> None:
    with server(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536) as url:
        answer = send_request("GET", url, timeout=600)
    assert (answer.status, len(answer.content), answer.json) == (200, 1 << 20, None)


@pytest.mark.parametrize(
    ("host", "looked_up", "reported"),
    [
        ("nn.example.com.", "nn.example.com.", "nn.example.com"),
        ("[fe80::1%eth0]", "fe80::1%eth0", "[fe80::1]"),
        ("[::1]", "::1", "[::1]"),
    ],
)
def test_host_name_is_looked_up_as_written_in_the_url(
    monkeypatch: pytest.MonkeyPatch, host: str, looked_up: str, reported: str
) -> None:
    names: list[str] = []

    def addresses(name: str, port: int, **_: object) -> list[object]:
        names.append(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    asked: list[bytes] = []
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"", asked) as url:
        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        assert send_request("GET", url.replace("127.0.0.1", host), timeout=600).json == {}
        port = urlsplit(url).port
    assert names == [looked_up]
    assert f"\r\nHost: {reported}:{port}\r\n".encode() in asked[0]


@pytest.mark.parametrize(("url", "port"), [("http://[fe80::1]/", 80), ("https://[fe80::1%eth0]/", 443)])
def test_default_port_of_a_url(url: str, port: int) -> None:
    connection = connection_for(urlsplit(url), None, lambda: False)
    assert (connection.host, connection.port) == (urlsplit(url).hostname, port)


def test_redirections_are_not_followed() -> None:
    with server(b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 2\r\n\r\n{}", b"") as url:
        assert send_request("POST", url, query={"a": "b"}, timeout=600) == HttpAnswer(302, b"{}", reason="Found")


def test_endless_redirection_is_truncated() -> None:
    with server(b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n", b" " * 65536) as url:
        assert len(send_request("GET", url, timeout=600).content) == 1 << 20


def test_incomplete_response_is_an_error() -> None:
    with (
        server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"") as url,
        pytest.raises(OSError, match="7 bytes early"),
    ):
        send_request("GET", url, timeout=600)


@pytest.mark.parametrize(
    ("ahead", "others", "expected"),
    [(None, (), 0), (0, (), 0), (7200, (), 7200), (-7200, (), -7200), (7200, ("x",), 7200), (7200, ("Mon",), 7200)],
)
def test_lead_of_the_clock_of_a_server(ahead: int | None, others: Sequence[str], expected: int) -> None:
    """A server's time within the duration of the request does not count as a difference."""
    dates = [*others, *([] if ahead is None else [formatdate(time.time() + ahead, usegmt=True)] * 2)]
    head = "".join(f"Date: {date}\r\n" for date in dates)
    with server(f"HTTP/1.1 200 OK\r\n{head}Content-Length: 2\r\n\r\n{{}}".encode(), b"") as url:
        began = time.monotonic()
        answer = send_request("GET", url, timeout=600)
        lasted = time.monotonic() - began
    assert answer.clock_ahead == pytest.approx(expected, abs=2 + lasted)
    assert answer.clock_difference == (answer.clock_ahead if expected else 0)


def test_reason_for_an_unreachable_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(TimeoutError) as slow:
            send_request("GET", url, timeout=(600, 0.05))
    with pytest.raises(UnreachableServerError) as refused:
        send_request("GET", url, timeout=600)
    assert (network_reason(slow.value), network_reason(refused.value)) == ("it took too long", "Connection refused")


def test_a_failed_handshake_is_not_an_unreachable_server() -> None:
    with server(b"HTTP/1.1 400 Bad Request\r\n\r\n", b"") as url, pytest.raises(HandshakeError, match="without TLS"):
        send_request("GET", url.replace("http:", "https:"), timeout=600)


def test_the_request_and_the_wait_for_its_body_can_be_cancelled() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(WaitCancelled):
            send_request("GET", url, timeout=(None, None), cancelled=lambda: True)
    cancelled = threading.Event()
    with (
        server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"") as url,
        pytest.raises(WaitCancelled),
        open_request("GET", url, timeout=600, cancelled=cancelled.is_set) as answer,
    ):
        cancelled.set()
        answer.read(9)


def test_proxy_and_login_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login alice password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:9/")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    asked: list[bytes] = []
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", asked) as url:
        assert send_request("GET", url, timeout=600).status == 200
    assert b"Authorization" not in asked[0]
    assert b"Accept-Encoding: identity" in asked[0]


@pytest.mark.parametrize("url", ["nn1:9870", "ftp://nn1/", "http:///jmx", "http://nn1:port/"])
def test_invalid_url_is_an_error(url: str) -> None:
    with pytest.raises(HttpFaultError):
        send_request("GET", url, timeout=600)


def test_response_that_is_not_http_is_an_error() -> None:
    with server(b"\0\0\r\n\r\n", b"") as url, pytest.raises(OSError):
        send_request("GET", url, timeout=600)


@pytest.mark.parametrize(
    ("content", "value"), [(b'{"a": 1}', {"a": 1}), (b"", None), (b"[" * 100_000, None), (b"\xff", None)]
)
def test_json_of_a_response_is_parsed_or_none(content: bytes, value: object) -> None:
    assert HttpAnswer(200, content).json == value
