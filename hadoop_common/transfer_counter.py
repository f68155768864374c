"""Counts of the bytes that transfers of images and segments move."""

from __future__ import annotations

import threading


class TransferCounter:
    """Thread-safe counts of sent and received bytes since the start.

    Pass `add_sent` or `add_received` to the `Throttle` of a transfer, which calls the method for every chunk.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self._received = 0

    def add_sent(self, count: int) -> None:
        with self._lock:
            self._sent += count

    def add_received(self, count: int) -> None:
        with self._lock:
            self._received += count

    @property
    def sent(self) -> int:
        with self._lock:
            return self._sent

    @property
    def received(self) -> int:
        with self._lock:
            return self._received
