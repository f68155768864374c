"""A socket with TLS for whoever waits by himself: a call that would have to wait raises BlockingIOError."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

# one record of TLS: of more, nobody would see how much of it has gone out already
_RECORD = 16384


class TlsSocket(ssl.SSLSocket):
    """One end of a connection whose socket does not block; the handshake is its user's to do.

    The other end cannot start another handshake (OP_NO_RENEGOTIATION), so reads wait for bytes and writes for room.
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
        """As of a plain socket: what is read after it is still deciphered, and nothing goes out in clear."""
        socket.socket.shutdown(self, how)

    def farewell(self) -> None:
        """Tell the other end that no more comes, as far as that does not wait."""
        # it has gone, or does not say the same at once
        with contextlib.suppress(OSError, ValueError):
            self.unwrap()

    def refuse(self, answer: bytes) -> None:
        """After a handshake that failed: send `answer` in clear, and no more; what is received then is ciphertext."""
        self._refused = True
        with contextlib.suppress(OSError):
            if answer:
                socket.socket.send(self, answer)
            self.shutdown(socket.SHUT_WR)
