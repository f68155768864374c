"""Counts of Kerberos logins at the servers of a process."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Final

ACCEPTED: Final = "accepted"
FAILED: Final = "failed"
REFUSED: Final = "refused"
_RESULTS = (ACCEPTED, FAILED, REFUSED)


@dataclass(frozen=True, slots=True)
class Logins:
    """Logins by server (`rpc`, `http`) and result, and the RPC connections that are open now.

    Attributes:
        results: `accepted`; `failed` if Kerberos proved nothing; `refused` if the caller may not connect.
        connections: by their protection.
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
        """Change the number of open connections with this protection."""
        with self._lock:
            self._connections[protection] += change

    def now(self) -> Logins:
        with self._lock:
            return Logins(dict(self._results), dict(self._connections))


LOGINS: Final = LoginCounts()
"""Counts of this process."""
