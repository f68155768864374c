"""Quorum journals with real threads, on nodes in this process that can be delayed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hadoop_rpc.errors import RpcConnectionError
from journal.quorum.address import QuorumAddress
from journal.quorum.driver import NodeClient, ThreadDriver
from journal.quorum.ensemble import Ensemble
from journal.quorum.quorum_journal import QuorumJournal
from tests.journal.quorum_model import JOURNAL
from tests.journal.quorum_simulation import SETTINGS, Simulation

DEADLINE = 600.0


class HeldNode:
    """A client of a node in this process; calls with some names wait until they are released."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._gate = threading.Condition()
        self._held: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self.waiting = 0
        self.calls: list[str] = []
        self.closed = False

    def hold(self, *names: str) -> None:
        with self._gate:
            self._held = frozenset(names)
            self._gate.notify_all()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._node, name)

        def called(*arguments: Any, **named: Any) -> Any:
            with self._gate:
                self.waiting += 1
                self._gate.wait_for(lambda: name not in self._held or self.closed)
                self.waiting -= 1
                if self.closed:
                    raise RpcConnectionError("the client is closed")
                self.calls.append(name)
            with self._lock:
                return method(*arguments, **named)

        return called

    def close(self) -> None:
        with self._gate:
            self.closed = True
            self._gate.notify_all()


@contextmanager
def threaded(
    simulation: Simulation, settings: Any = SETTINGS, **more: Any
) -> Iterator[tuple[QuorumJournal, list[HeldNode]]]:
    """Yield a journal on the simulation's nodes, and its clients; simulated time does not pass."""
    address = QuorumAddress.parse(f"qjournal://{';'.join(simulation.names)}/{JOURNAL}")
    ensemble = Ensemble(simulation.names, JOURNAL, queue_limit=settings.queue_limit)
    ways = {name: HeldNode(host.node) for name, host in simulation.hosts.items()}
    clients: dict[str, NodeClient] = dict(ways)
    driver = ThreadDriver(ensemble, clients, **more)
    journal = QuorumJournal(address, ensemble, driver, settings, source=simulation.source)
    try:
        yield journal, list(ways.values())
    finally:
        journal.close()
