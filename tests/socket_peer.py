"""Servers whose connections a test controls byte by byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

_WAIT = 600.0
Script = Callable[[socket.socket], object]


@contextmanager
def scripted(*scripts: Script) -> Iterator[tuple[str, int]]:
    """Yield the address of a server that handles its n-th connection with the n-th script."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for script in scripts:
                peer, _ = listener.accept()
                with peer:
                    script(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(_WAIT)
    assert not thread.is_alive()


@contextmanager
def scripted_web(script: Script) -> Iterator[str]:
    """Yield the URL of a server that handles its only connection with the script."""
    with scripted(script) as (host, port):
        yield f"http://{host}:{port}"


def read_head(peer: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of a request, and the part of the body that arrived with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = peer.recv(65536)
        assert piece, data
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def saying(answer: bytes) -> Script:
    """Return a script that responds to a request with these bytes and closes the connection."""

    def say(peer: socket.socket) -> None:
        read_head(peer)
        peer.sendall(answer)

    return say


@contextmanager
def threads_without(refused: str, patience: float) -> Iterator[None]:
    """Let the thread of this name fail to start; at the end, check that all other threads of the block end."""
    start, begun = threading.Thread.start, list[threading.Thread]()

    def begin(thread: threading.Thread) -> None:
        if thread.name == refused:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    with mock.patch.object(threading.Thread, "start", begin):
        yield
    for thread in begun:
        thread.join(patience)
        assert not thread.is_alive()
