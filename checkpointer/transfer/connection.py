"""HTTP connections whose waits end soon after the caller was told to stop, be it a connect, a send or an answer."""

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

from hadoop_common.tls.errors import HandshakeError
from hadoop_common.tls.process import HANDSHAKES, context_for
from hadoop_common.tls.reasons import tls_label, tls_reason

_TLS_PIECE = 65536
# how often a waiting transfer looks whether it was cancelled
_SLICE_SECONDS = 0.25


class WaitCancelled(Exception):  # noqa: N818 - it is no error, it ends the waiting
    """The caller asked to stop."""


class Patience:
    """How long one wait without progress may take, seconds, and whether it is to end before."""

    def __init__(self, timeout: float, cancelled: Callable[[], bool]) -> None:
        self._timeout = timeout
        self._cancelled = cancelled
        self.begin()

    def begin(self) -> None:
        """A wait begins, or there was progress."""
        self._deadline = time.monotonic() + self._timeout

    def slice(self) -> float:
        """Seconds to wait now before the next call.

        Raises:
            WaitCancelled: the caller asked to stop.
            TimeoutError: it took too long.
        """
        if self._cancelled():
            raise WaitCancelled
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no progress for {self._timeout:g} s")
        return min(left, _SLICE_SECONDS)


# The class that a mix-in of sockets can rely on.
if TYPE_CHECKING:
    _Base = socket.socket
else:
    _Base = object


class _Patient(_Base):
    """A socket that waits in slices, where the plain one waits for the whole of its timeout."""

    patience: Patience

    def _patiently(self, step: Callable[[], int]) -> int:
        self.patience.begin()
        while True:
            self.settimeout(self.patience.slice())
            try:
                return step()
            except TimeoutError:
                continue

    def recv_into(self, *arguments: Any, **extra: Any) -> int:
        return self._patiently(lambda: super(_Patient, self).recv_into(*arguments, **extra))

    def send(self, *arguments: Any, **extra: Any) -> int:
        return self._patiently(lambda: super(_Patient, self).send(*arguments, **extra))

    def sendall(self, data: Any, flags: int = 0) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view) :]


class _PlainSocket(_Patient, socket.socket):
    """As `_Patient` says."""

    def sendmsg(self, *arguments: Any, **extra: Any) -> int:
        return self._patiently(lambda: super(_PlainSocket, self).sendmsg(*arguments, **extra))


class TlsClientSocket(_Patient, ssl.SSLSocket):
    """The same with TLS.

    What can be read may be a ticket of TLS instead of an answer, so `has_answer` reads, and keeps what it got.
    """

    _ahead = b""

    def recv_into(self, *arguments: Any, **extra: Any) -> int:
        if self._ahead:
            room = memoryview(arguments[0]).cast("B")
            room[:1], self._ahead = self._ahead, b""
            return 1
        with _told():
            return super().recv_into(*arguments, **extra)

    def send(self, data: Any, flags: int = 0) -> int:
        # progress is seen with each piece only
        with _told():
            try:
                return super().send(memoryview(data)[:_TLS_PIECE], flags)
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
                # why it was closed may lie in what was not read yet
                self.read(1)
                raise

    def has_answer(self) -> bool:
        """Whether the answer, or the end, is there; does not wait."""
        self.settimeout(0)
        try:
            self._ahead = self._ahead or self.read(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            # who reads on is told
            return True
        return True


@contextmanager
def _told() -> Iterator[None]:
    """Tell what is wrong with TLS in a sentence."""
    try:
        yield
    except ssl.SSLError as fault:
        raise HandshakeError(tls_reason(fault)) from fault


class _Connection(http.client.HTTPConnection):
    """Connects and waits with patience."""

    def __init__(self, host: str, port: int | None, patience: Patience) -> None:
        super().__init__(host, port)
        self._patience = patience

    def connect(self) -> None:
        self.sock = _connected(self.host, self.port, self._patience)


class _TlsConnection(_Connection):
    """The same with TLS."""

    default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        context = context_for(self.host, TlsClientSocket)
        super().connect()
        wrapped = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        assert isinstance(wrapped, TlsClientSocket)
        self.sock = wrapped
        wrapped.patience = self._patience
        try:
            with _told():
                self._greet(wrapped)
        except OSError as fault:
            HANDSHAKES.count("client", tls_label(fault))
            raise
        HANDSHAKES.count("client", "ok")

    def _greet(self, wrapped: TlsClientSocket) -> None:
        self._patience.begin()
        while True:
            wrapped.settimeout(self._patience.slice())
            try:
                wrapped.do_handshake()
            except TimeoutError:
                continue
            return


def connection_for(url: SplitResult, timeout: float, cancelled: Callable[[], bool]) -> http.client.HTTPConnection:
    """A connection, not open yet, to the host of an http or https address.

    Every wait on it, that for the connection included, ends with TimeoutError after `timeout` seconds without
    progress, and with WaitCancelled soon after `cancelled()` became true; that goes through all of http.client.
    The name of the host is looked up without either.
    """
    kind = _TlsConnection if url.scheme == "https" else _Connection
    return kind(url.hostname or "", url.port, Patience(timeout, cancelled))


def _connected(host: str, port: int, patience: Patience) -> _PlainSocket:
    """Connect to the first address of `host` that answers; raises OSError where none does."""
    fault: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        peer = _PlainSocket(family, kind, protocol)
        peer.patience = patience
        try:
            _connect(peer, address, patience)
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


def _connect(peer: _PlainSocket, address: Any, patience: Patience) -> None:
    peer.setblocking(False)
    patience.begin()
    code = peer.connect_ex(address)
    if code == errno.EINPROGRESS:
        poller = select.poll()
        poller.register(peer, select.POLLOUT)
        while not poller.poll(patience.slice() * 1000):
            continue
        code = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
