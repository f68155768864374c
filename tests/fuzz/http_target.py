"""Invariants for any bytes on an HTTP connection: a request never makes the server report a bug."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import socket
import tempfile
from pathlib import Path
from types import SimpleNamespace

import h11

from hadoop_common.paced_socket import PacedSocket
from hadoop_common.port_limits import PortLimits, Refusals
from image_format.array_allocator import ArrayAllocator
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from servlets.http_connection import HttpChannel, Port, WorkResult
from servlets.http_server import _Exchange
from servlets.webhdfs import ImageSource, webhdfs_blueprint
from tests.servlets.support import OLD_IMAGE, daemon_routes, make_store

_ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) ([ -~]*)\r\n")
_SERVER_FAULT = 500


class _Faults(logging.Handler):
    """A handler that keeps records with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(record)


class _Socket(socket.socket):
    """A socket with a fixed local address."""

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 80


@functools.cache
def _application(folder: Path) -> object:
    """Return the routes of a daemon and of `image serve`."""
    browser = ImageBrowser(ImageFile.open(OLD_IMAGE), ArrayAllocator())
    return daemon_routes(make_store(folder, count=1), webhdfs_blueprint(ImageSource(browser)))


@functools.cache
def _folder() -> Path:
    kept = tempfile.TemporaryDirectory(prefix="hdfs-checkpointer-fuzz-")
    _kept.append(kept)
    return Path(kept.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def check_http(data: bytes) -> bool:
    """Send `data` to the routes of a daemon and close; return False if no request succeeded.

    Raises:
        AssertionError: a response reports a fault of the server or is malformed, or a fault was logged.
    """
    faults = _Faults()
    root = logging.getLogger()
    root.addHandler(faults)
    try:
        sent, refused = _exchange(data)
    finally:
        root.removeHandler(faults)
    assert not faults.found, faults.found[0].exc_info
    assert len(refused) <= 1
    assert b"Traceback" not in sent
    answers = _ANSWER.findall(sent)
    assert bool(answers) == bool(sent)
    assert all(int(status) < _SERVER_FAULT or status in (b"501", b"503") for status, _ in answers), answers
    return any(status.startswith(b"2") for status, _ in answers)


def _exchange(data: bytes) -> tuple[bytes, list[str]]:
    """Return the responses to a client that sends only `data`, and why the server refused its connection."""
    application = _application(_folder())
    refused: list[str] = []
    gone: list[object] = []
    limits = PortLimits()

    def work(channel: HttpChannel, http: h11.Connection, request: h11.Request) -> None:
        assert channel.take()
        paced = PacedSocket(here, limits, Refusals(), lambda: False)
        try:
            answered = _Exchange(paced, http, request, brief=False).perform(application, channel, 0.0)  # type: ignore[arg-type]
        except OSError:
            # the body ended too early
            answered = WorkResult()
        channel.done(answered)

    loop = SimpleNamespace(update=lambda channel: None, discard=lambda channel, reason="": gone.append(channel))
    pair, there = socket.socketpair()
    with _Socket(fileno=pair.detach()) as here, there:
        for end in (here, there):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        there.sendall(data)
        there.shutdown(socket.SHUT_WR)
        port = Port(limits, loop, refused.append, work, lambda _: None, 1.0)  # type: ignore[arg-type]
        channel = HttpChannel(port, here, "127.0.0.1")
        received = b""
        while not gone:
            if channel.sending:
                channel.writable()
            else:
                channel.readable()
            with contextlib.suppress(BlockingIOError):
                while piece := there.recv(1 << 20):
                    received += piece
    return received, refused
