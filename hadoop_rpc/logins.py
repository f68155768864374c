"""Logins by Kerberos at the servers of a process, counted; for any thread."""

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
    """How many there were, by server (`rpc`, `http`) and result, and how many RPC connections are open now.

    Attributes:
        results: `accepted`; `failed` where Kerberos proved nothing; `refused` where somebody may not come in.
        connections: by their protection.
    """

    results: dict[tuple[str, str], int]
    connections: dict[str, int]


class LoginCounts:
    """Counts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: Counter[tuple[str, str]] = Counter()
        self._connections: Counter[str] = Counter()

    def count(self, server: str, result: str) -> None:
        with self._lock:
            self._results[server, result] += 1

    def opened(self, protection: str, change: int = 1) -> None:
        """So many connections more have this protection."""
        with self._lock:
            self._connections[protection] += change

    def now(self) -> Logins:
        with self._lock:
            return Logins(dict(self._results), dict(self._connections))


LOGINS: Final = LoginCounts()
"""Those of this process, as its login is."""
