"""The server side of a connection: its socket, its state, and responses that wait for the peer to read them.

The loop's thread reads requests and closes connections. Handlers send what the socket accepts immediately and leave the
rest to the loop, so that no handler waits for a peer. If the peer does not read its responses, the server does not read
from the connection either, so that the connection's memory use is limited.

A Kerberos login reads files and may query DNS, which would block the loop. Therefore, a handler processes the data of a
connection until the login ends. The loop does not read during this time, so that only one thread at a time uses the
connection's state.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from google.protobuf.message import EncodeError, Message

from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.socket_loop import BUSY, IDLE, UNPROVEN, Channel, SocketLoop
from hadoop_rpc.errors import KerberosError, RemoteError
from hadoop_rpc.security import KnownTokens, RpcServerSecurity
from hadoop_rpc.server_counts import ACCEPTED, FAILED, REFUSED, LoginCounts, RpcActivity
from hadoop_rpc.server_state import Call, ConnectionEnd, HandshakeReply, ServerConnection, ServerState
from hadoop_rpc.service import CallContext, Dispatcher
from hadoop_rpc.wire import RpcErrorCode

_LOG = logging.getLogger(__name__)

_RECEIVE_BYTES = 1 << 16
# the loop does not read from a connection with this much work in progress or unsent data
_MAX_CALLS = 100
_MAX_QUEUED = 1 << 20
_MAX_UNSENT = 1 << 18
# fraction of the usual time limit for a frame or response that applies when memory is short
_PRESSED = 1 / 30


class ChannelServer(Protocol):
    """The part of the server that a connection uses."""

    loop: SocketLoop
    limits: PortLimits
    refusals: Refusals
    logins: LoginCounts
    activity: RpcActivity
    security: RpcServerSecurity | None
    tokens: KnownTokens | None
    max_frame: int
    state_id: Callable[[], int | None] | None
    as_standby: bool

    @property
    def waiting(self) -> bool: ...

    @property
    def pressed(self) -> bool: ...

    @property
    def full(self) -> bool: ...

    def enqueue(self, channel: RpcChannel, work: Call | bytes) -> None: ...

    def hold(self, more: int) -> None: ...


class RpcChannel(Channel):
    """A connection of `server`; see `Channel` for the threads that call its methods."""

    def __init__(self, server: ChannelServer, connection: socket.socket, peer: str) -> None:
        super().__init__(connection, peer)
        self._server = server
        self._limits = server.limits
        self._state = ServerConnection(
            security=server.security,
            tokens=server.tokens,
            peer=peer,
            max_frame=server.max_frame,
            state_id=server.state_id,
            as_standby=server.as_standby,
        )
        # prevents closing the socket while a handler sends; guards all following fields
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._calls = self._running = 0
        self._queued_bytes = 0
        self._held = 0
        self._leaving = False
        # whether a handler is processing login data, and the protection after the login
        self._logging_in = False
        self._protection = ""
        # whether the peer has shut down its side, the server has shut down its side, and the socket is closed
        self._read_all = False
        self._sent_all = False
        self._closed = False
        # start time of a partly received frame or an unread response, and the bytes transferred since then
        self._owing_since: float | None = None
        self._moved = 0

    # ---- for any thread ------------------------------------------------------------------------------------

    def _context(self, call: Call, waited: float) -> CallContext:
        return CallContext(
            user=self._state.user,
            real_user=self._state.real_user,
            peer=self.peer,
            protocol=call.protocol,
            client_id=call.client_id,
            call_id=call.call_id,
            retry_count=call.retry,
            state_id=call.state_id,
            waited=waited,
        )

    def perform(self, call: Call, dispatcher: Dispatcher, waited: float) -> bool:
        """Perform and answer a call that has waited `waited` seconds for a handler; return whether it succeeded."""
        with self._lock:
            self._running += 1
        try:
            answer = dispatcher.perform(call, self._context(call, waited))
            self.answer(call, answer)
            return not isinstance(answer, tuple)
        finally:
            with self._lock:
                self._running -= 1

    def answer(self, call: Call, answer: Message | tuple[RemoteError, RpcErrorCode]) -> None:
        """Send the result of a call; a disconnected client is not an error."""
        data = self._encode(call, answer)
        with self._lock:
            paused = not self._may_read()
            self._calls -= 1
            self._queued_bytes -= len(call.body)
            self.since = time.monotonic()
            self._send(data)
            self._account()
            settle = paused or bool(self._unsent) or self._leaving or self._read_all
        if settle:
            self._server.loop.call(self.settle)

    def log_in(self, data: bytes) -> None:
        """Process login data in a handler."""
        try:
            self._take(data)
            self._count_login()
        finally:
            with self._lock:
                self._account()
                self._watch(len(data), completed=False)
            self.give_up_login()

    def give_up_login(self) -> None:
        """End the processing of login data: resume reading, or close."""
        with self._lock:
            self._logging_in = False
        self._server.loop.call(self.settle)

    @property
    def unsent(self) -> bool:
        """Whether a response is not completely sent."""
        return bool(self._unsent)

    # ---- for the loop's thread -----------------------------------------------------------------------------

    def end_when_idle(self) -> None:
        """Shut down sending once every running call is answered; refuse later calls.

        Reading continues until the client also closes, because closing with unread bytes would discard responses in
            transit.
        """
        self._leaving = True
        self.settle()

    def settle(self) -> None:
        """Update the connection after a response: wait for events, or close."""
        self._close_when_done()
        self._server.loop.update(self)

    def interest(self) -> int:
        with self._lock:
            reading = selectors.EVENT_READ if self._may_read() else 0
            return reading | (selectors.EVENT_WRITE if self._unsent else 0)

    def readable(self) -> None:
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            self._read_all = True
            self._close_when_done()
            return
        self._server.activity.moved(received=len(data))
        if self._server.security is not None and self._state.state is not ServerState.OPEN:
            self._logging_in = True
            self._server.enqueue(self, data)
            return
        calls = self._take(data)
        with self._lock:
            self._account()
            self._watch(len(data), completed=calls > 0)
        self._close_when_done()

    def writable(self) -> None:
        with self._lock:
            while self._unsent:
                sent = self.socket.send(self._unsent[0])
                self._unsent_bytes -= sent
                self._account()
                self._watch(sent, completed=False)
                if sent < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][sent:]
                    return
                self._unsent.popleft()
            self._watch(0, completed=True)
        self._close_when_done()

    def overdue(self, now: float) -> str:
        with self._lock:
            opening = self._state.state is not ServerState.OPEN
            if opening and now > self.since + self._limits.opening:
                return "no caller named"
            if self._owing_since is not None:
                owed = now - self._owing_since
                # the peer is not late while the loop pauses reading until waiting calls free memory
                waited_for = self._unsent or self._may_read() or not self._server.waiting
                if waited_for and self._server.pressed and owed > self._limits.stall * _PRESSED:
                    return "memory"
                return "too slow" if owed > self._limits.stall else ""
            # Hadoop's clients do not notice that a server closed an idle connection, and fail the next call. If several
            # JournalNodes do so at the same time, their NameNode stops. Hadoop's servers close idle connections only if
            # there are many.
            may_stay = opening or self._calls or not self._server.loop.crowded
            return "" if may_stay or now <= self.since + self._limits.idle else "idle"

    def priority(self) -> int:
        if self._state.state is not ServerState.OPEN:
            return UNPROVEN
        return BUSY if self._running else IDLE

    def ended(self) -> None:
        with self._lock:
            self._closed = self._sent_all = True
            self._unsent.clear()
            self._unsent_bytes = 0
            self._server.hold(-self._held)
            self._held = 0
            if self._protection:
                self._server.logins.opened(self._protection, -1)

    # ---- parts ---------------------------------------------------------------------------------------------

    def _may_read(self) -> bool:
        """Return whether to read; the caller holds the lock."""
        busy = self._calls >= _MAX_CALLS or self._queued_bytes >= _MAX_QUEUED or self._unsent_bytes >= _MAX_UNSENT
        return not (busy or self._logging_in or self._read_all or (self._held and self._server.full))

    def _take(self, data: bytes) -> int:
        """Queue the calls that `data` completes; return their number."""
        calls = 0
        for event in self._state.receive(data):
            if isinstance(event, Call):
                calls += 1
                with self._lock:
                    self._calls += 1
                    self._queued_bytes += len(event.body)
                self._server.enqueue(self, event)
                continue
            with self._lock:
                self._send(event.data, sealed=isinstance(event, HandshakeReply))
            if isinstance(event, ConnectionEnd):
                self._server.refusals.count("malformed")
                _LOG.warning("connection from %s is closed: %s", self.peer, event.reason)
                self._read_all = True
        return calls

    def _watch(self, moved: int, *, completed: bool) -> None:
        """Record progress of the peer, and whether the server now waits for the peer; the caller holds the lock."""
        if not (self._unsent or self._state.unfinished):
            self._owing_since = None
            return
        self._moved += moved
        if self._owing_since is None or completed or self._moved >= self._limits.least_bytes:
            self._owing_since = time.monotonic()
            self._moved = 0

    def _account(self) -> None:
        """Report this connection's memory use to the server; the caller holds the lock."""
        held = 0 if self._closed else self._state.unfinished + self._queued_bytes + self._unsent_bytes
        self._server.hold(held - self._held)
        self._held = held

    def _count_login(self) -> None:
        state, logins = self._state, self._server.logins
        if state.state is ServerState.OPEN:
            logins.count("rpc", ACCEPTED)
            with self._lock:
                if not self._closed:
                    self._protection = state.sasl.protection.name.lower()
                    logins.opened(self._protection)
        elif state.state is ServerState.CLOSED:
            logins.count("rpc", REFUSED if state.sasl.done else FAILED)

    def _send(self, data: bytes, *, sealed: bool = False) -> None:
        """Send what the socket accepts and keep the rest; the caller holds the lock.

        This method creates the token, because tokens are numbered in the order of sending.
        """
        if self._sent_all or not data:
            return
        try:
            data = data if sealed else self._state.seal(data)
        except KerberosError as fault:
            _LOG.warning("%s receives no more responses: %s", self.peer, fault)
            self._sent_all = self._read_all = True
            return
        self._server.activity.moved(sent=len(data))
        sent = 0
        if not self._unsent:
            try:
                sent = self.socket.send(data)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as fault:
                self._sent_all = True
                _LOG.debug("%s did not accept a response: %s", self.peer, fault)
                return
        if sent < len(data):
            self._unsent.append(memoryview(data)[sent:])
            self._unsent_bytes += len(data) - sent
            self._watch(0, completed=False)

    def _encode(self, call: Call, answer: Message | tuple[RemoteError, RpcErrorCode]) -> bytes:
        if isinstance(answer, tuple):
            return self._state.fail(call, *answer)
        try:
            return self._state.respond(call, answer)
        except EncodeError as fault:
            _LOG.error("the response of %s cannot be encoded: %s", call.method, fault)
            error = RemoteError(f"the response of {call.method} cannot be encoded")
            return self._state.fail(call, error, RpcErrorCode.SERIALIZING_RESPONSE)

    def _close_when_done(self) -> None:
        """Close once reading has ended, every call is answered, and all responses are sent."""
        with self._lock:
            if self._closed or self._calls or self._logging_in or self._unsent or not (self._read_all or self._leaving):
                return
            if not self._read_all:
                if not self._sent_all:
                    self._sent_all = True
                    _shut(self.socket)
                return
        self._server.loop.discard(self)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError as fault:
        _LOG.debug("a socket was already closed: %s", fault)
