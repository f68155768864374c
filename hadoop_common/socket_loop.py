"""A thread that watches the connections of one port, and never waits for any of them.

Peers are not trusted: whoever connects gets a place only within the limits, and loses it when it is late. Where the
places are taken, the one goes whose peer has most of them, first of those that never asked for anything, then of those
that idle; a peer with few connections is not hurt by one with many. Work is done by other threads.
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
# how long nobody is accepted when the system has no descriptor or memory left
_EXHAUSTED_SECONDS = 1.0
_AFTER_FAULT_SECONDS = 0.1
_AT_ONCE = struct.pack("ii", 1, 0)
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

BUSY, IDLE, UNPROVEN = range(3)
"""How much a connection deserves its place: one that a thread works on keeps it."""


class Channel:
    """One connection; its methods are called by the loop's thread unless they say otherwise.

    Attributes:
        peer: the address it comes from.
        since: when it last did something that counts, on the monotonic clock.
        polite: whether what was sent is to arrive even where the connection is ended for being late.
    """

    polite = False

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self.socket = connection
        self.peer = peer
        self.since = time.monotonic()

    def interest(self) -> int:
        """What to wait for: selectors.EVENT_READ and EVENT_WRITE, or 0."""
        raise NotImplementedError

    def readable(self) -> None:
        """Bytes, or the end, can be read without waiting."""
        raise NotImplementedError

    def writable(self) -> None:
        """Something can be sent without waiting."""
        raise NotImplementedError

    def overdue(self, now: float) -> str:
        """Why it has to go now, for the count of refusals; "" while it may stay."""
        raise NotImplementedError

    def standing(self) -> int:
        """BUSY, IDLE or UNPROVEN."""
        raise NotImplementedError

    def let_go(self) -> bool:
        """Whether it may be ended for another one: False where a thread has just begun to work on it."""
        return True

    def ended(self) -> None:
        """It was taken from the loop, and its socket is closed after this."""


class SocketLoop:
    """Serves one port with the channels that `make` returns for new connections.

    Args:
        name: of the thread.
        make: called by the loop's thread with a connection that does not block, and the peer's address.
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
        # The same by the peer's address, the oldest first.
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
        """Bind and listen; the address that it is. Connections are accepted once the loop is started.

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
        """Serve; RuntimeError where there can be no more threads."""
        self._thread.start()

    def call(self, task: Callable[[], None]) -> None:
        """Have the loop's thread do something soon; what comes after the end is not done."""
        self._tasks.append(task)
        assert self._waker is not None
        # A full pipe wakes it as well, and one that is closed needs no waking.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def read_soon(self, channel: Channel) -> None:
        """Have it read though its socket does not show that there is something."""
        self.call(lambda: self._serve(channel, selectors.EVENT_READ))

    def run(self, task: Callable[[], None]) -> None:
        """Have the loop's thread do something, and wait for it."""
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
        """Accept nobody any more; connections stay."""
        if self._thread.is_alive():
            self.run(self._close_listener)
        else:
            self._close_listener()

    def stop(self) -> None:
        """End all connections and the thread."""
        if self._thread.is_alive():
            self.call(self._end)
            self._thread.join()
        else:
            self._release()

    def channels(self) -> list[Channel]:
        """Those that are open."""
        return list(self._channels.copy())

    # ---- for the loop's own thread -------------------------------------------------------------------------

    def update(self, channel: Channel) -> None:
        """Wait for what `channel` is interested in now."""
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
        """Close a connection; with a `reason` it counts as refused."""
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
            _LOG.debug("a connection of %s is ended: %s", channel.peer, reason)
            if not channel.polite:
                # What it did not take is not kept for it by the system either.
                with contextlib.suppress(OSError):
                    channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        channel.ended()
        channel.socket.close()

    def make_room(self, peer: str | None = None) -> bool:
        """End the connection that deserves its place least, of `peer` or of all; False where all are busy."""
        peers = [self._peers[peer]] if peer is not None else sorted(self._peers.values(), key=len, reverse=True)
        for channels in peers:
            # The oldest of those that never asked for anything is mostly the first.
            worst = next((each for each in channels if each.standing() == UNPROVEN), None) or min(
                (each for each in channels if each.standing() == IDLE), key=lambda each: each.since, default=None
            )
            if worst is not None and worst.let_go():
                self.discard(worst, "made room")
                return True
        return False

    def _run(self) -> None:
        try:
            while self._running:
                try:
                    self._turn()
                except Exception:
                    # A port goes on, whatever one connection or task brought about.
                    _LOG.exception("%s met a fault of this server's own", self._thread.name)
                    time.sleep(_AFTER_FAULT_SECONDS)
        finally:
            self._release()

    def _turn(self) -> None:
        self._watch_listener()
        for key, events in self._selector.select(self._tick):
            if key.fileobj is self._wakeup:
                self._wakeup.recv(4096)
            elif key.fileobj is self._listener:
                self._accept()
            else:
                self._serve(key.data, events)
        for _ in range(len(self._tasks)):
            self._tasks.popleft()()
        now = time.monotonic()
        if now >= self._scan_at:
            self._scan_at = now + self._tick
            for channel in sorted(self._channels, key=lambda each: each.since):
                if reason := channel.overdue(now):
                    self.discard(channel, reason)

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
            _LOG.debug("the connection of %s broke: %s", channel.peer, fault)
            self.discard(channel)
        except Exception:
            _LOG.exception("the connection of %s is closed for a reason of this server's own", channel.peer)
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
                # It was gone before it was taken.
                continue
            self._take(connection, str(address[0]))

    def _exhausted(self, fault: OSError) -> None:
        self._refusals.count("no descriptors")
        if not self.make_room():
            _LOG.error("nobody can be accepted now: %s", fault)
            self._accepts_from = time.monotonic() + _EXHAUSTED_SECONDS

    def _take(self, connection: socket.socket, peer: str) -> None:
        if not self._has_room(peer):
            self._refusals.count("too many connections")
            _LOG.warning("a connection of %s is refused: there are too many", peer)
            connection.close()
            return
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            channel = self._make(connection, peer)
        except OSError as fault:
            _LOG.warning("the connection of %s cannot be served: %s", peer, fault)
            connection.close()
            return
        self._channels.add(channel)
        self._peers.setdefault(peer, {})[channel] = None
        self.update(channel)

    def _has_room(self, peer: str) -> bool:
        if len(self._peers.get(peer, ())) >= self._limits.peer_connections:
            return self.make_room(peer)
        return len(self._channels) < self._limits.connections or self.make_room()

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
