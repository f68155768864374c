"""Runs a web server in a thread, with a handler from the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

_Server = TypeVar("_Server", bound=ThreadingHTTPServer)


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that logs nothing; `get`, `put`, `post` and `options` handle the requests."""

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, reason: str | None = None
    ) -> None:
        self.send_response(status, reason)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self) -> None:
        self.answer(501)

    get = put = post = options = refuse

    def do_GET(self) -> None:
        self.get()

    def do_PUT(self) -> None:
        self.put()

    def do_POST(self) -> None:
        self.post()

    def do_OPTIONS(self) -> None:
        self.options()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def serving(server: _Server) -> Iterator[_Server]:
    """Run the server in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def web_server(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[int]:
    """Run a server on 127.0.0.1, by default on a free port; return its port."""
    with serving(ThreadingHTTPServer(("127.0.0.1", port), handler)) as server:
        yield server.server_address[1]


@dataclass
class JsonServer:
    """Server that responds to GET by path with a status and JSON text; for other paths, the status is 404."""

    url: str
    answers: dict[str, tuple[int, str]]
    asked: list[str] = field(default_factory=list)


@contextmanager
def json_server(answers: dict[str, tuple[int, str]]) -> Iterator[JsonServer]:
    """Serve JSON as a daemon or a NameNode's /jmx does."""

    class Handler(QuietHandler):
        def get(self) -> None:
            path = self.path.partition("?")[0]
            served.asked.append(path)
            status, text = served.answers.get(path, (404, "{}"))
            self.answer(status, text.encode(), {"Content-Type": "application/json"})

    with web_server(Handler) as port:
        served = JsonServer(f"http://127.0.0.1:{port}", answers)
        yield served
