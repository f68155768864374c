"""A Hadoop RPC server: one thread watches all connections, and a thread pool performs the calls (ipc.Server)."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from hadoop_common.addresses import host_port
from hadoop_common.fair_queue import FairQueue
from hadoop_common.file_faults import MORE_THREADS, error_text
from hadoop_common.lifetimes import Startable
from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.process_memory import return_large_blocks
from hadoop_common.socket_loop import SocketLoop, listen_hint
from hadoop_rpc.errors import RetriableError, RpcError
from hadoop_rpc.security import KnownTokens, RpcServerSecurity
from hadoop_rpc.server_connection import RpcChannel
from hadoop_rpc.server_counts import LOGINS, LoginCounts, RpcActivity
from hadoop_rpc.server_state import Call
from hadoop_rpc.service import Dispatcher, Service
from hadoop_rpc.wire import RpcErrorCode

_LOG = logging.getLogger(__name__)

_FLUSH_SECONDS = 0.01
_FRAME_OVERHEAD = 1 << 20
# seconds that each thread of a call may wait for the interpreter lock if peers are busy
_SWITCH_SECONDS = 0.0005
_REFUSAL = RetriableError("this server is stopping"), RpcErrorCode.APPLICATION
_Queue = FairQueue[tuple[RpcChannel, Call | bytes, float]]


class RpcServer(Startable):
    """A server of `services`; a context manager that starts and stops it.

    Calls of one connection may run concurrently; the server answers each call when it ends. Peers take turns, and a
    single peer cannot use all handlers. The server does not read from a connection with many calls in progress or many
    unread responses.

    Args:
        services: offered services.
        host: address to listen on.
        port: 0 chooses a free port; see `address`.
        handlers: number of threads that perform calls; the same number of additional threads perform calls that may
            wait (`Method.may_wait`).
        limits: resource limits of peers.
        refusals: counts refused requests.
        shutdown_timeout: seconds for running calls when the server stops.
        max_frame: maximum request size in bytes; None uses the size in `limits`.
        security: accepts only Kerberos logins, which the handlers process.
        logins: counts logins; None uses the counts of the process.
        tokens, state_id, as_standby: see `ServerConnection`.

    Attributes:
        activity: statistics of the server.
    """

    def __init__(
        self,
        services: Iterable[Service],
        host: str,
        port: int,
        *,
        handlers: int = 10,
        limits: PortLimits | None = None,
        refusals: Refusals | None = None,
        shutdown_timeout: float = 5.0,
        max_frame: int | None = None,
        security: RpcServerSecurity | None = None,
        tokens: KnownTokens | None = None,
        logins: LoginCounts | None = None,
        state_id: Callable[[], int | None] | None = None,
        as_standby: bool = False,
    ) -> None:
        self._requested = (host, port)
        self.security = security
        self.tokens = tokens
        self.logins = logins or LOGINS
        self.activity = RpcActivity()
        self.state_id = state_id
        self.as_standby = as_standby
        self._dispatcher = Dispatcher(services)
        self.limits = limits or PortLimits()
        self.refusals = refusals or Refusals()
        self.max_frame = self.limits.max_request if max_frame is None else max_frame
        self._shutdown_timeout = shutdown_timeout
        # a frame of the maximum size must fit
        self._memory = max(self.limits.memory, self.max_frame + _FRAME_OVERHEAD)
        # login data waits for a handler, as calls do
        self._calls = _Queue(max(1, handlers - 1))
        self._waiting_calls = _Queue(max(1, handlers - 1))
        queues = {"rpc-handler": self._calls}
        self._separates = self._dispatcher.has_waiting_methods
        if self._separates:
            queues["rpc-waiting-handler"] = self._waiting_calls
        self._handlers = [
            threading.Thread(target=self._handle, args=(queue,), name=f"{name}-{number}", daemon=True)
            for name, queue in queues.items()
            for number in range(handlers)
        ]
        self.loop = SocketLoop("rpc-loop", self.limits, self.refusals, self._connected)
        self._address: tuple[str, int] | None = None
        self._stopping = threading.Event()
        self._held_lock = threading.Lock()
        self._held = 0

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bind, listen and serve; the server accepts connections when this method returns.

        Raises:
            RpcError: the address cannot be bound, or the system allows no more threads.
        """
        return_large_blocks()
        sys.setswitchinterval(_SWITCH_SECONDS)
        host, port = self._requested
        try:
            self._address = self.loop.listen(host, port)
        except OSError as fault:
            self.loop.stop()
            raise RpcError(
                f"cannot listen on {host_port(host, port)}: {fault}", hint=listen_hint(fault, "RPC server")
            ) from fault
        try:
            for handler in self._handlers:
                handler.start()
            self.loop.start()
        except RuntimeError as fault:
            self.stop()
            raise RpcError(
                f"the RPC server of {host_port(host, port)} cannot start: {fault}", hint=MORE_THREADS
            ) from fault
        _LOG.info("RPC listens on %s", host_port(*self.address))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which the server listens, or the requested address before it listens."""
        return self._address or self._requested

    def stop(self) -> None:
        """Refuse all calls that have not begun, and close every connection once none of its calls is running.

        Running calls have `shutdown_timeout` seconds to end; afterwards, also close their connections. Idempotent.
        """
        if self._address is None or self._stopping.is_set():
            return
        self._stopping.set()
        self.loop.stop_listening()
        for channel, work, _ in self._calls.close() + self._waiting_calls.close():
            self._refuse(channel, work)
        self.loop.call(self._end_idle)
        self._drain()
        self.loop.stop()

    def _connected(self, connection: socket.socket, peer: str) -> RpcChannel:
        return RpcChannel(self, connection, peer)

    def _end_idle(self) -> None:
        for channel in self._channels():
            channel.end_when_idle()

    def _drain(self) -> None:
        deadline = time.monotonic() + self._shutdown_timeout
        started = [handler for handler in self._handlers if handler.ident is not None]
        for handler in started:
            handler.join(max(0.0, deadline - time.monotonic()))
        busy = sum(handler.is_alive() for handler in started)
        if busy:
            _LOG.warning("%d calls are still running and are abandoned", busy)
        while any(channel.unsent for channel in self._channels()) and time.monotonic() < deadline:
            time.sleep(_FLUSH_SECONDS)

    # ---- for connections -----------------------------------------------------------------------------------

    def enqueue(self, channel: RpcChannel, work: Call | bytes) -> None:
        """Queue a call or login data for a handler; a stopping server refuses it."""
        may_wait = self._separates and isinstance(work, Call) and self._dispatcher.may_wait(work)
        queue = self._waiting_calls if may_wait else self._calls
        if not queue.put(channel.peer, channel, (channel, work, time.monotonic())):
            self._refuse(channel, work)

    def _refuse(self, channel: RpcChannel, work: Call | bytes) -> None:
        if isinstance(work, Call):
            channel.answer(work, _REFUSAL)
        else:
            channel.give_up_login()

    def hold(self, more: int) -> None:
        """Add `more` bytes to the memory used by requests and responses in transit; thread-safe."""
        with self._held_lock:
            was_full = self.full
            self._held += more
            resumed = was_full and not self.full
        if resumed:
            self.loop.call(self._read_on)

    @property
    def queue_length(self) -> int:
        """Number of calls that wait for a handler."""
        return len(self._calls) + len(self._waiting_calls)

    @property
    def open_connections(self) -> int:
        return len(self._channels())

    @property
    def waiting(self) -> bool:
        """Whether calls wait for a handler; performing them frees memory."""
        return self.queue_length > 0

    @property
    def pressed(self) -> bool:
        """Whether memory use shortens the time limits of slow peers."""
        return self._held >= self._memory // 2

    @property
    def full(self) -> bool:
        """Whether memory use pauses reading from connections with data in transit."""
        return self._held >= self._memory

    def _read_on(self) -> None:
        for channel in self._channels():
            self.loop.update(channel)

    def _channels(self) -> list[RpcChannel]:
        return [each for each in self.loop.channels() if isinstance(each, RpcChannel)]

    # ---- handlers ------------------------------------------------------------------------------------------

    def _handle(self, queue: _Queue) -> None:
        while (found := queue.get()) is not None:
            peer, (channel, work, queued_at) = found
            began = time.monotonic()
            try:
                if isinstance(work, Call):
                    success = channel.perform(work, self._dispatcher, began - queued_at)
                    self.activity.performed(began - queued_at, time.monotonic() - began, success=success)
                else:
                    channel.log_in(work)
            except Exception as fault:
                # without its handlers, the server would accept calls and never answer them
                _LOG.error("the connection from %s is closed: %s", peer, error_text(fault), exc_info=fault)
                self.loop.call(partial(self.loop.discard, channel))
            finally:
                queue.done(peer)
