"""Who leads, as the lock tells it: the value that lies in the lock."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A daemon that holds the lock, or would like to.

    Attributes:
        address: host and port of its HTTP server.
        since: when its process began to ask for the lock, seconds since the epoch.
    """

    host: str
    pid: int
    role: str
    address: str
    since: float

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes | None) -> Self | None:
        """None where it is nothing that a daemon wrote: the lock is somebody's all the same."""
        try:
            told = json.loads(data or b"")
            return cls(
                host=str(told["host"]),
                pid=int(told["pid"]),
                role=str(told["role"]),
                address=str(told["address"]),
                since=float(told["since"]),
            )
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        return f"{self.role} on {self.host} (process {self.pid}, HTTP {self.address})"
