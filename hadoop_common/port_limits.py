"""What a port grants its peers, and a count of what it refused them."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from hadoop_common.config_key import BYTES, COUNT, RATE, SECONDS, ConfigKey, bound, bound_keys

CONNECTIONS = ConfigKey(
    "checkpointer.port.connections",
    "400",
    COUNT,
    "Connections that a port has open at once; specific to the checkpointer, as all limits of ports.",
    least=1,
)
PEER_CONNECTIONS = ConfigKey(
    "checkpointer.port.peer-connections",
    "100",
    COUNT,
    "The same for one address; one that idles or waits makes room.",
    least=1,
)
PEER_TRANSFERS = ConfigKey(
    "checkpointer.port.peer-transfers",
    "8",
    COUNT,
    "HTTP requests of one address that are worked on at once; others wait. Status and health do not count.",
    least=1,
)
OPENING_TIMEOUT = ConfigKey(
    "checkpointer.port.opening-timeout",
    "20s",
    SECONDS,
    "How long the headers of an HTTP request may take in all, and a caller of RPC to say who it is.",
    least=0.001,
)
IDLE_TIMEOUT = ConfigKey(
    "checkpointer.port.idle-timeout",
    "40s",
    SECONDS,
    "How long a connection stays on which nothing is asked.",
    least=0.001,
)
STALL_TIMEOUT = ConfigKey(
    "checkpointer.port.stall-timeout",
    "30s",
    SECONDS,
    "A peer has to keep the least rate over each such time in which it is waited for, in both directions.",
    least=0.001,
)
LEAST_RATE = ConfigKey("checkpointer.port.least-rate", "1024", RATE, "That rate.", least=1)
RPC_MEMORY = ConfigKey(
    "checkpointer.port.rpc-memory",
    "64m",
    BYTES,
    "What requests and answers of RPC that are on their way may take together; from half of it on, slow ones go. One "
    "request of 64 MiB always fits.",
    least=1 << 20,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLimits:
    """Limits of one port; times in seconds, sizes in bytes.

    Attributes:
        connections, peer_connections: open at once, in all and of one address.
        opening: until the headers of a request are there, or until a caller of RPC has said who it is.
        idle: how long a connection without a request stays.
        stall: a transfer, in either direction, has to move `least_rate` times this within it.
        least_rate: bytes a second.
        peer_transfers: requests of one address that HTTP works on at once; others wait.
        memory: what requests and answers of RPC on their way may take together; from half of it on, slow ones go.
    """

    connections: int = bound(CONNECTIONS)
    peer_connections: int = bound(PEER_CONNECTIONS)
    opening: float = bound(OPENING_TIMEOUT)
    idle: float = bound(IDLE_TIMEOUT)
    stall: float = bound(STALL_TIMEOUT)
    least_rate: int = bound(LEAST_RATE)
    peer_transfers: int = bound(PEER_TRANSFERS)
    memory: int = bound(RPC_MEMORY)

    @property
    def least_bytes(self) -> int:
        """What a transfer has to move within `stall`."""
        return max(1, int(self.least_rate * self.stall))


PORT_KEYS = bound_keys(PortLimits)


class Refusals:
    """Counts what one port refused or ended, by the reason; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, reason: str) -> None:
        with self._lock:
            self._counts[reason] += 1

    def counts(self) -> dict[str, int]:
        """How often, by reason."""
        with self._lock:
            return dict(self._counts)
