"""Connections to bookies: one thread for all connections, requests from any thread, one outcome for each request.

A link to a bookie is connecting, open, or gone. Requests are queued even before the link is open.

    send      queues requests; the caller writes them immediately if the link is open and its queue is empty.
    response  is assigned to the oldest request with the same operation, ledger and entry.
    late      a request fails at its deadline, but stays in the list until its response arrives or the link is gone.
    gone      the connection was refused, broken or damaged, or all its requests are late. All requests of the link
              fail. The next request opens a new link.

A late response is never assigned to a later request, because the late request stays ahead of later requests in the
list. An outcome is reported exactly once, because the request then leaves the list or is marked as failed. The thread
checks all lists at short intervals. Callbacks run only on the thread, without a lock.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from journal.bookkeeper.calls import BookieOutcome
from journal.bookkeeper.errors import BookKeeperError, FrameError
from journal.bookkeeper.messages import AddRequest, AddResponse, BookieRequest, ReadRequest, ReadResponse
from journal.bookkeeper.protocol_v2 import FrameBuffer, decode_response, encode_request, framed
from journal.errors import JournalError

_LOG = logging.getLogger(__name__)

_RECEIVE = 1 << 18
_TICK = 0.1  # seconds between checks for late requests
_CLOSE_SECONDS = 5.0

OnOutcome = Callable[[BookieOutcome], None]
_Key = tuple[type, int, int]


@dataclass(slots=True)
class _WaitingRequest:
    """A request that has no response yet; `hear` is None once the request has failed at its deadline."""

    hear: OnOutcome | None
    deadline: float
    timeout: float


@dataclass(eq=False, slots=True)
class _Link:
    bookie: str
    socket: socket.socket
    connected: bool = False
    gone: bool = False
    out: bytearray = field(default_factory=bytearray)
    frames: FrameBuffer = field(default_factory=FrameBuffer)
    waiting: dict[_Key, deque[_WaitingRequest]] = field(default_factory=dict)


class BookieConnections:
    """Links to bookies, created on demand.

    Args:
        resolve: returns the host and port of a bookie; raises JournalError if the bookie has no address.
    """

    def __init__(self, resolve: Callable[[str], tuple[str, int]]) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        self._fresh: list[_Link] = []
        self._failed: list[tuple[OnOutcome, BookKeeperError]] = []
        self._thread: threading.Thread | None = None
        self._waker: socket.socket | None = None
        self._closed = False

    def send(self, bookie: str, requests: Sequence[tuple[BookieRequest, OnOutcome]], timeout: float) -> None:
        """Send requests; each `OnOutcome` is called once with the outcome, on the connections' thread.

        Raises:
            FrameError: a request is too large; none was sent.
        """
        frames = b"".join(framed(encode_request(request)) for request, _ in requests)
        deadline = time.monotonic() + timeout
        try:
            link = self._link(bookie)
        except BookKeeperError as fault:
            with self._lock:
                self._failed += [(hear, fault) for _, hear in requests]
                self._wake()
            return
        with self._lock:
            if link.gone:
                broken = BookKeeperError(f"the connection to {bookie} was lost")
                self._failed += [(hear, broken) for _, hear in requests]
                self._wake()
                return
            for request, hear in requests:
                link.waiting.setdefault(_key(request), deque()).append(_WaitingRequest(hear, deadline, timeout))
            idle = link.connected and not link.out
            link.out += frames
            if idle:
                self._write(link)
            if link.out:
                self._wake()

    def close(self) -> None:
        """Close all links; waiting requests fail. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
            self._wake()
        if thread is not None:
            thread.join(_CLOSE_SECONDS)

    # ---- any thread ----

    def _link(self, bookie: str) -> _Link:
        with self._lock:
            self._start()
            link = self._links.get(bookie)
            if self._closed:
                raise BookKeeperError("the journal is closed")
        if link is not None:
            return link
        made = self._connect(bookie)
        with self._lock:
            link = self._links.get(bookie)
            if link is not None:
                made.socket.close()
                return link
            self._links[bookie] = made
            self._fresh.append(made)
            self._wake()
            return made

    def _connect(self, bookie: str) -> _Link:
        try:
            host, port = self._resolve(bookie)
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            connection = socket.socket(family, kind, protocol)
        except JournalError as fault:
            raise BookKeeperError(f"{bookie} cannot be found: {fault.problem}") from fault
        except OSError as fault:
            raise BookKeeperError(f"{bookie} cannot be found: {fault.strerror or fault}") from fault
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        result = connection.connect_ex(address)
        if result not in (0, errno.EINPROGRESS):
            connection.close()
            raise BookKeeperError(f"{bookie} cannot be reached: {errno.errorcode.get(result, result)}")
        return _Link(bookie, connection)

    def _write(self, link: _Link) -> None:
        try:
            sent = link.socket.send(link.out)
        except (BlockingIOError, OSError):
            # The thread handles the error.
            return
        del link.out[:sent]

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            with ExitStack() as undone:
                wakeup, waker = map(undone.enter_context, socket.socketpair())
                wakeup.setblocking(False)
                waker.setblocking(False)
                selector = undone.enter_context(selectors.DefaultSelector())
                thread = threading.Thread(target=self._run, args=(selector, wakeup), name="bookies", daemon=True)
                # If the system has no more threads or descriptors now, the next request tries again.
                thread.start()
                undone.pop_all()
            self._thread, self._waker = thread, waker

    def _wake(self) -> None:
        if self._waker is not None:
            try:
                self._waker.send(b"\0")
            except OSError:
                return

    # ---- the thread ----

    def _run(self, selector: selectors.BaseSelector, wakeup: socket.socket) -> None:
        selector.register(wakeup, selectors.EVENT_READ)
        check_at = time.monotonic() + _TICK
        try:
            while not self._closed:
                for key, events in selector.select(_TICK):
                    if key.data is None:
                        wakeup.recv(4096)
                    else:
                        self._serve(selector, key.data, events)
                self._turn(selector)
                if time.monotonic() >= check_at:
                    check_at = time.monotonic() + _TICK
                    self._fail_late(selector, check_at - _TICK)
        finally:
            for link in list(self._links.values()):
                self._end(selector, link, BookKeeperError("the journal was closed"))
            self._turn(selector)
            selector.close()
            wakeup.close()

    def _turn(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            fresh, self._fresh = self._fresh, []
            failed, self._failed = self._failed, []
            for link in fresh:
                selector.register(link.socket, selectors.EVENT_WRITE, link)
            for link in self._links.values():
                if link.connected:
                    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.out else 0)
                    if selector.get_key(link.socket).events != wanted:
                        selector.modify(link.socket, wanted, link)
        for hear, fault in failed:
            hear(fault)

    def _serve(self, selector: selectors.BaseSelector, link: _Link, events: int) -> None:
        if link.gone:
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._writable(link)
            if events & selectors.EVENT_READ:
                data = link.socket.recv(_RECEIVE)
                if not data:
                    raise BookKeeperError(f"{link.bookie} closed the connection")
                for packet in link.frames.feed(data):
                    self._hear(link, packet)
        except BlockingIOError:
            return
        except OSError as fault:
            self._end(selector, link, BookKeeperError(f"{link.bookie} cannot be reached: {fault.strerror or fault}"))
        except FrameError as fault:
            self._end(selector, link, BookKeeperError(f"{link.bookie} sent an invalid response: {fault.problem}"))
        except BookKeeperError as fault:
            self._end(selector, link, fault)

    def _writable(self, link: _Link) -> None:
        if not link.connected:
            refused = link.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if refused:
                raise OSError(refused, errno.errorcode.get(refused, str(refused)))
        with self._lock:
            link.connected = True
            if link.out:
                self._write(link)

    def _hear(self, link: _Link, packet: bytes) -> None:
        response = decode_response(packet)
        if not isinstance(response, AddResponse | ReadResponse):
            raise FrameError(f"{response.code.name} to an unknown request")
        key = AddRequest if isinstance(response, AddResponse) else ReadRequest, response.ledger_id, response.entry_id
        with self._lock:
            waiting = link.waiting.get(key)
            if not waiting:
                raise FrameError(f"a response for entry {key[2]} of ledger {key[1]}, which was not requested")
            hear = waiting.popleft().hear
            if not waiting:
                del link.waiting[key]
        if hear is not None:
            hear(response)

    def _fail_late(self, selector: selectors.BaseSelector, now: float) -> None:
        """Fail requests that have passed their deadline; close a connection if all its waiting requests are late."""
        silent: list[tuple[_Link, BookKeeperError]] = []
        failed: list[tuple[OnOutcome, BookKeeperError]] = []
        with self._lock:
            for link in self._links.values():
                waiting = [each for many in link.waiting.values() for each in many]
                late = [each for each in waiting if each.deadline <= now]
                if not late:
                    continue
                fault = BookKeeperError(f"{link.bookie} did not answer within {late[0].timeout:g} s")
                if len(late) == len(waiting):
                    silent.append((link, fault))
                    continue
                # A later response is ignored.
                for each in late:
                    if each.hear is not None:
                        failed.append((each.hear, fault))
                        each.hear = None
        for link, fault in silent:
            self._end(selector, link, fault)
        for hear, fault in failed:
            hear(fault)

    def _end(self, selector: selectors.BaseSelector, link: _Link, fault: BookKeeperError) -> None:
        with self._lock:
            link.gone = True
            if self._links.get(link.bookie) is link:
                del self._links[link.bookie]
            waiting = [each for many in link.waiting.values() for each in many]
            link.waiting.clear()
            if link in self._fresh:
                self._fresh.remove(link)
        if link.socket in selector.get_map():
            selector.unregister(link.socket)
        link.socket.close()
        if waiting and not self._closed:
            _LOG.debug("%d requests failed: %s", len(waiting), fault)
        for each in waiting:
            if each.hear is not None:
                each.hear(fault)


def _key(request: BookieRequest) -> _Key:
    assert isinstance(request, AddRequest | ReadRequest)
    return type(request), request.ledger_id, request.entry_id
