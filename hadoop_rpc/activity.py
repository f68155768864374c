"""What an RPC server measures of itself: calls, how long they waited and took, and bytes (RpcMetrics)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass(slots=True)
class RpcCounts:
    """Totals since the start.

    Attributes:
        calls: that were performed; `successes` of them were answered without an error.
        queue_seconds: that calls waited for a handler; `processing_seconds`: that handlers took.
        received, sent: bytes.
    """

    calls: int = 0
    successes: int = 0
    queue_seconds: float = 0.0
    processing_seconds: float = 0.0
    received: int = 0
    sent: int = 0


class RpcActivity:
    """Counts them; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = RpcCounts()

    def performed(self, queued: float, took: float, *, success: bool) -> None:
        """A call was performed; `queued` and `took` are seconds."""
        with self._lock:
            counts = self._counts
            counts.calls += 1
            counts.successes += success
            counts.queue_seconds += queued
            counts.processing_seconds += took

    def moved(self, *, received: int = 0, sent: int = 0) -> None:
        """So many bytes came from peers, or went to them."""
        with self._lock:
            self._counts.received += received
            self._counts.sent += sent

    def counts(self) -> RpcCounts:
        """The totals as they are now."""
        with self._lock:
            return replace(self._counts)
