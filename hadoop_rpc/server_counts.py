"""Counts of a server: calls, bytes and logins (RpcMetrics)."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final


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
        with self._lock:
            return replace(self._counts)


ACCEPTED: Final = "accepted"
FAILED: Final = "failed"
REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True)
class Logins:
    """Logins by server (`rpc`, `http`) and result, and the RPC connections that are open now.

    Attributes:
        results: `accepted`; `failed` if the Kerberos login or token was invalid; `refused` if the caller may not
            connect.
        connections: number of open RPC connections, by protection.
    """

    results: dict[tuple[str, str], int]
    connections: dict[str, int]


class LoginCounts:
    """Thread-safe counters of logins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: Counter[tuple[str, str]] = Counter()
        self._connections: Counter[str] = Counter()

    def count(self, server: str, result: str) -> None:
        with self._lock:
            self._results[server, result] += 1

    def opened(self, protection: str, change: int = 1) -> None:
        with self._lock:
            self._connections[protection] += change

    def now(self) -> Logins:
        with self._lock:
            return Logins(dict(self._results), dict(self._connections))


LOGINS: Final = LoginCounts()
"""Counts of this process."""
