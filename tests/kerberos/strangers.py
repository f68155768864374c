"""Hostile clients of a kerberized server over RPC, HTTP and HTTPS, which are silent or slow, or send huge messages."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Self

from hadoop_rpc.client_state import ClientConnection, ConnectionReady, NegotiationStep
from hadoop_rpc.kerberos import security_for
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.sasl import MAX_HANDSHAKE_FRAME
from hadoop_rpc.wire import AuthProtocol, connection_header
from tests.kerberos.secure_conf import HOST

_WAIT = 600.0
_HUGE = b"\x7f\xff\xff\xff"
_REQUEST = b"GET /jmx HTTP/1.1\r\nHost: x\r\n"
_ANY = ssl._create_unverified_context()
Address = tuple[str, int]


class Strangers:
    """Hostile clients of alternating kinds; a context manager that closes them.

    RPC clients may begin a login as this process's user, at servers of `kind` with `protocol`.
    """

    def __init__(self, kind: ServerKind, protocol: str) -> None:
        self._kind = kind
        self._protocol = protocol
        self._ended = threading.Event()
        self._stack = ExitStack()
        self.peers: list[socket.socket] = []
        self._of: Mapping[str, list[Callable[[Address], None]]] = {
            "rpc": [
                lambda to: self._plain(to, b""),
                lambda to: self._plain(to, connection_header(AuthProtocol.SASL)),
                lambda to: self._plain(to, connection_header(AuthProtocol.SASL) + _HUGE),
                lambda to: self._plain(to, self._begin_of_a_huge_frame()),
                lambda to: self._trickle(self._plain(to, b""), self._client().open() + self._begin_of_a_huge_frame()),
                lambda to: self._log_in(to, steps=1),
                lambda to: self._log_in(to, steps=2),
                lambda to: self._log_in(to, steps=99, then=_HUGE),
                lambda to: self._log_in(to, steps=99, then=b"\0\1"),
            ],
            "http": [
                lambda to: self._plain(to, b""),
                lambda to: self._plain(to, _REQUEST),
                lambda to: self._plain(to, _REQUEST + b"A: " + b"x" * 200_000),
                lambda to: self._plain(to, _REQUEST + _token(b"x" * 70_000) + b"\r\n"),
                lambda to: self._trickle(self._plain(to, b""), _REQUEST + _token(b"x" * 70_000)),
            ],
            "https": [
                lambda to: self._plain(to, b""),
                lambda to: self._plain(to, _hello()[:100]),
                lambda to: self._plain(to, _hello()),
                lambda to: self._trickle(self._plain(to, b""), _hello()),
                lambda to: self._secret(to, b""),
                lambda to: self._secret(to, _REQUEST),
                lambda to: self._secret(to, _REQUEST + b"A: " + b"x" * 200_000),
                lambda to: self._secret(to, _REQUEST + _token(b"x" * 70_000) + b"\r\n"),
            ],
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._stack.close()

    def come(self, to: Mapping[str, Address], many: int) -> None:
        """Connect this number of clients to the servers in turn: rpc, http or https."""
        places = list(to.items())
        for number in range(many):
            speaks, address = places[number % len(places)]
            kinds = self._of[speaks.partition(" ")[0]]
            kinds[number // len(places) % len(kinds)](address)

    def assert_gone(self) -> None:
        """Wait until the server has ended every connection."""
        for peer in self.peers:
            peer.settimeout(_WAIT)
            with suppress(ConnectionError, BrokenPipeError):
                while peer.recv(65536):
                    pass

    def _plain(self, to: Address, sent: bytes) -> socket.socket:
        peer = self._stack.enter_context(socket.create_connection(to, _WAIT))
        self.peers.append(peer)
        with suppress(ConnectionError):
            peer.sendall(sent)
        return peer

    def _secret(self, to: Address, sent: bytes) -> None:
        """Connect with a TLS handshake."""
        peer = socket.create_connection(to, _WAIT)
        secret = self._stack.enter_context(_ANY.wrap_socket(peer, server_hostname=HOST))
        # received bytes are discarded, so the end of the stream is the end of the connection
        self.peers.append(self._stack.enter_context(socket.socket(fileno=socket.dup(secret.fileno()))))
        with suppress(OSError):
            secret.sendall(sent)

    def _trickle(self, peer: socket.socket, data: bytes) -> None:
        def send() -> None:
            with suppress(OSError):
                for byte in data:
                    if self._ended.wait(0.02):
                        return
                    peer.sendall(bytes((byte,)))

        threading.Thread(target=send, daemon=True).start()

    def _log_in(self, to: Address, steps: int, then: bytes = b"") -> None:
        """Perform this number of login steps; then send `then` as a token of the login."""
        client = self._client()
        peer = self._plain(to, client.open())
        for _ in range(steps):
            for event in client.receive(peer.recv(65536)):
                assert isinstance(event, NegotiationStep | ConnectionReady), event
                peer.sendall(event.data)
                if isinstance(event, ConnectionReady):
                    peer.sendall(client.seal(then))
                    return

    def _client(self) -> ClientConnection:
        return ClientConnection(self._protocol, "", b"0123456789abcdef", security=security_for(self._kind, HOST))

    @staticmethod
    def _begin_of_a_huge_frame() -> bytes:
        """Return the header and the first half of a token of the maximum size."""
        announced = MAX_HANDSHAKE_FRAME.to_bytes(4, "big")
        return connection_header(AuthProtocol.SASL) + announced + b"x" * (MAX_HANDSHAKE_FRAME // 2)


def _token(token: bytes) -> bytes:
    return b"Authorization: Negotiate " + base64.b64encode(token) + b"\r\n"


def _hello() -> bytes:
    """Return the first bytes of a TLS client."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        _ANY.wrap_bio(received, sent, server_hostname=HOST).do_handshake()
    return sent.read()
