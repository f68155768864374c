"""A relay on loopback between clients and a server; the relay may inspect the bytes."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

HERE = "127.0.0.1"


class LoopbackRelay:
    """A context manager that accepts connections for `target`; `serve` handles each connection.

    Attributes:
        address: host:port to which clients connect.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self._listener = socket.create_server((HERE, 0))
        self.address = f"{HERE}:{self._listener.getsockname()[1]}"

    def serve(self, client: socket.socket) -> None:
        """Handle a connection, in a separate thread."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()
