"""One HTTP connection: h11 parses the headers, threads do the work, and unsent responses wait for the peer.

The loop's thread reads headers, sends the bytes that a thread did not send, and discards data that a client sends after
the response. While a thread works on a request, it owns the connection. A thread also performs each step of a TLS
handshake, because a signature takes milliseconds, which would delay all connections of the loop.
"""

from __future__ import annotations

import logging
import re
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import h11

from hadoop_common.port_limits import PortLimits
from hadoop_common.socket_loop import BUSY, IDLE, UNPROVEN, Channel, SocketLoop
from hadoop_common.tls.errors import tls_label, tls_reason
from hadoop_common.tls.reloading import HANDSHAKES
from hadoop_common.tls.sockets import TlsSocket
from servlets.http_request import target_problem

_LOG = logging.getLogger(__name__)

_RECEIVE_BYTES = 65536
DEFAULT_HEADER_BYTES = 16 << 10
_MAX_DRAIN = 3600.0
_MAX_PROBLEM = 200
_SPEAK_TLS = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 24\r\n\r\n"
    b"this port speaks HTTPS\r\n"
)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class _ChannelStage(Enum):
    GREETING = auto()
    READING = auto()
    WORKING = auto()
    SENDING = auto()
    DRAINING = auto()


@dataclass(frozen=True, slots=True)
class Port:
    """Settings shared by the connections of one server.

    Attributes:
        work: queues a request for a thread.
        greet: queues a step of a TLS handshake for a thread.
        linger: seconds without data after which a client that is still sending is disconnected.
        header_bytes: maximum size of request headers.
    """

    limits: PortLimits
    loop: SocketLoop
    refuse: Callable[[str], None]
    work: Callable[[HttpChannel, h11.Connection, h11.Request], None]
    greet: Callable[[HttpChannel], None]
    linger: float
    header_bytes: int = DEFAULT_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class WorkResult:
    """Result of a thread's work: unsent bytes, and instructions for the connection.

    Attributes:
        reuse: whether another request may follow; `rest` is the received part of that request.
        drain: whether the client still sends a body, which the loop discards.
    """

    unsent: bytes = b""
    reuse: bool = False
    rest: bytes = b""
    drain: bool = False


