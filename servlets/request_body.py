"""Request bodies as streams of bounded memory, whatever sizes the client chooses."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAX_LINE = 4096
_MAX_TRAILERS = 64
_CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(;.*)?\r\n", re.DOTALL)


class ConnectionReader(Protocol):
    """The receiving side of a connection; reads block until complete or until the peer closes."""

    def readinto(self, buffer: WriteableBuffer, /) -> int: ...

    def readline(self, size: int, /) -> bytes: ...


class _Body(io.RawIOBase):
    """A body that knows whether it was read completely."""

    def __init__(self, connection: ConnectionReader) -> None:
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

    def __init__(self, connection: ConnectionReader, size: int) -> None:
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

    Reading raises ConnectionAbortedError if the client closes before the last chunk, ValueError if the coding is
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
