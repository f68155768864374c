"""A blocking socket interface that ends transfers with peers that are too slow."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from io import UnsupportedOperation
from typing import TYPE_CHECKING, BinaryIO

from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.tls.sockets import TlsSocket

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SLICE_SECONDS = 1.0
# fraction of the usual time limit that applies if other peers wait for this thread
_PRESSED = 1 / 6
# A buffer of this size fits into the processor's cache and is reused. Access to main memory or new memory would take
# longer than the copy.
_COPY_BYTES = 1 << 18


class PacedSocket:
    """A socket that sends and receives while the peer maintains a minimum rate.

    The peer must send or receive `limits.least_bytes` in every `limits.stall` seconds that we wait for it. Pauses on
    our side do not count. While `pressed()` is true, the limit is only a sixth of that time. All methods raise
    TimeoutError for a peer that is too slow, and OSError for a broken connection.
    """

    def __init__(
        self, connection: socket.socket, limits: PortLimits, refusals: Refusals, pressed: Callable[[], bool]
    ) -> None:
        self._socket = connection
        self._limits = limits
        self._refusals = refusals
        self._pressed = pressed
        self._waited = 0.0
        self._moved = 0
        self._buffer = memoryview(b"")

    def recv_into(self, buffer: WriteableBuffer) -> int:
        """Wait for bytes; return 0 at the end of the stream."""
        while True:
            try:
                count = self._socket.recv_into(buffer)
            except BlockingIOError:
                self._wait(select.POLLIN)
            else:
                self._moved += count
                return count

    def sendall(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            try:
                count = self._socket.send(rest)
            except BlockingIOError:
                self._wait(select.POLLOUT)
            else:
                self._moved += count
                rest = rest[count:]

    def sendfile(self, file: BinaryIO, offset: int, count: int) -> int:
        """Send up to `count` bytes of `file` (which may be in memory) from `offset`; return the number sent."""
        try:
            descriptor = file.fileno()
        except UnsupportedOperation:
            file.seek(offset)
            data = file.read(count)
            self.sendall(data)
            return len(data)
        if isinstance(self._socket, TlsSocket):
            return self._copy(descriptor, offset, count)
        sent = 0
        while sent < count:
            try:
                moved = os.sendfile(self._socket.fileno(), descriptor, offset + sent, count - sent)
            except BlockingIOError:
                self._wait(select.POLLOUT)
                continue
            if not moved:
                break
            self._moved += moved
            sent += moved
        return sent

    def _copy(self, descriptor: int, offset: int, count: int) -> int:
        self._buffer = self._buffer or memoryview(bytearray(_COPY_BYTES))
        sent = 0
        while sent < count and (read := os.preadv(descriptor, [self._buffer[: count - sent]], offset + sent)):
            self.sendall(self._buffer[:read])
            sent += read
        return sent

    def _wait(self, event: int) -> None:
        allowed = self._limits.stall * (_PRESSED if self._pressed() else 1.0)
        if self._waited >= allowed:
            if self._moved < self._limits.least_bytes * min(1.0, self._waited / self._limits.stall):
                self._refusals.count("too slow")
                raise TimeoutError(f"the peer moved {self._moved} bytes in {self._waited:.1f} s")
            self._waited, self._moved = 0.0, 0
        poll = select.poll()
        poll.register(self._socket, event)
        begun = time.monotonic()
        poll.poll(1000 * min(_SLICE_SECONDS, allowed - self._waited))
        self._waited += time.monotonic() - begun
