"""The receiving side of an HTTP connection while a thread reads the body of a request."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from hadoop_common.paced_socket import PacedSocket

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# holds a few chunks of an upload; larger reads go past it straight into the reader's memory
_BUFFER = 1 << 18


class _Raw(io.RawIOBase):
    """What came with the headers already, then the connection; nothing while it is told not to wait."""

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
    """Reads from `connection`, after the bytes `begun` that were read from it before; `wanted` is told before each."""

    def __init__(self, connection: PacedSocket, begun: bytes = b"", wanted: Callable[[], None] | None = None) -> None:
        self._source = _Raw(connection, begun, wanted)
        super().__init__(self._source, _BUFFER)

    def rest(self) -> bytes:
        """What was read from the connection and not from here: the beginning of the next request."""
        self._source.silent = True
        try:
            return self.peek(1) + bytes(self._source.begun)
        finally:
            self._source.silent = False
