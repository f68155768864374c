"""Sending a request body with an eye on the answer: HTTP servers may refuse long before the body's end."""

from __future__ import annotations

import http.client
import select
import socket
from collections.abc import Callable, Sequence

from checkpointer.transfer.connection import Patience, TlsClientSocket


class AnswerIsThere(Exception):  # noqa: N818 - it is no error, it ends the sending
    """The server answered, or closed the connection, while the body was being sent."""


class BodySender:
    """Sends bytes over the socket of an HTTP connection; `sent` counts what the kernel took.

    A wait ends after `timeout` seconds without progress, and soon after `cancelled()` became true.
    """

    def __init__(self, connection: http.client.HTTPConnection, timeout: float, cancelled: Callable[[], bool]) -> None:
        if connection.sock is None:
            raise ValueError("the connection must be open")
        self._socket: socket.socket = connection.sock
        self._patience = Patience(timeout, cancelled)
        self.sent = 0

    def send(self, *parts: bytes | memoryview) -> None:
        """Send all of `parts`, one after the other; a few hundred at most.

        Raises:
            AnswerIsThere: the server answered meanwhile.
            WaitCancelled: `cancelled()` became true.
            OSError: the connection broke, or nothing went out for `timeout` seconds (TimeoutError).
        """
        left = [memoryview(part) for part in parts]
        while left:
            ready = self._wait(select.POLLOUT | select.POLLIN)
            if ready & ~select.POLLOUT and self._is_answer():
                raise AnswerIsThere
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
        """Wait until the answer begins.

        Raises:
            WaitCancelled: `cancelled()` became true.
            TimeoutError: no answer within `timeout` seconds.
        """
        if isinstance(self._socket, TlsClientSocket) and self._socket.has_answer():
            return
        self._patience.begin()
        while True:
            self._wait(select.POLLIN, begun=True)
            if self._is_answer():
                return

    def _wait(self, events: int, *, begun: bool = False) -> int:
        poller = select.poll()
        poller.register(self._socket, events)
        if not begun:
            self._patience.begin()
        while True:
            for _, ready in poller.poll(self._patience.slice() * 1000):
                return ready


def _after(parts: Sequence[memoryview], count: int) -> list[memoryview]:
    """What is left of `parts` when `count` bytes are gone."""
    for number, part in enumerate(parts):
        if count < len(part):
            return [part[count:], *parts[number + 1 :]]
        count -= len(part)
    return []
