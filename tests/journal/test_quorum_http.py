"""Segments over HTTP arrive completely, or the transfer fails with the reason."""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

import pytest

from journal.quorum.errors import SegmentFetchError
from journal.quorum.http_source import http_source
from journal.quorum.settings import QuorumSettings
from tests.socket_peer import scripted_web

SETTINGS = QuorumSettings(http_open=600.0, http_read=600.0)


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield a server that sends `answer` to every client, and records the requests."""
    received: list[bytes] = []

    def serve(peer: socket.socket) -> None:
        received.append(peer.recv(65536))
        peer.sendall(answer)

    with scripted_web(serve) as url:
        yield f"{url}/getJournal?jid=j&segmentTxId=1", received


def response(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers or f'Content-Length: {len(body)}'}\r\n\r\n".encode() + body


def test_segment_is_fetched_completely() -> None:
    body = bytes(range(256)) * 4000
    with answering(response(body)) as (url, received):
        assert bytes(http_source(SETTINGS)(url)) == body
    assert received[0].startswith(b"GET /getJournal?jid=j&segmentTxId=1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (response(b"gone", status="404 No edit log found"), "the node answered 404 No edit log found"),
        (response(b"no", status="403 Forbidden"), "403"),
        (response(b"half", headers="Content-Length: 9"), "cannot be fetched|ended after 4 of 9"),
        (response(b"", headers="Content-Length: 0"), "Content-Length is '0'"),
        (response(b"x", headers="Content-Length: x"), "Content-Length is 'x'"),
        (response(b"x", headers="Server: jetty"), "Content-Length is ''"),
        (response(b"", status="302 Found", headers="Location: http://127.0.0.1:1/"), "302"),
        (b"SSH-2.0\r\n", "cannot be fetched"),
        (b"", "cannot be fetched"),
    ],
)
def test_invalid_responses_are_refused(answer: bytes, problem: str) -> None:
    with answering(answer) as (url, _), pytest.raises(SegmentFetchError, match=problem) as error:
        http_source(SETTINGS)(url)
    assert url in str(error.value)


def test_full_local_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering: FileIO("/dev/full", "wb"))
    with answering(response(b"segment")) as (url, _), pytest.raises(SegmentFetchError) as caught:
        http_source(SETTINGS)(url)
    assert f"cannot be stored: {tempfile.gettempdir()} cannot be written: No space left" in caught.value.message
    assert caught.value.hint == "Free space on its disk, then try again."


def test_missing_temporary_directory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def unusable(buffering: int) -> None:
        raise FileNotFoundError(errno.ENOENT, f"No usable temporary directory found in ['/tmp'], {buffering}")

    monkeypatch.setattr(tempfile, "TemporaryFile", unusable)
    with answering(response(b"segment")) as (url, _), pytest.raises(SegmentFetchError) as caught:
        http_source(SETTINGS)(url)
    assert "cannot be stored: No usable temporary directory" in caught.value.message
    assert "TMPDIR" in caught.value.hint


def test_server_without_a_response_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(SegmentFetchError, match="cannot be fetched"):
        http_source(SETTINGS)(f"http://127.0.0.1:{port}/getJournal?jid=j")
