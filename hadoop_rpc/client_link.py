"""One open client connection: a socket, its state machine, and a thread that passes responses to waiting callers."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Self

from google.protobuf.message import Message

from hadoop_common.addresses import host_port
from hadoop_rpc.client_state import (
    CallFailure,
    CallResponse,
    ClientConnection,
    ClientState,
    ConnectionReady,
    Event,
    NegotiationStep,
)
from hadoop_rpc.errors import KerberosError, RpcConnectionError, RpcError, RpcProtocolError, RpcTimeoutError
from hadoop_rpc.login_settings import BINDS_ANY_ADDRESS
from hadoop_rpc.security import ClientSecurity

_LOG = logging.getLogger(__name__)
_RECEIVE_BYTES = 1 << 16
_NO_HOST_HINT = "Check the host name in the configuration, and the name service of this host (DNS, /etc/hosts)."
# seconds within which a server that closes the connection sends a final error
_LAST_WORDS_SECONDS = 5.0


@dataclass(slots=True)
class _WaitingCall:
    """A call without a response."""

    done: threading.Event = field(default_factory=threading.Event)
    body: bytes = b""
    error: RpcError | None = None

    def end(self, body: bytes, error: RpcError | None) -> None:
        self.body, self.error = body, error
        self.done.set()


class ClientLink:
    """A connection that any thread can use for calls until it is `broken`; made by `open`."""

    def __init__(self, peer: socket.socket, address: str, state: ClientConnection) -> None:
        self._socket = peer
        self._address = address
        self._state = state
        self._lock = threading.Lock()
        # separate from `_lock`, so that the thread can read responses while a caller sends a request; a server may send
        # responses before it continues to read
        self._sending = threading.Lock()
        self._waiting: dict[int, _WaitingCall] = {}
        self._broken = False
        self._refused: RpcError | None = None
        self._reader = threading.Thread(target=self._read, name=f"rpc-{address}", daemon=True)

    @classmethod
    def open(
        cls,
        host: str,
        port: int,
        protocol: str,
        *,
        user: str,
        client_id: bytes,
        security: ClientSecurity | None,
        timeout: float,
        ping_interval: float,
    ) -> Self:
        """Connect, authenticate, and start the reading thread.

        Raises:
            RpcConnectionError: no server answers within `timeout` seconds.
            RpcProtocolError, AuthenticationRequiredError: the server is incompatible.
            KerberosError: there is no ticket for the server, or one side rejects the other.
        """
        address = host_port(host, port)
        try:
            peer = _connect((host, port), timeout, "" if security is None else security.own_host)
        except (OSError, UnicodeError) as fault:  # UnicodeError: a part of the host name is too long or empty
            hint = _NO_HOST_HINT if isinstance(fault, socket.gaierror) else ""
            raise RpcConnectionError(f"cannot connect to {address}: {fault}", hint=hint) from fault
        state = ClientConnection(protocol, user, client_id, security=security)
        try:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            _open(peer, state, address)
            # from here on, the link pings a silent peer, and a send without progress fails
            peer.settimeout(None)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(ping_interval))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(timeout))
        except OSError as fault:
            peer.close()
            raise RpcConnectionError(f"the connection to {address} failed during the handshake: {fault}") from fault
        except BaseException:
            peer.close()
            raise
        link = cls(peer, address, state)
        link._reader.start()
        return link

    @property
    def broken(self) -> bool:
        """Whether the connection is unusable for further calls."""
        with self._lock:
            return self._broken

    def call(self, call_id: int, method: str, request: Message, timeout: float, *, retry: int) -> bytes:
        """Make one call and return the body of its response; see `RpcClient.call` for the exceptions."""
        waiting = _WaitingCall()
        with self._lock:
            usable = not self._broken and self._state.state is ClientState.OPEN
            if usable:
                data = self._state.call(call_id, method, request, retry=retry)
                self._waiting[call_id] = waiting
        if not usable:
            self._reader.join(_LAST_WORDS_SECONDS)
            raise self._closed()
        self._send(method, data)
        if not waiting.done.wait(timeout if timeout < threading.TIMEOUT_MAX else None):
            self._give_up(call_id, method, timeout)
            waiting.done.wait()
        if waiting.error is not None:
            raise waiting.error
        return waiting.body

    def _closed(self) -> RpcError:
        return self._refused or RpcConnectionError(f"the connection to {self._address} is closed")

    def _send(self, method: str, data: bytes) -> None:
        try:
            with self._sending:
                if self.broken:
                    raise self._closed()
                self._socket.sendall(self._state.seal(data))
        except OSError as fault:
            error = RpcConnectionError(f"{method} could not be sent to {self._address}: {fault}", sent=True)
            if isinstance(fault, ConnectionError):
                # a server that refuses the connection has sent the reason, but the reading thread may not have read the
                # reason yet
                self._reader.join(_LAST_WORDS_SECONDS)
            with self._lock:
                self._fail(error)
            raise self._refused or error from fault
        except KerberosError as error:
            with self._lock:
                self._fail(error)
            raise

    def _give_up(self, call_id: int, method: str, timeout: float) -> None:
        """Abort an unanswered call and close the connection, because later calls on this connection would also hang."""
        with self._lock:
            waiting = self._waiting.pop(call_id, None)
        if waiting is not None:
            late = f"{self._address} did not answer {method} within {timeout:g} s"
            waiting.end(b"", RpcTimeoutError(late, sent=True))
            # other calls have waited less, so the client may repeat them
            self.close(RpcConnectionError(f"the connection was closed, because {late}", sent=True))

    def close(self, reason: RpcError | None = None) -> None:
        """Close the connection; waiting callers receive the error `reason`."""
        with self._lock:
            self._fail(
                reason or RpcConnectionError(f"the connection to {self._address} was closed by this side", sent=True)
            )
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _fail(self, error: RpcError) -> None:
        """Mark the connection as unusable; the caller holds the lock."""
        if not self._broken:
            self._broken = True
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError as fault:
                _LOG.debug("the connection to %s was already closed: %s", self._address, fault)
        for waiting in self._waiting.values():
            waiting.end(b"", error)
        self._waiting.clear()

    def _read(self) -> None:
        reason: RpcError = RpcConnectionError(f"the connection to {self._address} was closed", sent=True)
        try:
            while (data := self._receive()) is not None:
                if not data:
                    raise RpcConnectionError(f"{self._address} closed the connection", sent=True)
                with self._lock:
                    events = _events(self._state, data, self._address)
                for event in events:
                    self._settle(event)
        except RpcProtocolError as error:
            # this error also explains why a request could not be sent
            reason = self._refused = error
        except RpcError as error:
            reason = error
        except OSError as fault:
            reason = RpcConnectionError(f"the connection to {self._address} was lost: {fault}", sent=True)
        finally:
            # after any fault, callers must stop waiting for responses
            with self._lock:
                self._fail(reason)
            with self._sending:
                self._socket.close()

    def _receive(self) -> bytes | None:
        """Return received bytes, and send a ping after each interval of silence; return None once the connection is
        broken.
        """
        while not self.broken:
            try:
                return self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                self._ping()
        return None

    def _ping(self) -> None:
        with self._lock:
            data = self._state.ping() if self._waiting and not self._broken else b""
        # a thread that is sending proves that this side is alive; waiting for that thread would delay reading
        if data and self._sending.acquire(blocking=False):
            try:
                self._socket.sendall(self._state.seal(data))
            finally:
                self._sending.release()

    def _settle(self, event: Event) -> None:
        if isinstance(event, NegotiationStep | ConnectionReady):
            raise RpcProtocolError(f"{self._address} continues a negotiation that is complete")
        with self._lock:
            if isinstance(event, CallFailure) and event.call_id is None:
                self._refused = event.error
                self._fail(event.error)
                return
            call_id = event.call_id if event.call_id is not None else -1
            waiting = self._waiting.pop(call_id, None)
        if waiting is None:
            _LOG.debug("%s answered call %d, which has no waiting caller", self._address, call_id)
        elif isinstance(event, CallResponse):
            waiting.end(event.body, None)
        else:
            waiting.end(b"", event.error)


def _connect(address: tuple[str, int], timeout: float, own_host: str) -> socket.socket:
    """Connect from the address of `own_host` if this host has that address and it reaches the server."""
    # /etc/hosts may give this host's name a loopback address, from which no other host can be reached
    if own_host and (not _is_loopback(own_host) or _is_loopback(address[0])):
        try:
            return socket.create_connection(address, timeout, (own_host, 0))
        except ConnectionRefusedError:
            raise
        except TimeoutError as fault:
            raise TimeoutError(f"timed out, from the address of {own_host} ({BINDS_ANY_ADDRESS.name})") from fault
        except OSError as fault:
            _LOG.debug("no connection to %s from %s: %s", address, own_host, fault)
    return socket.create_connection(address, timeout)


def _is_loopback(host: str) -> bool:
    """Return whether the first address of `host` is a loopback address; False if the host is unknown."""
    try:
        return ip_address(socket.getaddrinfo(host, None)[0][4][0]).is_loopback
    except (OSError, ValueError):
        return False


def _open(peer: socket.socket, state: ClientConnection, address: str) -> None:
    """Send the connection header, and negotiate if the connection starts with SASL."""
    deadline = time.monotonic() + (peer.gettimeout() or 0.0)
    peer.sendall(state.open())
    while state.state.value == "negotiating":
        peer.settimeout(max(0.001, deadline - time.monotonic()))
        data = peer.recv(_RECEIVE_BYTES)
        if not data:
            raise RpcConnectionError(f"{address} closed the connection during the negotiation")
        for event in _events(state, data, address):
            if isinstance(event, NegotiationStep | ConnectionReady):
                peer.sendall(event.data)
            elif isinstance(event, CallFailure):
                raise event.error


def _events(state: ClientConnection, data: bytes, address: str) -> list[Event]:
    """Return `ClientConnection.receive`, with the server's address in the error about wrong bytes."""
    try:
        return state.receive(data)
    except RpcProtocolError as error:
        raise RpcProtocolError(f"{address}: {error.message}", hint=error.hint) from error


def _timeval(seconds: float) -> bytes:
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
