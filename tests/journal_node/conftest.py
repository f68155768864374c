"""JournalNodes in memory, each with a writer."""

from __future__ import annotations

import pytest

from journal_node.node import JournalNode
from tests.journal_node.journal_node_support import MemoryPeer, Network, Writer, formatted
from tests.journal_node.memory_disk import MemoryDisk


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk("a")


@pytest.fixture
def node(network: Network, disk: MemoryDisk) -> JournalNode:
    return network.node("a", disk, cache_bytes=10_000)


@pytest.fixture
def writer(node: JournalNode) -> Writer:
    return formatted(node)


@pytest.fixture
def longer(network: Network) -> Writer:
    """Another node, with transactions 1 to 8."""
    writer = formatted(network.node("b"))
    writer.start(1)
    writer.write(1, 1, 8)
    return writer


@pytest.fixture
def peers(network: Network) -> list[MemoryPeer]:
    """Peers: b with 1-3 and 4-6, c with 1-3 and 7-9."""
    for name, last in (("b", 6), ("c", 9)):
        writer = formatted(network.node(name))
        writer.epoch = 4
        writer.segment(1, 3)
        writer.segment(last - 2, last)
    return [MemoryPeer(network, "b"), MemoryPeer(network, "c")]
