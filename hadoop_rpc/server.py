"""A threaded server of Hadoop RPC: one thread reads each connection, a pool performs the calls (ipc.Server)."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import struct
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from google.protobuf.message import EncodeError, Message

from hadoop_rpc.errors import RemoteError, RetriableError, RpcError
from hadoop_rpc.framing import MAX_FRAME
from hadoop_rpc.server_state import Call, Closing, ServerConnection
from hadoop_rpc.service import CallContext, Dispatcher, Service
from hadoop_rpc.wire import ErrorCode

__all__ = ["RpcServer"]

_LOG = logging.getLogger(__name__)

_QUEUE_PER_HANDLER = 100
_RECEIVE_BYTES = 1 << 16
_BACKLOG = 128
# how often a reader looks whether a full queue has room again
_FULL_QUEUE_SECONDS = 0.05
_REFUSAL = RetriableError("this server is stopping"), ErrorCode.APPLICATION


class RpcServer:
    """Serves `services`; a context manager that starts and stops.

    Calls of one connection may be performed side by side, and are answered as they end. When all handlers are busy
    and the queue (100 calls a handler) is full, connections are not read any more.

    Args:
        services: what is offered.
        host: address to listen on.
        port: 0 takes a free one, see `address`.
        handlers: threads that perform calls.
        send_timeout: seconds after which a client that takes no answers loses its connection.
        shutdown_timeout: seconds that running calls get when the server stops.
        max_frame: largest request in bytes (`ipc.maximum.data.length`).
    """

    def __init__(
        self,
        services: Iterable[Service],
        host: str,
        port: int,
        *,
        handlers: int = 10,
        send_timeout: float = 60.0,
        shutdown_timeout: float = 5.0,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self._requested = (host, port)
        self._dispatcher = Dispatcher(services)
        self._send_timeout = send_timeout
        self._shutdown_timeout = shutdown_timeout
        self._max_frame = max_frame
        self._calls: queue.Queue[tuple[_Connection, Call] | None] = queue.Queue(handlers * _QUEUE_PER_HANDLER)
        self._handlers = [
            threading.Thread(target=self._handle, name=f"rpc-handler-{number}", daemon=True)
            for number in range(handlers)
        ]
        self._listener: socket.socket | None = None
        self._acceptor = threading.Thread(target=self._accept, name="rpc-acceptor", daemon=True)
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._stopping = threading.Event()
        # held while a call is queued, so that none is once the server stops
        self._gate = threading.Lock()

    # ---- life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bind, listen and serve; connections are accepted when this returns.

        Raises:
            RpcError: the address cannot be bound.
        """
        host, port = self._requested
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as fault:
            raise RpcError(
                f"cannot listen on {host}:{port}: {fault}",
                hint="Free the port or configure another address for this RPC server.",
            ) from fault
        for handler in self._handlers:
            handler.start()
        self._acceptor.start()
        _LOG.info("RPC listens on %s:%d", *self.address)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on; what was asked for before it does."""
        if self._listener is None or self._stopping.is_set():
            return self._requested
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def stop(self) -> None:
        """Refuse all calls that have not begun, and close every connection as soon as none of its calls is running.

        Running calls may end for `shutdown_timeout`; then their connections are closed too. Idempotent.
        """
        if self._listener is None or self._stopping.is_set():
            return
        self._requested = self.address
        with self._gate:
            self._stopping.set()
        # Closing alone would not wake the thread that waits in accept().
        _shut(self._listener)
        self._acceptor.join()
        self._listener.close()
        refusing = threading.Thread(target=self._refuse, args=(self._waiting(),), name="rpc-refuser", daemon=True)
        refusing.start()
        for connection in self._open_connections():
            connection.end_when_idle()
        self._drain()
        for connection in self._open_connections():
            connection.close()
        refusing.join()

    def _waiting(self) -> list[tuple[_Connection, Call]]:
        """Take what waits for a handler out of the queue, and let handlers end."""
        waiting = []
        with contextlib.suppress(queue.Empty):
            while True:
                if (item := self._calls.get_nowait()) is not None:
                    waiting.append(item)
        for _ in self._handlers:
            self._calls.put(None)
        return waiting

    def _refuse(self, waiting: list[tuple[_Connection, Call]]) -> None:
        """Answer at once: nobody is to wait for the calls of others. A client may take its time to take an answer."""
        for connection, call in waiting:
            connection.answer(call, _REFUSAL)

    def _drain(self) -> None:
        deadline = time.monotonic() + self._shutdown_timeout
        for handler in self._handlers:
            handler.join(max(0.0, deadline - time.monotonic()))
        busy = sum(handler.is_alive() for handler in self._handlers)
        if busy:
            _LOG.warning("%d calls are still running and are given up", busy)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- threads -------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._stopping.is_set():
            try:
                peer, address = self._listener.accept()
            except OSError as fault:
                if not self._stopping.is_set():
                    _LOG.error("no connection can be accepted now: %s", fault)
                    self._stopping.wait(1.0)
                continue
            try:
                self._serve(peer, str(address[0]))
            except (OSError, RuntimeError) as fault:
                # The client was gone already, or there are too many threads: neither is to end this one.
                _LOG.error("the connection of %s cannot be served: %s", address[0], fault)
                peer.close()

    def _serve(self, peer: socket.socket, address: str) -> None:
        connection = _Connection(self, peer, address, self._send_timeout, self._max_frame)
        with self._lock:
            self._connections.add(connection)
        try:
            connection.reader.start()
        except RuntimeError:
            self.forget(connection)
            raise

    def _open_connections(self) -> list[_Connection]:
        with self._lock:
            return list(self._connections)

    def forget(self, connection: _Connection) -> None:
        """A connection has ended."""
        with self._lock:
            self._connections.discard(connection)

    def enqueue(self, connection: _Connection, call: Call) -> bool:
        """Wait for a free place in the queue; False when the server stops first."""
        while True:
            with self._gate:
                if self._stopping.is_set():
                    return False
                with contextlib.suppress(queue.Full):
                    self._calls.put_nowait((connection, call))
                    return True
            self._stopping.wait(_FULL_QUEUE_SECONDS)

    def _handle(self) -> None:
        while (item := self._calls.get()) is not None:
            connection, call = item
            if self._stopping.is_set():
                # What the calls work on may be closed soon: none must begin.
                connection.answer(call, _REFUSAL)
                continue
            answer = self._dispatcher.perform(call, connection.context(call))
            connection.answer(call, answer)


class _Connection:
    """The socket of one client, its state and the thread that reads it."""

    def __init__(
        self, server: RpcServer, peer: socket.socket, address: str, send_timeout: float, max_frame: int
    ) -> None:
        self._server = server
        self._socket = peer
        self._peer = address
        self._state = ServerConnection(max_frame=max_frame)
        self._lock = threading.Lock()
        self._pending = 0
        self._leaving = False
        self._ended = False
        self._failed = False
        self.reader = threading.Thread(target=self._read, name=f"rpc-{address}", daemon=True)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # A timeout of the socket object would hold for reads too.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", *_timeval(send_timeout)))

    def context(self, call: Call) -> CallContext:
        return CallContext(
            user=self._state.user,
            real_user=self._state.real_user,
            peer=self._peer,
            protocol=call.protocol,
            client_id=call.client_id,
            call_id=call.call_id,
            retry_count=call.retry,
        )

    def answer(self, call: Call, answer: Message | tuple[RemoteError, ErrorCode]) -> None:
        """Send what became of a call; a client that has gone away is no fault."""
        self._send(self._encode(call, answer))
        with self._lock:
            self._pending = max(0, self._pending - 1)
            self._close_when_done()

    def _encode(self, call: Call, answer: Message | tuple[RemoteError, ErrorCode]) -> bytes:
        if isinstance(answer, tuple):
            return self._state.fail(call, *answer)
        try:
            return self._state.respond(call, answer)
        except EncodeError as fault:
            _LOG.error("the answer of %s cannot be encoded: %s", call.method, fault)
            error = RemoteError(f"the answer of {call.method} cannot be encoded")
            return self._state.fail(call, error, ErrorCode.SERIALIZING_RESPONSE)

    def end_when_idle(self) -> None:
        """Tell the client that nothing more comes, once every call that runs has its answer; later ones are refused.

        Reading goes on until the client has closed too: closing over unread bytes would take answers back.
        """
        self._leaving = True
        # Who holds the lock, perhaps while its client takes its time, closes it afterwards.
        if self._lock.acquire(blocking=False):
            try:
                self._close_when_done()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the connection, whatever calls of it are still running."""
        _shut(self._socket)
        self.reader.join()
        with self._lock:
            self._pending = 0
            self._close_when_done()

    def _read(self) -> None:
        try:
            while data := self._socket.recv(_RECEIVE_BYTES):
                for event in self._state.receive(data):
                    if isinstance(event, Call):
                        self._take(event)
                        continue
                    self._send(event.data)
                    if isinstance(event, Closing):
                        _LOG.warning("connection of %s is closed: %s", self._peer, event.reason)
                        return
        except OSError as fault:
            _LOG.debug("connection of %s broke: %s", self._peer, fault)
        finally:
            with self._lock:
                self._ended = True
                self._close_when_done()

    def _take(self, call: Call) -> None:
        with self._lock:
            self._pending += 1
        if not self._server.enqueue(self, call):
            self.answer(call, _REFUSAL)

    def _close_when_done(self) -> None:
        """With the lock held: close once nothing is read any more and every call has its answer."""
        if self._pending or not (self._ended or self._leaving):
            return
        self._failed = True
        if not self._ended:
            _shut(self._socket, socket.SHUT_WR)
            return
        _shut(self._socket)
        self._socket.close()
        self._server.forget(self)

    def _send(self, data: bytes) -> None:
        with self._lock:
            if self._failed or not data:
                return
            try:
                self._socket.sendall(data)
            except OSError as fault:
                # A frame may be out in part, so nothing more may follow on this connection.
                self._failed = True
                _shut(self._socket)
                _LOG.info("%s did not take an answer: %s", self._peer, fault)


def _timeval(seconds: float) -> tuple[int, int]:
    return int(seconds), int(seconds % 1 * 1_000_000)


def _shut(peer: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """Wake whoever waits on a socket; one that is not connected any more needs no waking."""
    try:
        peer.shutdown(how)
    except OSError as fault:
        _LOG.debug("a socket was closed already: %s", fault)
