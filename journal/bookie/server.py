"""The port of a bookie: it receives frames of protocol v2 and v3, and sends responses in the order of completion."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time

from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.socket_loop import Channel, SocketLoop
from journal.bookie.bookie import Bookie
from journal.bookkeeper import protocol_v2, protocol_v3
from journal.bookkeeper.errors import FrameError
from journal.bookkeeper.messages import BookieResponse
from journal.bookkeeper.protocol_v2 import FrameBuffer

_LOG = logging.getLogger(__name__)

_RECEIVE = 1 << 18
_MAX_WAITING = 64 << 20
_LONG = 1e9


class BookieServer:
    """Server of a bookie on one port; it accepts connections after `start`."""

    def __init__(self, bookie: Bookie) -> None:
        self._bookie = bookie
        # Clients keep their connections open, but may be silent for hours.
        limits = PortLimits(connections=1000, peer_connections=1000, idle=_LONG, opening=_LONG)
        self._loop = SocketLoop("bookie", limits, Refusals(), self._made)

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Bind the address, and return it.

        Raises:
            OSError: the address cannot be used.
        """
        return self._loop.listen(host, port)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """Close all connections."""
        self._loop.stop()

    def _made(self, connection: socket.socket, peer: str) -> Channel:
        return _BookieConnection(connection, peer, self._loop, self._bookie)


class _BookieConnection(Channel):
    """Connection from a client; the loop's thread and the bookie's writer send responses."""

    def __init__(self, connection: socket.socket, peer: str, loop: SocketLoop, bookie: Bookie) -> None:
        super().__init__(connection, peer)
        self._loop = loop
        self._bookie = bookie
        self._frames = FrameBuffer()
        self._guard = threading.Lock()
        self._out = bytearray()
        self._over = False

    def interest(self) -> int:
        with self._guard:
            # While a client does not read its responses, its requests are not read either.
            reading = selectors.EVENT_READ if len(self._out) < _MAX_WAITING else 0
            return reading | (selectors.EVENT_WRITE if self._out else 0)

    def readable(self) -> None:
        data = self.socket.recv(_RECEIVE)
        if not data:
            self._loop.discard(self)
            return
        self.since = time.monotonic()
        try:
            for packet in self._frames.feed(data):
                self._serve(packet)
        except FrameError as fault:
            _LOG.warning("a connection from %s is closed: %s", self.peer, fault)
            self._loop.discard(self)

    def writable(self) -> None:
        with self._guard:
            self._write()

    def overdue(self, now: float) -> str:
        return ""

    def ended(self) -> None:
        with self._guard:
            self._over = True

    def _serve(self, packet: bytes) -> None:
        if protocol_v2.is_v2(packet):
            self._bookie.handle(protocol_v2.decode_request(packet), self._answer_v2)
            return
        asked = protocol_v3.decode_request(packet)

        def answer(response: BookieResponse) -> None:
            self._send(protocol_v3.encode_response(protocol_v3.V3Response(asked.txn_id, response)))

        self._bookie.handle(asked.request, answer)

    def _answer_v2(self, response: BookieResponse) -> None:
        self._send(protocol_v2.encode_response(response))

    def _send(self, packet: bytes) -> None:
        with self._guard:
            if self._over:
                return
            waiting = bool(self._out)
            self._out += len(packet).to_bytes(4, "big") + packet
            if not waiting:
                self._write()
            if not self._out:
                return
        self._loop.call(lambda: self._loop.update(self))

    def _write(self) -> None:
        try:
            sent = self.socket.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            # The loop handles the error at its next read.
            self._out.clear()
            return
        del self._out[:sent]
