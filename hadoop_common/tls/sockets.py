"""A TLS socket for non-blocking use: a call that would block raises BlockingIOError."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

# at most one TLS record, because a partial send of several records could not be counted
_RECORD = 16384


class TlsSocket(ssl.SSLSocket):
    """One end of a non-blocking connection; the user of the socket drives the handshake.

    The peer cannot renegotiate (OP_NO_RENEGOTIATION), so reads wait only for bytes and writes only for space.
    """

    _refused = False

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        if self._refused:
            return socket.socket.recv(self, buflen, flags)
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as fault:
            raise BlockingIOError from fault

    def recv_into(self, buffer: WriteableBuffer, nbytes: int | None = None, flags: int = 0) -> int:
        try:
            return super().recv_into(buffer, nbytes, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as fault:
            raise BlockingIOError from fault

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        try:
            return super().send(memoryview(data)[:_RECORD], flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as fault:
            raise BlockingIOError from fault

    def shutdown(self, how: int) -> None:
        """Shut down as a plain socket does: later reads still decrypt data, and nothing is sent in clear text."""
        socket.socket.shutdown(self, how)

    def farewell(self) -> None:
        """Send the closing alert if that does not block."""
        # the peer has closed the connection, or does not answer the alert immediately
        with contextlib.suppress(OSError, ValueError):
            self.unwrap()

    def refuse(self, answer: bytes) -> None:
        """After a failed handshake, send only `answer`, in clear text; do not decrypt received bytes."""
        self._refused = True
        with contextlib.suppress(OSError):
            if answer:
                socket.socket.send(self, answer)
            self.shutdown(socket.SHUT_WR)
