"""HTTP connections whose waits can be cancelled: while connecting, sending, and reading the response."""

from __future__ import annotations

import errno
import http.client
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from urllib3.connection import HTTPConnection

from hadoop_common.tls.errors import HandshakeError, tls_label, tls_reason
from hadoop_common.tls.reloading import HANDSHAKES, context_for

_TLS_PIECE = 65536
# interval at which a waiting transfer checks for cancellation
_SLICE_SECONDS = 0.25


class WaitCancelled(Exception):  # noqa: N818 - not an error, it ends the wait
    """Cancellation of a wait by the caller."""


class WaitLimit:
    """The limit of each wait without progress, in seconds (None if unlimited), with a check for cancellation."""

    def __init__(self, timeout: float | None, cancelled: Callable[[], bool]) -> None:
        self._timeout = timeout
        self._cancelled = cancelled
        self.begin()

    def begin(self) -> None:
        """Restart the limit for a new wait or after progress."""
        self._deadline = None if self._timeout is None else time.monotonic() + self._timeout

    def slice(self) -> float:
        """Return the seconds to wait before the next call.

        Raises:
            WaitCancelled: the caller cancelled the wait.
            TimeoutError: the limit is exceeded.
        """
        if self._cancelled():
            raise WaitCancelled
        if self._deadline is None:
            return _SLICE_SECONDS
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no progress for {self._timeout:g} s")
        return min(left, _SLICE_SECONDS)


# the type checker needs a socket as the base class of the mix-in
if TYPE_CHECKING:
    _Base = socket.socket
else:
    _Base = object


class _CancellableSocket(_Base):
    """A socket that waits in short slices and checks for a cancellation between them."""

    limit: WaitLimit

    def _in_slices(self, step: Callable[[], int]) -> int:
        self.limit.begin()
        while True:
            self.settimeout(self.limit.slice())
            try:
                return step()
            except TimeoutError:
                continue

    def recv_into(self, *arguments: Any, **extra: Any) -> int:
        return self._in_slices(lambda: super(_CancellableSocket, self).recv_into(*arguments, **extra))

    def send(self, *arguments: Any, **extra: Any) -> int:
        return self._in_slices(lambda: super(_CancellableSocket, self).send(*arguments, **extra))

    def sendall(self, data: Any, flags: int = 0) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view) :]


class _PlainSocket(_CancellableSocket, socket.socket):
    def sendmsg(self, *arguments: Any, **extra: Any) -> int:
        return self._in_slices(lambda: super(_PlainSocket, self).sendmsg(*arguments, **extra))


class TlsClientSocket(_CancellableSocket, ssl.SSLSocket):
    """A cancellable socket with TLS.

    Readable data may be a TLS ticket instead of a response, so `has_answer` reads one byte and stores it.
    """

    _ahead = b""

    def recv_into(self, *arguments: Any, **extra: Any) -> int:
        if self._ahead:
            room = memoryview(arguments[0]).cast("B")
            room[:1], self._ahead = self._ahead, b""
            return 1
        with _tls_faults():
            return super().recv_into(*arguments, **extra)

    def send(self, data: Any, flags: int = 0) -> int:
        # progress is visible only after each piece
        with _tls_faults():
            try:
                return super().send(memoryview(data)[:_TLS_PIECE], flags)
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
                # the unread data may contain the reason why the peer closed the connection
                self.read(1)
                raise

    def has_answer(self) -> bool:
        """Return whether the response or the end of the stream has arrived; does not wait."""
        self.settimeout(0)
        try:
            self._ahead = self._ahead or self.read(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            # the next read reports the error
            return True
        return True


@contextmanager
def _tls_faults() -> Iterator[None]:
    """Convert TLS errors to HandshakeErrors with a readable reason."""
    try:
        yield
    except ssl.SSLError as fault:
        raise HandshakeError(tls_reason(fault)) from fault


class CancellableConnection(HTTPConnection):
    """A connection of urllib3 whose connection attempt and waits can be cancelled."""

    def __init__(self, host: str, port: int, connecting: WaitLimit, limit: WaitLimit) -> None:
        super().__init__(host, port)
        # the name with its final dot, if any; `self.host`, certificates and the Host header lack the dot
        self._dns_name = host
        self._connecting = connecting
        self._limit = limit

    def connect(self) -> None:
        self.sock = peer = _connected(self._dns_name, self.port, self._connecting)
        peer.limit = self._limit

    def raw_answer(self) -> http.client.HTTPResponse:
        """Return the response of http.client, because urllib3's own response requires its `request`."""
        return http.client.HTTPConnection.getresponse(self)


class _TlsConnection(CancellableConnection):
    """A cancellable connection with TLS."""

    default_port = http.client.HTTPS_PORT  # type: ignore[misc]

    def connect(self) -> None:
        context = context_for(self.host, TlsClientSocket)
        super().connect()
        wrapped = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        assert isinstance(wrapped, TlsClientSocket)
        self.sock = wrapped
        wrapped.limit = self._limit
        try:
            with _tls_faults():
                self._greet(wrapped)
        except OSError as fault:
            HANDSHAKES.count("client", tls_label(fault))
            raise
        HANDSHAKES.count("client", "ok")

    def _greet(self, wrapped: TlsClientSocket) -> None:
        self._connecting.begin()
        while True:
            wrapped.settimeout(self._connecting.slice())
            try:
                wrapped.do_handshake()
            except TimeoutError:
                continue
            return


def connection_for(
    url: SplitResult, timeout: float | None, cancelled: Callable[[], bool], *, connect_timeout: float | None = None
) -> CancellableConnection:
    """Return a connection, not yet open, to the host of an http or https URL.

    Every wait raises TimeoutError after `timeout` seconds without progress (the connection attempt after
    `connect_timeout`, if given), and WaitCancelled soon after `cancelled()` becomes true. The name lookup is not
    limited.
    """
    kind = _TlsConnection if url.scheme == "https" else CancellableConnection
    connecting = WaitLimit(connect_timeout or timeout, cancelled)
    # without a port, http.client would interpret the last part of an IPv6 address as the port
    port = url.port or kind.default_port
    return kind(url.hostname or "", port, connecting, WaitLimit(timeout, cancelled))


def _connected(host: str, port: int, limit: WaitLimit) -> _PlainSocket:
    """Connect to the first address of `host` that answers; raise OSError if no address answers."""
    fault: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        peer = _PlainSocket(family, kind, protocol)
        peer.limit = limit
        try:
            _connect(peer, address, limit)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            peer.close()
            fault = error
        except BaseException:
            peer.close()
            raise
        else:
            return peer
    raise fault or OSError(f"{host} has no address")


def _connect(peer: _PlainSocket, address: Any, limit: WaitLimit) -> None:
    peer.setblocking(False)
    limit.begin()
    code = peer.connect_ex(address)
    if code == errno.EINPROGRESS:
        poller = select.poll()
        poller.register(peer, select.POLLOUT)
        while not poller.poll(limit.slice() * 1000):
            continue
        code = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
