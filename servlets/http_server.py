"""The HTTP server of a daemon: h11 and threads, with streamed bodies, deadlines and clean shutdown.

Maintained WSGI servers lack the required features. cheroot assigns a thread to each connection before the headers
arrive, and has a single timeout for all waits. waitress buffers whole bodies. h11 only parses and formats messages; its
caller manages sockets and threads.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterable
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import h11

from hadoop_common.addresses import host_port
from hadoop_common.fair_queue import FairQueue
from hadoop_common.file_faults import MORE_THREADS
from hadoop_common.lifetimes import Startable
from hadoop_common.paced_socket import PacedSocket
from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.socket_loop import SocketLoop, listen_hint
from hadoop_common.tls.reloading import ServerTls, set_in_use
from hadoop_common.tls.sockets import TlsSocket
from servlets.errors import HttpServerError
from servlets.file_body import FileBody
from servlets.http_connection import DEFAULT_HEADER_BYTES, HttpChannel, Port, WorkResult
from servlets.http_request import WAITED, BufferedConnection, ChunkedBody, SizedBody, body_length, environment

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_LOG = logging.getLogger(__name__)

DEFAULT_THREADS = 32
DEFAULT_LINGER = 10.0
# Status requests, pages, reads of a namespace and TLS handshakes have separate threads, so that none of them waits for
# transfers or for another kind of request. A single address cannot use all threads of a kind.
READ_THREADS = 16
_PROMPT_THREADS = 2
_PAGE_THREADS = 2
_GREETING_THREADS = 2
_PROMPT_PATHS = (b"/status", b"/metrics", b"/jmx", b"/health/ready")
# the only path that needs no disk; a separate thread serves this path, so it responds even while disks hang
_LIVE_PATH = b"/health/live"
_PAGE_PATHS = (b"/", b"/history")
_PAGE_FOLDERS = (b"/console/", b"/docs/")
_READ_PREFIX = b"/webhdfs/"
# the loop sends responses up to this size, so that threads do not wait for the peer
_MAX_LEFT = 1 << 20
_FLUSH_SECONDS = 0.01

_CONTINUE = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")

_Work = tuple[HttpChannel, h11.Connection, h11.Request, float]


class HttpServer(Startable):
    """A server of a WSGI application with threads in this process; a context manager.

    Bodies are streamed in both directions without a size limit. If `port` is 0, the server uses a free port; see
    `address`. `limits` bound the resources of peers, and `refusals` counts refused requests. `shutdown_timeout` bounds
    running requests after `stop()`.

    If a client still sends after the response, the server reads until the client pauses for `linger` seconds, but for
    at most an hour. Otherwise the client would not receive the response. Hadoop's NameNodes read the response only
    after they have sent their whole image, and repeat the checkpoint immediately if the connection breaks earlier.

    With `tls`, the server serves only HTTPS, and reloads changed TLS files while it runs. `header_bytes` is the maximum
    size of request headers. All times are in seconds.
    """

    def __init__(
        self,
        application: WSGIApplication,
        host: str,
        port: int,
        *,
        threads: int = DEFAULT_THREADS,
        limits: PortLimits | None = None,
        refusals: Refusals | None = None,
        shutdown_timeout: float = 5.0,
        linger: float = DEFAULT_LINGER,
        tls: ServerTls | None = None,
        header_bytes: int = DEFAULT_HEADER_BYTES,
    ) -> None:
        self._requested = (host, port)
        self._application = application
        self._limits = limits or PortLimits()
        self.refusals = refusals or Refusals()
        self._shutdown_timeout = shutdown_timeout
        self._loop = SocketLoop("http-loop", self._limits, self.refusals, self._connected)
        self._port = Port(self._limits, self._loop, self.refusals.count, self._work, self._greet, linger, header_bytes)
        self._live: FairQueue[_Work] = FairQueue(1)
        self._prompt: FairQueue[_Work] = FairQueue(_PROMPT_THREADS - 1)
        self._pages: FairQueue[_Work] = FairQueue(_PAGE_THREADS - 1)
        self._reads: FairQueue[_Work] = FairQueue(min(self._limits.peer_transfers, READ_THREADS - 1))
        self._others: FairQueue[_Work] = FairQueue(self._limits.peer_transfers)
        queues = [self._live] + [self._prompt] * _PROMPT_THREADS + [self._pages] * _PAGE_THREADS
        queues += [self._reads] * READ_THREADS + [self._others] * threads
        self._threads = [
            threading.Thread(target=self._serve, args=(queue,), name=f"http-{number}", daemon=True)
            for number, queue in enumerate(queues)
        ]
        self._greetings: FairQueue[HttpChannel] = FairQueue(_GREETING_THREADS - 1)
        self._address: tuple[str, int] | None = None
        self._stopped = False
        self._tls = tls
        self._ends = threading.Event()
        if tls is not None:
            self._threads += [
                threading.Thread(target=self._shake_hands, name=f"tls-{number}", daemon=True)
                for number in range(_GREETING_THREADS)
            ]
            self._threads.append(threading.Thread(target=self._follow, args=(tls,), name="tls-files", daemon=True))

    def start(self) -> None:
        """Bind, listen, and start the threads; the server accepts connections when this method returns.

        Raises:
            HttpServerError: the address cannot be bound, no more threads are allowed, or the server was started before.
        """
        if self._address is not None:
            raise HttpServerError("this HTTP server was started before", hint="Create a new HttpServer to serve again.")
        host, port = self._requested
        try:
            self._address = self._loop.listen(host, port)
        except OSError as fault:
            raise HttpServerError(
                f"cannot listen on {host_port(host, port)}: {fault}", hint=listen_hint(fault, "HTTP server")
            ) from fault
        try:
            for thread in self._threads:
                thread.start()
            self._loop.start()
        except RuntimeError as fault:
            self.stop()
            raise HttpServerError(
                f"the HTTP server of {host_port(host, port)} cannot start: {fault}", hint=MORE_THREADS
            ) from fault
        _LOG.info("listening on %s", host_port(*self.address))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which the server listens.

        Raises:
            HttpServerError: the server has not been started yet.
        """
        if self._address is None:
            raise HttpServerError("this HTTP server is not listening yet", hint="Call start() first.")
        return self._address

    @property
    def url(self) -> str:
        """`http://host:port`, or https, with brackets around an IPv6 address."""
        return f"{'http' if self._tls is None else 'https'}://{host_port(*self.address)}"

    def stop(self) -> None:
        """Stop accepting connections, wait `shutdown_timeout` for running requests, then abort them; idempotent."""
        if self._address is None or self._stopped:
            return
        self._stopped = True
        self._ends.set()
        self._loop.stop_listening()
        self._live.close()
        self._prompt.close()
        self._pages.close()
        self._reads.close()
        self._others.close()
        self._greetings.close()
        if not self._join():
            for channel in self._channels():
                channel.cut()
            if not self._join():
                _LOG.warning("requests that are still running are abandoned")
        # after this, the loop has received all responses of the threads
        self._loop.run(lambda: None)
        deadline = time.monotonic() + self._shutdown_timeout
        while any(channel.sending for channel in self._channels()) and time.monotonic() < deadline:
            time.sleep(_FLUSH_SECONDS)
        self._loop.stop()

    def _join(self) -> bool:
        deadline = time.monotonic() + self._shutdown_timeout
        started = [thread for thread in self._threads if thread.ident is not None]
        for thread in started:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in started)

    # ---- the loop's thread ---------------------------------------------------------------------------------

    def _connected(self, connection: socket.socket, peer: str) -> HttpChannel:
        if self._tls is not None:
            connection = self._tls.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return HttpChannel(self._port, connection, peer)

    def _work(self, channel: HttpChannel, http: h11.Connection, request: h11.Request) -> None:
        self._queue_of(request).put(channel.peer, channel, (channel, http, request, time.monotonic()))

    def _queue_of(self, request: h11.Request) -> FairQueue[_Work]:
        path = request.target.partition(b"?")[0]
        if request.method not in (b"GET", b"HEAD"):
            return self._others
        if path == _LIVE_PATH:
            return self._live
        if path in _PROMPT_PATHS:
            return self._prompt
        if path.startswith(_READ_PREFIX):
            return self._reads
        return self._pages if path in _PAGE_PATHS or path.startswith(_PAGE_FOLDERS) else self._others

    def _greet(self, channel: HttpChannel) -> None:
        self._greetings.put(channel.peer, channel, channel)

    def _channels(self) -> list[HttpChannel]:
        return [each for each in self._loop.channels() if isinstance(each, HttpChannel)]

    # ---- the threads ---------------------------------------------------------------------------------------

    def _serve(self, queue: FairQueue[_Work]) -> None:
        while (found := queue.get()) is not None:
            peer, (channel, http, request, arrived) = found
            if not channel.take():
                queue.done(peer)
                continue
            paced = PacedSocket(channel.socket, self._limits, self.refusals, lambda: len(queue) > 0)
            try:
                is_brief = queue in (self._live, self._prompt, self._pages)
                answered = self._perform(_Exchange(paced, http, request, brief=is_brief), channel, arrived)
            finally:
                queue.done(peer)
            self._loop.call(_Done(channel, answered))

    def _shake_hands(self) -> None:
        while (found := self._greetings.get()) is not None:
            peer, channel = found
            try:
                if channel.take():
                    channel.greet()
                    self._loop.call(channel.greeted)
            except OSError as fault:
                _LOG.debug("the connection from %s was lost: %s", peer, fault)
                self._loop.call(partial(self._loop.discard, channel))
            except Exception:
                _LOG.exception("a handshake with %s failed because of a bug", peer)
                self._loop.call(partial(self._loop.discard, channel))
            finally:
                self._greetings.done(peer)

    def _follow(self, tls: ServerTls) -> None:
        set_in_use(tls, now=True)
        while not self._ends.wait(tls.interval):
            tls.reload_if_changed()
        set_in_use(tls, now=False)

    def _perform(self, exchange: _Exchange, channel: HttpChannel, arrived: float) -> WorkResult:
        try:
            return exchange.perform(self._application, channel, time.monotonic() - arrived)
        except OSError as fault:
            _LOG.warning("a request from %s is aborted: %s", channel.peer, fault)
        except Exception:
            _LOG.exception("a request from %s failed because of a bug", channel.peer)
        return WorkResult()


