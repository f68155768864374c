"""Sender of a request body that watches for the response, because an HTTP server may refuse the body long before its
end.
"""

from __future__ import annotations

import http.client
import select
import socket
from collections.abc import Callable, Sequence

from hadoop_common.http_connection import TlsClientSocket, WaitLimit


class EarlyAnswer(Exception):  # noqa: N818 - not an error, it ends the sending
    """Arrival of a response, or of the end of the connection, before the body was sent completely."""


class BodySender:
    """Sender of a body over an HTTP connection; `sent` counts the bytes that the kernel accepted.

    A wait ends after `timeout` seconds without progress, or soon after `cancelled()` becomes true.
    """

    def __init__(self, connection: http.client.HTTPConnection, timeout: float, cancelled: Callable[[], bool]) -> None:
        if connection.sock is None:
            raise ValueError("the connection must be open")
        self._socket: socket.socket = connection.sock
        self._limit = WaitLimit(timeout, cancelled)
        self.sent = 0

    def send(self, *parts: bytes | memoryview) -> None:
        """Send all of `parts` in order, at most a few hundred.

        Raises:
            EarlyAnswer: the server responded or closed the connection before the end of the body.
            WaitCancelled: `cancelled()` became true.
            OSError: the connection broke, or sending stalled for `timeout` seconds (TimeoutError).
        """
        left = [memoryview(part) for part in parts]
        while left:
            ready = self._wait(select.POLLOUT | select.POLLIN)
            if ready & ~select.POLLOUT and self._is_answer():
                raise EarlyAnswer
            if not ready & select.POLLOUT:
                continue
            count = self._send_some(left)
            self.sent += count
            left = _after(left, count)

    def _is_answer(self) -> bool:
        return not isinstance(self._socket, TlsClientSocket) or self._socket.has_answer()

    def _send_some(self, parts: Sequence[memoryview]) -> int:
        # TLS sockets have no sendmsg
        tls = isinstance(self._socket, TlsClientSocket)
        return self._socket.send(parts[0]) if tls else self._socket.sendmsg(parts)

    def wait_for_answer(self) -> None:
        """Wait until the response begins.

        Raises:
            WaitCancelled: `cancelled()` became true.
            TimeoutError: no response within `timeout` seconds.
        """
        if isinstance(self._socket, TlsClientSocket) and self._socket.has_answer():
            return
        self._limit.begin()
        while True:
            self._wait(select.POLLIN, begun=True)
            if self._is_answer():
                return

    def _wait(self, events: int, *, begun: bool = False) -> int:
        poller = select.poll()
        poller.register(self._socket, events)
        if not begun:
            self._limit.begin()
        while True:
            for _, ready in poller.poll(self._limit.slice() * 1000):
                return ready


def _after(parts: Sequence[memoryview], count: int) -> list[memoryview]:
    """Return the remainder of `parts` after their first `count` bytes."""
    for number, part in enumerate(parts):
        if count < len(part):
            return [part[count:], *parts[number + 1 :]]
        count -= len(part)
    return []
