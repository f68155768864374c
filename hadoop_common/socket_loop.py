"""A thread that serves all connections of one port without blocking on a single connection.

The loop does not trust peers: it accepts a new connection only within the limits, and closes a connection that misses a
deadline. At the limit on connections, the loop closes a connection of the peer with the most connections: first a
connection that never made a request, then an idle connection. A peer with many connections cannot displace a peer with
few connections. Other threads process the requests.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable

from hadoop_common.port_limits import PortLimits, Refusals

_LOG = logging.getLogger(__name__)

_BACKLOG = 512
_ACCEPTS_AT_ONCE = 32
_TICK = 1.0
# pause before the loop accepts connections again after the system ran out of descriptors or memory
_EXHAUSTED_SECONDS = 1.0
_AFTER_FAULT_SECONDS = 0.1
_AT_ONCE = struct.pack("ii", 1, 0)
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

# error numbers that `create_server` raises for a host name that cannot be resolved
_RESOLVER_ERRORS = range(-200, 0)

BUSY, IDLE, UNPROVEN = range(3)
"""Priority of a connection when the number of connections has reached its limit. The loop never closes a BUSY
connection, because a thread serves it.
"""


def listen_hint(fault: OSError, server: str) -> str:
    """Return the next step after `SocketLoop.listen` failed; `server` is "HTTP server" or "RPC server"."""
    if fault.errno == errno.EADDRNOTAVAIL or fault.errno in _RESOLVER_ERRORS:
        return (
            f"Configure an address or name of this host, or 0.0.0.0, for this {server}; run the command on that host."
        )
    return f"Free the port or configure another address for this {server}."


class Channel:
    """One connection. The loop's thread calls its methods unless stated otherwise.

    Attributes:
        peer: the remote address.
        since: time of the last relevant activity, on the monotonic clock.
        polite: whether sent data should still arrive after a missed deadline closes the connection.
    """

    polite = False

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self.socket = connection
        self.peer = peer
        self.since = time.monotonic()

    def interest(self) -> int:
        """Return the events to wait for: selectors.EVENT_READ and EVENT_WRITE, or 0."""
        raise NotImplementedError

    def readable(self) -> None:
        """Handle bytes, or the end of the stream, that can be read without blocking."""
        raise NotImplementedError

    def writable(self) -> None:
        """Write to a socket that can accept data without blocking."""
        raise NotImplementedError

    def overdue(self, now: float) -> str:
        """Return the reason why the connection must be closed now, for the count of refusals; "" if it may stay."""
        raise NotImplementedError

    def priority(self) -> int:
        """Return BUSY, IDLE or UNPROVEN."""
        raise NotImplementedError

    def may_evict(self) -> bool:
        """Return whether another connection may replace this connection; False if a thread has just begun to work on
        it.
        """
        return True

    def ended(self) -> None:
        """Clean up after removal from the loop, before the socket is closed."""


class SocketLoop:
    """The event loop of one port, with the channels that `make` returns for new connections.

    Args:
        name: name of the thread.
        make: called by the loop's thread with a non-blocking connection and the peer's address.
    """

    def __init__(
        self, name: str, limits: PortLimits, refusals: Refusals, make: Callable[[socket.socket, str], Channel]
    ) -> None:
        self._limits = limits
        self._refusals = refusals
        self._make = make
        self._selector: selectors.BaseSelector
        self._wakeup: socket.socket
        self._waker: socket.socket | None = None
        self._tasks: deque[Callable[[], None]] = deque()
        self._channels: set[Channel] = set()
        # the channels by peer address, the oldest first
        self._peers: dict[str, dict[Channel, None]] = {}
        self._listener: socket.socket | None = None
        self._accepts_from = 0.0
        self._accepting = False
        self._scan_at = 0.0
        self._tick = min(_TICK, limits.opening / 4, limits.idle / 4, limits.stall / 4)
        self._running = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # ---- for any thread ------------------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Bind and listen; return the actual address.

        The loop accepts connections once it has started.

        Raises:
            OSError: the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._waker = socket.socketpair()
        self._wakeup.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        bound, number = self._listener.getsockname()[:2]
        return str(bound), int(number)

    def start(self) -> None:
        """Start the thread; raise RuntimeError if the system allows no more threads."""
        self._thread.start()

    def call(self, task: Callable[[], None]) -> None:
        """Run `task` soon in the loop's thread; drop tasks after the loop has ended."""
        self._tasks.append(task)
        assert self._waker is not None
        # a full pipe also wakes the loop, and a closed pipe means that the loop has ended
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def read_soon(self, channel: Channel) -> None:
        """Read from a channel although its socket does not signal data."""
        self.call(lambda: self._serve(channel, selectors.EVENT_READ))

    def run(self, task: Callable[[], None]) -> None:
        """Run `task` in the loop's thread and wait for it."""
        done = threading.Event()

        def do() -> None:
            try:
                task()
            finally:
                done.set()

        self.call(do)
        while self._thread.is_alive() and not done.wait(_TICK):
            pass

    def stop_listening(self) -> None:
        """Stop accepting connections; existing connections stay open."""
        if self._thread.is_alive():
            self.run(self._close_listener)
        else:
            self._close_listener()

    def stop(self) -> None:
        """Close all connections and end the thread."""
        if self._thread.is_alive():
            self.call(self._end)
            self._thread.join()
        else:
            self._release()

    @property
    def crowded(self) -> bool:
        """Whether more than half of the permitted connections are open."""
        return len(self._channels) > self._limits.connections // 2

    def channels(self) -> list[Channel]:
        return list(self._channels.copy())

    # ---- for the loop's own thread -------------------------------------------------------------------------

    def update(self, channel: Channel) -> None:
        """Update the events that the loop waits for on `channel`."""
        if channel not in self._channels:
            return
        wanted = channel.interest()
        known = self._selector.get_map().get(channel.socket)
        if known is None:
            if wanted:
                self._selector.register(channel.socket, wanted, channel)
        elif not wanted:
            self._selector.unregister(channel.socket)
        elif known.events != wanted:
            self._selector.modify(channel.socket, wanted, channel)

    def discard(self, channel: Channel, reason: str = "") -> None:
        """Close a connection; with a `reason`, count it as refused."""
        if channel not in self._channels:
            return
        self._channels.remove(channel)
        of_peer = self._peers[channel.peer]
        del of_peer[channel]
        if not of_peer:
            del self._peers[channel.peer]
        if channel.socket in self._selector.get_map():
            self._selector.unregister(channel.socket)
        if reason:
            self._refusals.count(reason)
            _LOG.debug("the connection from %s is closed: %s", channel.peer, reason)
            if not channel.polite:
                # the system must not store unsent data
                with contextlib.suppress(OSError):
                    channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        channel.ended()
        channel.socket.close()

    def evict(self, peer: str | None = None) -> bool:
        """Close the connection with the lowest priority, of `peer` or of all peers; return False if all are busy."""
        peers = [self._peers[peer]] if peer is not None else sorted(self._peers.values(), key=len, reverse=True)
        for channels in peers:
            # usually, this is the oldest connection that never made a request
            worst = next((each for each in channels if each.priority() == UNPROVEN), None) or min(
                (each for each in channels if each.priority() == IDLE), key=lambda each: each.since, default=None
            )
            if worst is not None and worst.may_evict():
                self.discard(worst, "made room")
                return True
        return False

    def _run(self) -> None:
        try:
            while self._running:
                try:
                    self._turn()
                except Exception:
                    # the port keeps serving after any fault of a connection
                    _LOG.exception("%s failed because of a bug", self._thread.name)
                    time.sleep(_AFTER_FAULT_SECONDS)
        finally:
            self._release()

    def _turn(self) -> None:
        self._watch_listener()
        # without connections, the loop has no deadline, so that an idle server uses no CPU time
        timeout = self._tick if self._channels or not self._accepting else None
        # a fault after the wake-up byte was read leaves tasks in the queue
        for key, events in self._selector.select(0 if self._tasks else timeout):
            if key.fileobj is self._wakeup:
                self._wakeup.recv(4096)
            elif key.fileobj is self._listener:
                self._accept()
            else:
                self._serve(key.data, events)
        for _ in range(len(self._tasks)):
            self._perform(self._tasks.popleft())
        now = time.monotonic()
        if now >= self._scan_at:
            self._scan_at = now + self._tick
            for channel in sorted(self._channels, key=lambda each: each.since):
                if reason := channel.overdue(now):
                    self.discard(channel, reason)

    def _perform(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:
            _LOG.exception("a task of %s failed because of a bug", self._thread.name)

    def _serve(self, channel: Channel, events: int) -> None:
        if channel not in self._channels:
            return
        try:
            if events & selectors.EVENT_WRITE:
                channel.writable()
            if events & selectors.EVENT_READ and channel in self._channels:
                channel.readable()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as fault:
            _LOG.debug("the connection from %s was lost: %s", channel.peer, fault)
            self.discard(channel)
        except Exception:
            _LOG.exception("the connection from %s is closed because of a bug", channel.peer)
            self.discard(channel)
        self.update(channel)

    def _watch_listener(self) -> None:
        wanted = self._listener is not None and time.monotonic() >= self._accepts_from
        if wanted != self._accepting and self._listener is not None:
            self._accepting = wanted
            if wanted:
                self._selector.register(self._listener, selectors.EVENT_READ)
            else:
                self._selector.unregister(self._listener)

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as fault:
                if fault.errno in _EXHAUSTED:
                    self._exhausted(fault)
                    return
                # the peer closed the connection before it was accepted
                continue
            self._take(connection, str(address[0]))

    def _exhausted(self, fault: OSError) -> None:
        self._refusals.count("no descriptors")
        if not self.evict():
            _LOG.error("no connection can be accepted now: %s", fault)
            self._accepts_from = time.monotonic() + _EXHAUSTED_SECONDS

    def _take(self, connection: socket.socket, peer: str) -> None:
        if not self._has_room(peer):
            self._refusals.count("too many connections")
            _LOG.warning("a connection from %s is refused: too many connections are open", peer)
            connection.close()
            return
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            channel = self._make(connection, peer)
        except OSError as fault:
            _LOG.warning("the connection from %s cannot be served: %s", peer, fault)
            connection.close()
            return
        self._channels.add(channel)
        self._peers.setdefault(peer, {})[channel] = None
        self.update(channel)

    def _has_room(self, peer: str) -> bool:
        if len(self._peers.get(peer, ())) >= self._limits.peer_connections:
            return self.evict(peer)
        return len(self._channels) < self._limits.connections or self.evict()

    def _close_listener(self) -> None:
        if self._listener is None:
            return
        if self._accepting:
            self._selector.unregister(self._listener)
        self._listener.close()
        self._listener = None

    def _end(self) -> None:
        self._running = False

    def _release(self) -> None:
        self._close_listener()
        for channel in list(self._channels):
            self.discard(channel)
        if self._waker is not None and self._waker.fileno() >= 0:
            self._selector.close()
            self._wakeup.close()
            self._waker.close()
