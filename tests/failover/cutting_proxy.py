"""A ZooKeeper proxy that cuts the connection at a chosen request, before or after the server receives the request.

The proxy can also hold back all traffic, as a network that loses packets does, and end the session of its client.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType

from kazoo.protocol.serialization import Close, Connect, ReplyHeader

from tests.loopback_relay import HERE, LoopbackRelay

_SESSION_MILLISECONDS = 20_000


def end_session(hosts: str, session: tuple[int, bytes]) -> None:
    """End a session of another client, as ZooKeeper does after its timeout: close it with the same id.

    The function sends both requests together, so that the owner has no time to reclaim its session.
    """
    session_id, password = session
    connect = Connect(0, 0, _SESSION_MILLISECONDS, session_id, password, False).serialize()
    close = struct.pack("!ii", 1, Close.type)
    host, _, port = hosts.rpartition(":")
    while True:
        with socket.create_connection((host, int(port)), 600) as connection:
            connection.sendall(b"".join(struct.pack("!i", len(each)) + each for each in (connect, close)))
            # a connection that ends early has no complete response
            with suppress(OSError, struct.error):
                granted, _ = Connect.deserialize(_frame(connection), 4)
                if granted.time_out <= 0:
                    # the session had already ended
                    return
                header, _ = ReplyHeader.deserialize(_frame(connection), 4)
                if header.err == 0:
                    return


class CuttingProxy(LoopbackRelay):
    """Forwarder of frames; clients connect to `hosts`.

    Attributes:
        session: id and password of the last session that began through the proxy, None before the first session.
        passes: event that is set unless traffic is held back.
    """

    def __init__(self, port: int) -> None:
        super().__init__((HERE, port))
        self.hosts = self.address
        self._kind: int | None = None
        self._answered = False
        self._lock = threading.Lock()
        self.was_cut = threading.Event()
        self.session: tuple[int, bytes] | None = None
        self.passes = threading.Event()
        self.passes.set()
        self._swallowed: list[socket.socket] = []
        self._to_swallow = 0

    def swallow(self, connections: int) -> None:
        """Accept this number of further connections without answering on them."""
        with self._lock:
            self._to_swallow = connections

    def cut(self, kind: int, *, answered: bool) -> None:
        """Cut the connection at the next request of the type `kind`, before the server receives the request or after it
        responds.
        """
        with self._lock:
            self._kind, self._answered = kind, answered

    def hold_back(self) -> None:
        """Hold back all data silently in both directions until `let_through`."""
        self.passes.clear()

    def let_through(self) -> None:
        """Forward the data that was held back."""
        self.passes.set()

    def expire(self) -> None:
        """End the session of the client at the server, as if it had been silent for its timeout."""
        assert self.session is not None
        end_session(f"{self.target[0]}:{self.target[1]}", self.session)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.passes.set()
        for each in self._swallowed:
            each.close()

    def serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            with self._lock:
                self._to_swallow -= (swallows := self._to_swallow > 0)
            if swallows:
                self._swallowed.append(client)
                return
            link = _Link(self, client, socket.create_connection(self.target))
            threading.Thread(target=link.answers, daemon=True).start()
            link.requests()

    def chosen(self, kind: int) -> bool | None:
        """Return whether a request of this type reaches the server before the cut; None if there is no cut."""
        with self._lock:
            if kind != self._kind:
                return None
            self._kind = None
            return self._answered


class _Link:
    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._cut_at: int | None = None

    def requests(self) -> None:
        with suppress(OSError):
            opening = _frame(self._client)
            self._proxy.passes.wait()
            self._server.sendall(opening)
            while frame := _frame(self._client):
                self._proxy.passes.wait()
                xid, kind = struct.unpack_from(">ii", frame, 4)
                goes = self._proxy.chosen(kind)
                if goes is not None:
                    self._cut_at = xid
                if goes is False:
                    break
                self._server.sendall(frame)
        self._close()

    def answers(self) -> None:
        with suppress(OSError):
            opened = _frame(self._server)
            if opened:
                self._proxy.session = _session(opened)
            self._client.sendall(opened)
            while frame := _frame(self._server):
                self._proxy.passes.wait()
                if struct.unpack_from(">i", frame, 4)[0] == self._cut_at:
                    break
                self._client.sendall(frame)
        self._close()

    def _close(self) -> None:
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        if self._cut_at is not None:
            self._proxy.was_cut.set()


def _session(opened: bytes) -> tuple[int, bytes]:
    """Format of a ConnectResponse: length, protocol version, timeout, session id, password."""
    number, size = struct.unpack_from(">qi", opened, 12)
    return number, opened[24 : 24 + size]


def _frame(source: socket.socket) -> bytes:
    """Return the next frame with its length, b"" at the end."""
    head = _exactly(source, 4)
    return head + _exactly(source, struct.unpack(">i", head)[0]) if head else b""


def _exactly(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = source.recv(count - len(found))
        if not part:
            return b""
        found += part
    return found
