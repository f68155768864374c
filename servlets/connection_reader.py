"""The receiving side of an HTTP connection while a thread reads a request body."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from hadoop_common.paced_socket import PacedSocket

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# holds a few chunks of an upload; larger reads go directly into the reader's memory
_BUFFER = 1 << 18


class _Raw(io.RawIOBase):
    """The bytes received with the headers, then the connection; returns None while it must not block."""

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
    """A reader of `connection` that starts with the bytes `begun`, read before; `wanted` is called before each read."""

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
