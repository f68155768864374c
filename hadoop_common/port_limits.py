"""Limits of a port, and counts of refused requests."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from hadoop_common.config_key import BYTES, COUNT, RATE, SECONDS, ConfigKey, bound, bound_keys

CONNECTIONS = ConfigKey(
    "checkpointer.port.connections",
    "400",
    COUNT,
    "Maximum number of open connections to a port. Specific to the checkpointer, like all port limits.",
    least=1,
)
PEER_CONNECTIONS = ConfigKey(
    "checkpointer.port.peer-connections",
    "100",
    COUNT,
    "Maximum number of open connections from one address; a new connection replaces an idle or waiting connection.",
    least=1,
)
PEER_TRANSFERS = ConfigKey(
    "checkpointer.port.peer-transfers",
    "8",
    COUNT,
    "Maximum number of HTTP requests from one address that are processed in parallel; others wait. Requests for "
    "status and health are not counted.",
    least=1,
)
OPENING_TIMEOUT = ConfigKey(
    "checkpointer.port.opening-timeout",
    "20s",
    SECONDS,
    "Time limit for the headers of an HTTP request, and for an RPC caller's identification.",
    least=0.001,
)
IDLE_TIMEOUT = ConfigKey(
    "checkpointer.port.idle-timeout",
    "40s",
    SECONDS,
    "Time after which a connection without requests is closed. An RPC connection stays open longer while the port "
    "has at most half of its maximum number of connections.",
    least=0.001,
)
STALL_TIMEOUT = ConfigKey(
    "checkpointer.port.stall-timeout",
    "30s",
    SECONDS,
    "Time over which a peer must maintain the minimum rate, in both directions; only time spent waiting for the "
    "peer counts.",
    least=0.001,
)
LEAST_RATE = ConfigKey(
    "checkpointer.port.least-rate", "1024", RATE, "Minimum rate at which a peer must send or receive data.", least=1
)
RPC_MEMORY = ConfigKey(
    "checkpointer.port.rpc-memory",
    "64m",
    BYTES,
    "Maximum memory for all RPC requests and responses in transit; above half of this limit, slow connections are "
    "closed. One request of the largest size is always accepted.",
    least=1 << 20,
)
MAX_REQUEST = ConfigKey(
    "ipc.maximum.data.length",
    "134217728",
    BYTES,
    "Size of the largest RPC request that a server accepts, such as a batch of edits that a NameNode sends.",
    least=1,
    release2="67108864",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLimits:
    """Limits of one port; times in seconds, sizes in bytes.

    Attributes:
        connections, peer_connections: maximum numbers of open connections, in total and per address.
        opening: time until the headers of a request, or the identification of an RPC caller, have arrived.
        idle: time for which a connection without a request stays open; RPC connections may stay longer unless the port
            is crowded.
        stall: in this time, a transfer in either direction must move at least `least_rate * stall` bytes.
        least_rate: bytes per second.
        peer_transfers: number of HTTP requests from one address that are processed in parallel; others wait.
        memory: memory for all RPC requests and responses in transit; above half of it, the server closes slow
            connections.
        max_request: size of the largest RPC request.
    """

    connections: int = bound(CONNECTIONS)
    peer_connections: int = bound(PEER_CONNECTIONS)
    opening: float = bound(OPENING_TIMEOUT)
    idle: float = bound(IDLE_TIMEOUT)
    stall: float = bound(STALL_TIMEOUT)
    least_rate: int = bound(LEAST_RATE)
    peer_transfers: int = bound(PEER_TRANSFERS)
    memory: int = bound(RPC_MEMORY)
    max_request: int = bound(MAX_REQUEST)

    @property
    def least_bytes(self) -> int:
        """Bytes that a transfer must move within `stall`."""
        return max(1, int(self.least_rate * self.stall))


PORT_KEYS = bound_keys(PortLimits)


class Refusals:
    """Thread-safe counts of the requests to one port that were refused or ended, by reason."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, reason: str) -> None:
        with self._lock:
            self._counts[reason] += 1

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
