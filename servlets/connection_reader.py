"""The receiving side of an HTTP connection, buffered in C: cheroot's own is written in Python."""

from __future__ import annotations

import io
import socket
from typing import TYPE_CHECKING

from cheroot.makefile import StreamWriter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["BufferedConnection", "connection_file"]

# holds a few chunks of an upload; larger reads go past it straight into the reader's memory
_BUFFER = 1 << 18


class _Raw(socket.SocketIO):
    """Reads nothing while it is told not to wait."""

    silent = False

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        return None if self.silent else super().readinto(buffer)


class BufferedConnection(io.BufferedReader):
    """What cheroot expects of the file it reads requests from."""

    # cheroot adds it to statistics that are off
    bytes_read = 0

    def __init__(self, connection: socket.socket) -> None:
        self._connection = _Raw(connection, "r")
        super().__init__(self._connection, _BUFFER)

    def has_data(self) -> bool:
        """Whether the next request has begun to arrive here already."""
        self._connection.silent = True
        try:
            return bool(self.peek(1))
        finally:
            self._connection.silent = False


def connection_file(connection: socket.socket, mode: str, size: int) -> BufferedConnection | StreamWriter:
    """The file of one direction of `connection`, in the manner of cheroot's `MakeFile`."""
    return BufferedConnection(connection) if "r" in mode else StreamWriter(connection, mode, size)
