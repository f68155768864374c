"""The HTTP server of a daemon: cheroot in this process, with streamed bodies and clean ends."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from cheroot import wsgi
from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.workers.threadpool import ThreadPool

from hadoop_common.endpoint import host_port
from servlets.connection_reader import connection_file
from servlets.errors import HttpServerError
from servlets.file_body import FileBody
from servlets.request_body import ChunkedBody, SizedBody

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

__all__ = ["DEFAULT_LINGER", "DEFAULT_THREADS", "DEFAULT_TIMEOUT", "HttpServer"]

_LOG = logging.getLogger(__name__)

DEFAULT_THREADS = 32
DEFAULT_TIMEOUT = 60.0
DEFAULT_LINGER = 10.0
_MAX_HEADER_BYTES = 65536
_DRAIN_BYTES = 65536
_LONGEST_DRAIN = 3600.0
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class HttpServer:
    """Serves a WSGI application from threads of this process; a context manager.

    Bodies are streamed both ways and have no size limit. `port` 0 takes a free port, see `address`. `timeout`
    bounds each wait on a connection, `shutdown_timeout` how long running requests may go on after `stop()`.
    A client that still sends when its request is already answered is heard until it pauses for `linger` seconds, an
    hour at most, so that it gets to see the answer: Hadoop's NameNodes look for it when their whole image is sent, and
    make the checkpoint again at once where the connection breaks before. All times are seconds.
    """

    def __init__(
        self,
        application: WSGIApplication,
        host: str,
        port: int,
        *,
        threads: int = DEFAULT_THREADS,
        timeout: float = DEFAULT_TIMEOUT,
        shutdown_timeout: float = 5.0,
        linger: float = DEFAULT_LINGER,
    ) -> None:
        self._requested = (host, port)
        self._server = _Server(
            self._requested,
            application,
            threads=threads,
            timeout=timeout,
            shutdown_timeout=shutdown_timeout,
            linger=linger,
        )
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind, listen, and serve from a thread; connections are accepted when this returns.

        Raises:
            HttpServerError: the address cannot be bound, or the server was started before.
        """
        if self._thread is not None:
            raise HttpServerError("this HTTP server was started before", hint="Make a new HttpServer to serve again.")
        host, port = self._requested
        try:
            self._server.prepare()
        except OSError as fault:
            raise HttpServerError(
                f"cannot listen on {host}:{port}: {fault}",
                hint="Free the port or configure another address for this HTTP server.",
            ) from fault
        self._thread = threading.Thread(target=self._server.serve, name=f"http-{self.address[1]}", daemon=True)
        self._thread.start()
        _LOG.info("listening on %s:%d", *self.address)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on.

        Raises:
            HttpServerError: it was not started yet.
        """
        if self._thread is None and not self._server.ready:
            raise HttpServerError("this HTTP server does not listen yet", hint="Call start() first.")
        host, port = self._server.bind_addr
        return str(host), int(port)

    @property
    def url(self) -> str:
        """`http://host:port`, with brackets around an IPv6 address."""
        return f"http://{host_port(*self.address)}"

    def stop(self) -> None:
        """Stop accepting, let running requests end for `shutdown_timeout`, then cut them; idempotent."""
        self._server.stop()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _EscapedLine:
    """The first line of a request, bytes that are not ASCII as %XX: Hadoop's clients send names as they are."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readline(self) -> bytes:
        line: bytes = self._file.readline()
        return line if line.isascii() else _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line)


class _Request(HTTPRequest):
    """A request whose body is streamed, and whose connection is reused only when all of it was read."""

    rfile: Any

    def read_request_line(self) -> bool:
        file, self.rfile = self.rfile, _EscapedLine(self.rfile)
        try:
            read: Any = super().read_request_line
            return bool(read())
        finally:
            self.rfile = file

    def respond(self) -> None:
        if self.chunked_read:
            self.rfile = ChunkedBody(self.conn.rfile)
        elif (size := int(self.inheaders.get(b"Content-Length", 0))) >= 0:
            self.rfile = SizedBody(self.conn.rfile, size)
        else:
            self.close_connection = True
            self.simple_response("400 Bad Request", f"Content-Length is {size}, expected 0 or more.\n")
            return
        self.server.gateway(self).respond()
        if self.ready:
            self.ensure_headers_sent()
        if self.chunked_write:
            self.conn.wfile.write(b"0\r\n\r\n")
        if not self.rfile.complete:
            self._drain()

    def send_headers(self) -> None:
        # cheroot would otherwise read the rest of the body into memory, or take it for the next request
        if not self.rfile.complete:
            self.close_connection = True
        super().send_headers()

    def _drain(self) -> None:
        """Take what the client still sends: closing over unread bytes would reset the connection."""
        connection: socket.socket = self.conn.socket
        deadline = time.monotonic() + _LONGEST_DRAIN
        try:
            connection.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline:
                connection.settimeout(self.server.linger)
                if not connection.recv(_DRAIN_BYTES):
                    return
        except OSError as fault:
            _LOG.debug("client %s did not end its request: %s", self.conn.remote_addr, fault)


class _Gateway(wsgi.Gateway_10):
    """Sends files by `FileBody.send_to`, and all else as cheroot does."""

    def respond(self) -> None:
        body = self.req.server.wsgi_app(self.env, self.start_response)
        try:
            if isinstance(body, FileBody):
                self.req.ensure_headers_sent()
                body.send_to(self.req.conn.socket)
                return
            for chunk in filter(None, body):
                self.write(chunk)
        finally:
            self.req.ensure_headers_sent()
            if hasattr(body, "close"):
                body.close()


class _Connection(HTTPConnection):
    RequestHandlerClass = _Request

    def __init__(self, server: _Server, connection: socket.socket, makefile: object) -> None:
        super().__init__(server, connection, connection_file)


class _ThreadPool(ThreadPool):
    """Worker threads that can be stopped while they send."""

    @staticmethod
    def _force_close(conn: HTTPConnection | None) -> None:
        if conn is None:
            return
        try:
            conn.socket.shutdown(socket.SHUT_RDWR)
        except OSError as fault:
            _LOG.debug("connection of %s was closed already: %s", conn.remote_addr, fault)


class _Server(wsgi.Server):
    ConnectionClass = _Connection
    max_request_header_size = _MAX_HEADER_BYTES
    # the accepting thread wakes this often, in seconds, and sees that it is to stop
    expiration_interval = 0.1

    def __init__(
        self,
        bind_addr: tuple[str, int],
        application: WSGIApplication,
        *,
        threads: int,
        timeout: float,
        shutdown_timeout: float,
        linger: float,
    ) -> None:
        super().__init__(
            bind_addr,
            application,
            server_name="hdfs-checkpointer",
            request_queue_size=128,
        )
        self.gateway = _Gateway
        self.timeout = timeout
        self.shutdown_timeout = shutdown_timeout
        self.requests = _ThreadPool(self, min=threads)
        self.linger = linger

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        _LOG.log(level, "%s", msg, exc_info=traceback)