class _Done:
    """A callback that returns a connection to the loop."""

    def __init__(self, channel: HttpChannel, answered: WorkResult) -> None:
        self._channel = channel
        self._answered = answered

    def __call__(self) -> None:
        self._channel.done(self._answered)


class _Sized:
    """A placeholder for bytes; h11 needs only their number."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


class _Exchange:
    """A request and its response in the thread that processes them; the loop sends a `brief` response as a whole."""

    def __init__(self, connection: PacedSocket, http: h11.Connection, request: h11.Request, *, brief: bool) -> None:
        self._connection = connection
        self._http = http
        self._request = request
        self._brief = brief
        self._expected = http.they_are_waiting_for_100_continue
        begun, _ = http.trailing_data
        # "100 Continue" is sent when the body is read, so that a refused client need not send its body
        self._reader = BufferedConnection(connection, begun, self._welcome)
        size = body_length(request)
        self._body = ChunkedBody(self._reader) if size is None else SizedBody(self._reader, size)
        self._status = ""
        self._headers: list[tuple[str, str]] = []

    def perform(self, application: WSGIApplication, channel: HttpChannel, waited: float) -> WorkResult:
        """Pass a request, which waited `waited` seconds for a thread, to `application` and send the response.

        Raises:
            OSError: the connection broke, or the peer is too slow.
            Exception: raised by the application; it is unknown what was sent.
        """
        body = cast(BinaryIO, self._body)
        here = channel.socket.getsockname()[:2]
        scheme = "https" if isinstance(channel.socket, TlsSocket) else "http"
        environ = {**environment(self._request, body, channel.peer, here, scheme), WAITED: waited}
        content = application(environ, self._start_response)
        try:
            return self._answer(content)
        finally:
            if hasattr(content, "close"):
                content.close()

    def _welcome(self) -> None:
        if self._expected and not self._body.complete and self._http.our_state is h11.SEND_RESPONSE:
            self._expected = False
            self._connection.sendall(self._http.send(_CONTINUE) or b"")

    def _start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        self._status, self._headers = status, headers
        return self._connection.sendall

    def _answer(self, content: Iterable[bytes]) -> WorkResult:
        if isinstance(content, FileBody) and self._request.method != b"HEAD":
            self._connection.sendall(self._head())
            self._http.send_with_data_passthrough(h11.Data(data=cast(bytes, _Sized(content.size))))
            content.send_to(self._connection)
            return self._left(b"")
        if self._brief or self._length() <= _MAX_LEFT:
            data = b"".join(content)
            return self._left(self._head() + self._piece(data))
        head = self._head()
        for data in content:
            self._connection.sendall(head + self._piece(data))
            head = b""
        return self._left(head)

    def _length(self) -> float:
        """Return the length of the response, infinite if it is not declared."""
        return next((int(value) for name, value in self._headers if name.lower() == "content-length"), float("inf"))

    def _head(self) -> bytes:
        code, _, reason = self._status.partition(" ")
        headers = [*self._headers, ("Date", formatdate(usegmt=True)), ("Server", "hdfs-checkpointer")]
        if not self._body.complete:
            headers.append(("Connection", "close"))
        status = HTTPStatus(int(code))
        response = h11.Response(status_code=status, headers=headers, reason=(reason or status.phrase).encode("latin-1"))
        return self._http.send(response) or b""

    def _piece(self, data: bytes) -> bytes:
        if not data or self._request.method == b"HEAD":
            return b""
        return self._http.send(h11.Data(data=data)) or b""

    def _left(self, unsent: bytes) -> WorkResult:
        """Finish the response; the loop sends `unsent`."""
        end = self._http.send(h11.EndOfMessage()) or b""
        complete = self._body.complete
        reuse = complete and self._http.our_state is h11.DONE
        return WorkResult(unsent + end, reuse=reuse, rest=self._reader.rest() if reuse else b"", drain=not complete)
