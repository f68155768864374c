"""A proxy before a ZooKeeper that cuts the connection at a chosen request, before or after the server had it."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Hands frames on; `hosts` is where clients connect to."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._kind: int | None = None
        self._answered = False
        self._lock = threading.Lock()
        self.was_cut = threading.Event()

    def cut(self, kind: int, *, answered: bool) -> None:
        """The next request of that type ends its connection, before the server has it or once that has answered."""
        with self._lock:
            self._kind, self._answered = kind, answered

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                link = _Link(self, client, server)
                threading.Thread(target=link.requests, daemon=True).start()
                threading.Thread(target=link.answers, daemon=True).start()

    def chosen(self, kind: int) -> bool | None:
        """Whether a request of that type is let through to the server before the cut; None: it is not cut."""
        with self._lock:
            if kind != self._kind:
                return None
            self._kind = None
            return self._answered


class _Link:
    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._cut_at: int | None = None

    def requests(self) -> None:
        with suppress(OSError):
            self._server.sendall(_frame(self._client))
            while frame := _frame(self._client):
                xid, kind = struct.unpack_from(">ii", frame, 4)
                goes = self._proxy.chosen(kind)
                if goes is not None:
                    self._cut_at = xid
                if goes is False:
                    break
                self._server.sendall(frame)
        self._close()

    def answers(self) -> None:
        with suppress(OSError):
            self._client.sendall(_frame(self._server))
            while frame := _frame(self._server):
                if struct.unpack_from(">i", frame, 4)[0] == self._cut_at:
                    break
                self._client.sendall(frame)
        self._close()

    def _close(self) -> None:
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        if self._cut_at is not None:
            self._proxy.was_cut.set()


def _frame(source: socket.socket) -> bytes:
    """The next one with its length, b"" at the end."""
    head = _exactly(source, 4)
    return head + _exactly(source, struct.unpack(">i", head)[0]) if head else b""


def _exactly(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = source.recv(count - len(found))
        if not part:
            return b""
        found += part
    return found
