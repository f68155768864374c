"""Requests to the HTTP server: the WSGI environment and bounded streams of their bodies."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import unquote_to_bytes

import h11

from hadoop_common.paced_socket import PacedSocket

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from _typeshed.wsgi import WSGIEnvironment

_PLAIN = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


def target_problem(request: h11.Request) -> str:
    """Return the fault in a request's target or framing, or "" if there is none."""
    if not request.target.startswith(b"/"):
        return "the target of a request must begin with /"
    if b"#" in request.target:
        return "the target of a request must not have a fragment"
    names = [name for name, _ in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        return "a request must not have both Content-Length and Transfer-Encoding"
    return ""


def body_length(request: h11.Request) -> int | None:
    """Return the length of the body, or None if the body is chunked."""
    for name, value in request.headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            return int(value)
    return 0


WAITED: Final = "checkpointer.waited"
"""Key in an environment: seconds from the arrival of a request until a thread began to answer the request."""


def environment(
    request: h11.Request, body: BinaryIO, peer: str, address: tuple[str, int], scheme: str = "http"
) -> WSGIEnvironment:
    """Return the environment; `address` is the address of this side of the connection, and `scheme` is http or
    https.
    """
    path, _, query = request.target.partition(b"?")
    found: WSGIEnvironment = {
        "REQUEST_METHOD": request.method.decode("ascii"),
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query.decode("ascii"),
        "REQUEST_URI": request.target.decode("ascii"),
        "REMOTE_ADDR": peer,
        "SERVER_NAME": address[0],
        "SERVER_PORT": str(address[1]),
        "SERVER_PROTOCOL": f"HTTP/{request.http_version.decode('ascii')}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers:
        key = _PLAIN.get(name) or "HTTP_" + name.decode("ascii").upper().replace("-", "_")
        text = value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


_MAX_LINE = 4096
_MAX_TRAILERS = 64
_CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(;.*)?\r\n", re.DOTALL)


class _Body(io.RawIOBase):
    """A body that records whether it was read completely."""

    def __init__(self, connection: io.BufferedReader) -> None:
        super().__init__()
        self._connection = connection
        self._remaining = 0
        self.received = 0
        self.complete = False

    def readable(self) -> bool:
        return True

    def _read_remaining(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = self._connection.readinto(view[: self._remaining])
        if not count:
            raise self._closed()
        self._remaining -= count
        self.received += count
        return count

    def _closed(self) -> ConnectionAbortedError:
        return ConnectionAbortedError(f"the client closed the connection after byte {self.received} of the body")


class SizedBody(_Body):
    """A body of `size` bytes, announced by Content-Length.

    Reading raises ConnectionAbortedError if the client closes early.
    """

    def __init__(self, connection: io.BufferedReader, size: int) -> None:
        super().__init__(connection)
        self._remaining = size
        self.complete = size == 0

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.complete or not memoryview(buffer).nbytes:
            return 0
        count = self._read_remaining(buffer)
        self.complete = self._remaining == 0
        return count


class ChunkedBody(_Body):
    """A body in chunked transfer coding (RFC 9112, section 7.1); chunks are not buffered as a whole.

    Reading raises ConnectionAbortedError if the client closes before the last chunk, and ValueError if the coding is
    malformed.
    """

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.complete or not memoryview(buffer).nbytes:
            return 0
        if self._remaining == 0:
            self._remaining = self._next_size()
            if self._remaining == 0:
                self._skip_trailers()
                self.complete = True
                return 0
        count = self._read_remaining(buffer)
        if self._remaining == 0 and self._line() != b"\r\n":
            raise ValueError(f"the chunk that ends at byte {self.received} is longer than announced")
        return count

    def _next_size(self) -> int:
        line = self._line()
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"expected the size of a chunk after byte {self.received}, found {line[:40]!r}")
        return int(match[1], 16)

    def _skip_trailers(self) -> None:
        for _ in range(_MAX_TRAILERS):
            if self._line() == b"\r\n":
                return
        raise ValueError(f"more than {_MAX_TRAILERS} trailer lines follow the body")

    def _line(self) -> bytes:
        line = self._connection.readline(_MAX_LINE)
        if not line:
            raise self._closed()
        return line


# enough for a few chunks of an upload; larger reads go directly into the reader's memory
_BUFFER = 1 << 18


class _Raw(io.RawIOBase):
    """The bytes received with the headers, followed by the connection; reads return None if `silent` is set."""

    def __init__(self, connection: PacedSocket, begun: bytes, wanted: Callable[[], None] | None) -> None:
        super().__init__()
        self._connection = connection
        self._wanted = wanted
        self.begun = memoryview(begun)
        self.silent = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        if self.silent:
            return None
        if not self.begun:
            if self._wanted is not None:
                self._wanted()
            return self._connection.recv_into(buffer)
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self.begun))
        view[:count] = self.begun[:count]
        self.begun = self.begun[count:]
        return count


class BufferedConnection(io.BufferedReader):
    """A reader of received bytes `begun` and of `connection`; before each read of `connection`, it calls `wanted`."""

    def __init__(self, connection: PacedSocket, begun: bytes = b"", wanted: Callable[[], None] | None = None) -> None:
        self._source = _Raw(connection, begun, wanted)
        super().__init__(self._source, _BUFFER)

    def rest(self) -> bytes:
        """Return bytes that were received but not consumed: the beginning of the next request."""
        self._source.silent = True
        try:
            return self.peek(1) + bytes(self._source.begun)
        finally:
            self._source.silent = False
