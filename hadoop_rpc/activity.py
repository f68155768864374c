"""Statistics of an RPC server: calls, their waiting and processing times, and bytes (RpcMetrics)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass(slots=True)
class RpcCounts:
    """Totals since the start.

    Attributes:
        calls: performed calls; `successes` of them were answered without an error.
        queue_seconds: time that calls waited for a handler; `processing_seconds`: time in handlers.
        received, sent: bytes.
    """

    calls: int = 0
    successes: int = 0
    queue_seconds: float = 0.0
    processing_seconds: float = 0.0
    received: int = 0
    sent: int = 0


class RpcActivity:
    """Thread-safe counters of an RPC server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = RpcCounts()

    def performed(self, queued: float, took: float, *, success: bool) -> None:
        """Count a performed call; `queued` and `took` are seconds."""
        with self._lock:
            counts = self._counts
            counts.calls += 1
            counts.successes += success
            counts.queue_seconds += queued
            counts.processing_seconds += took

    def moved(self, *, received: int = 0, sent: int = 0) -> None:
        """Count bytes received from peers or sent to them."""
        with self._lock:
            self._counts.received += received
            self._counts.sent += sent

    def counts(self) -> RpcCounts:
        """Return the current totals."""
        with self._lock:
            return replace(self._counts)