class HttpChannel(Channel):
    """A connection of `port`; see `Channel`."""

    def __init__(self, port: Port, connection: socket.socket, peer: str) -> None:
        super().__init__(connection, peer)
        self._port = port
        self._stage = _ChannelStage.GREETING if isinstance(connection, TlsSocket) else _ChannelStage.READING
        # event for which the handshake waits; None after the handshake, or without TLS
        self._greeting = selectors.EVENT_READ if isinstance(connection, TlsSocket) else None
        self._refused = False
        self._http = _new_parser(self._port.header_bytes)
        self._in_first_line = True
        self._proven = False
        # whether a thread has reserved the connection, and whether threads can no longer reserve it
        self._lock = threading.Lock()
        self._taken = self._ended = False
        # when the headers began to arrive; None while the connection waits for a request
        self._begun: float | None = self.since
        self._unsent = memoryview(b"")
        self._after = WorkResult()
        # start of the stage, start of the current progress interval, and bytes transferred in this interval
        self._entered = self._waiting = self.since
        self._moved = 0

    # ---- the loop's thread ---------------------------------------------------------------------------------

    def interest(self) -> int:
        if self._stage is _ChannelStage.WORKING:
            return 0
        if self._stage is _ChannelStage.GREETING and self._greeting is not None:
            return self._greeting
        return selectors.EVENT_WRITE if self._stage is _ChannelStage.SENDING else selectors.EVENT_READ

    def readable(self) -> None:
        if self._stage is _ChannelStage.GREETING:
            self._enter(_ChannelStage.WORKING)
            self._port.greet(self)
            return
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            self._port.loop.discard(self)
        elif self._stage is _ChannelStage.DRAINING:
            self._progress(len(data), self._port.linger)
        else:
            self._parse(data)

    def writable(self) -> None:
        if self._stage is _ChannelStage.GREETING:
            self._enter(_ChannelStage.WORKING)
            self._port.greet(self)
            return
        sent = self.socket.send(self._unsent)
        self._unsent = self._unsent[sent:]
        self._progress(sent, self._port.limits.stall)
        if not self._unsent:
            self._next()

    def overdue(self, now: float) -> str:
        limits = self._port.limits
        if self._stage is _ChannelStage.GREETING:
            return "slow handshake" if now > self.since + limits.opening else ""
        if self._stage is _ChannelStage.READING:
            if self._begun is None:
                return "idle" if now > self.since + limits.idle else ""
            return "slow headers" if now > self._begun + limits.opening else ""
        if self._stage is _ChannelStage.SENDING:
            return "too slow" if now > self._waiting + limits.stall else ""
        if self._stage is _ChannelStage.DRAINING:
            if self._refused:
                return "slow handshake" if now > self.since + limits.opening else ""
            late = now > min(self._waiting + self._port.linger, self._entered + _MAX_DRAIN)
            return "did not end its request" if late else ""
        return ""

    def priority(self) -> int:
        if self._taken:
            return BUSY
        return IDLE if self._proven else UNPROVEN

    def may_evict(self) -> bool:
        with self._lock:
            self._ended = not self._taken
            return self._ended

    def ended(self) -> None:
        if not isinstance(self.socket, TlsSocket):
            return
        if self._greeting is not None:
            HANDSHAKES.count("server", "unfinished")
        elif not self._refused:
            self.socket.farewell()

    def done(self, answered: WorkResult) -> None:
        """Continue the connection after a thread has finished the work for it."""
        self._taken = False
        self.since = time.monotonic()
        self._after = answered
        self._unsent = memoryview(answered.unsent)
        self._enter(_ChannelStage.SENDING)
        if not answered.unsent:
            self._next()
        self._port.loop.update(self)

    def greeted(self) -> None:
        """Continue after a thread has performed a handshake step."""
        self._taken = False
        if self._greeting is not None:
            self._enter(_ChannelStage.GREETING)
        else:
            self._enter(_ChannelStage.DRAINING if self._refused else _ChannelStage.READING)
        self._port.loop.update(self)

    # ---- for any thread ------------------------------------------------------------------------------------

    def greet(self) -> None:
        """Continue the TLS handshake without blocking; the loop's thread must then call `greeted`.

        Raises:
            OSError: the connection broke.
        """
        assert isinstance(self.socket, TlsSocket)
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            self._greeting = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self._greeting = selectors.EVENT_WRITE
        except ssl.SSLError as fault:
            HANDSHAKES.count("server", tls_label(fault))
            _LOG.info("a handshake with %s failed: %s", self.peer, tls_reason(fault))
            # closing immediately would discard the alert with the reason
            self.socket.refuse(_SPEAK_TLS if fault.reason == "HTTP_REQUEST" else b"")
            self._greeting, self._refused = None, True
        else:
            HANDSHAKES.count("server", "ok")
            self._greeting = None

    def take(self) -> bool:
        """Reserve the connection for a thread; return False if the connection is already closed."""
        with self._lock:
            self._taken = not self._ended
            return self._taken

    def cut(self) -> None:
        """Close a connection that a thread works on."""
        if self._taken:
            self._shut(socket.SHUT_RDWR)

    @property
    def sending(self) -> bool:
        """Whether a part of a response is still unsent."""
        return self._stage is _ChannelStage.SENDING

    # ---- parts ---------------------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        if self._begun is None:
            self._begun = time.monotonic()
        try:
            if data:
                self._http.receive_data(self._escaped(data))
            event = self._http.next_event()
        except h11.RemoteProtocolError as fault:
            self._refuse(fault.error_status_hint, str(fault)[:_MAX_PROBLEM])
            return
        if not isinstance(event, h11.Request):
            return
        self._proven = True
        if problem := target_problem(event):
            self._refuse(400, problem)
            return
        self._enter(_ChannelStage.WORKING)
        self._port.loop.update(self)
        self._port.work(self, self._http, event)

    def _escaped(self, data: bytes) -> bytes:
        """Replace bytes outside ASCII in the first line with %XX, because Hadoop's clients send names unescaped."""
        if not self._in_first_line:
            return data
        line, end, rest = data.partition(b"\n")
        self._in_first_line = not end
        return _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line) + end + rest

    def _refuse(self, status: int, problem: str) -> None:
        """Respond to a malformed request and end the connection, because the start of the next request is unknown."""
        self._port.refuse("malformed")
        _LOG.warning("refused a request from %s: %s", self.peer, problem)
        body = f"{problem}\n".encode()
        headers = [("Content-Length", str(len(body))), ("Content-Type", "text/plain"), ("Connection", "close")]
        answer = self._http.send(h11.Response(status_code=status, headers=headers, reason=b"Refused"))
        self.done(WorkResult((answer or b"") + body, drain=True))

    def _next(self) -> None:
        """Continue after the response is sent."""
        if self._after.drain:
            self._shut(socket.SHUT_WR)
            self.polite = True
            self._enter(_ChannelStage.DRAINING)
        elif self._after.reuse:
            self._http = _new_parser(self._port.header_bytes)
            self._in_first_line = True
            self._begun = None
            self._enter(_ChannelStage.READING)
            if self._after.rest:
                self._parse(self._after.rest)
        else:
            self._port.loop.discard(self)
            return
        if isinstance(self.socket, TlsSocket) and self.socket.pending():
            # select does not report bytes that TLS has already decrypted
            self._port.loop.read_soon(self)

    def _enter(self, stage: _ChannelStage) -> None:
        self._stage = stage
        self._entered = self._waiting = time.monotonic()
        self._moved = 0

    def _progress(self, moved: int, seconds: float) -> None:
        """Record progress; the interval of `seconds` restarts when enough bytes have been transferred."""
        self._moved += moved
        if self._moved >= self._port.limits.least_rate * seconds:
            self._waiting = time.monotonic()
            self._moved = 0

    def _shut(self, how: int) -> None:
        try:
            self.socket.shutdown(how)
        except OSError as fault:
            _LOG.debug("connection from %s was already closed: %s", self.peer, fault)


def _new_parser(header_bytes: int) -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=header_bytes)
