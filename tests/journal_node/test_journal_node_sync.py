"""Segments that a JournalNode missed are fetched from its peers, by a thread for each journal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import EditsCacheMissError, RpcConnectionError
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog
from hadoop_rpc.qjournal_values import NodeManifest
from journal_node.node import JournalNode
from journal_node.segment_files import StoredSegment
from journal_node.sync_thread import SyncThread
from journal_node.syncer import JournalSyncer, missing_segments
from tests.journal_node.journal_node_support import HEADER, JOURNAL, MemoryPeer, Network, batch, formatted, journal_of
from tests.journal_node.memory_disk import FaultyDisk, Killed, MemoryDisk


def stored(network: Network) -> list[tuple[int, int]]:
    return [(log.first, log.last) for log in MemoryPeer(network, "a").manifest(JOURNAL).manifest.logs]


def test_missed_segments_are_fetched_from_each_peer_in_turn(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    writer = formatted(network.node("a", disk))
    writer.committed = 9
    writer.heartbeat()
    syncer = JournalSyncer(journal_of(network), peers, network.fetch)
    assert [syncer.sync() for _ in range(3)] == [2, 1, 0]
    assert stored(network) == [(1, 3), (4, 6), (7, 9)]
    assert disk.read("current/edits_0000000000000000004-0000000000000000006") == HEADER + batch(4, 6)
    assert disk.names("edits.sync") == []
    journal = journal_of(network)
    assert (journal.highest, journal.lag, journal.counters.segments_synced) == (9, 0, 3)


def test_segments_not_known_as_committed_are_not_fetched(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    writer = formatted(network.node("a", disk))
    syncer = JournalSyncer(journal_of(network), peers[:1], network.fetch)
    assert syncer.sync() == 0
    writer.committed = 5
    writer.heartbeat()
    assert syncer.sync() == 1
    assert stored(network) == [(1, 3)]


def test_open_segment_whose_end_was_missed_is_replaced(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    writer = formatted(node := network.node("a", disk, cache_bytes=10_000))
    writer.segment(1, 3)
    writer.start(4)
    writer.write(4, 4, 5)
    writer.committed = 6
    writer.heartbeat()
    syncer = JournalSyncer(journal_of(network), peers[:1], network.fetch)
    assert syncer.sync() == 0
    writer.start(7)
    assert node.get_journaled_edits(JOURNAL, 4, 9).count == 2
    assert syncer.sync() == 1
    assert stored(network) == [(1, 3), (4, 6)]
    assert disk.exists("current/edits_inprogress_0000000000000000004.stale")
    with pytest.raises(EditsCacheMissError):
        node.get_journaled_edits(JOURNAL, 4, 9)


def test_unformatted_journal_is_not_synced(network: Network, peers: list[MemoryPeer]) -> None:
    network.node("a")
    assert JournalSyncer(journal_of(network), peers, network.fetch).sync() == 0
    assert JournalSyncer(journal_of(network, "b"), [], network.fetch).sync() == 0


def test_failing_peer_is_skipped(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer], caplog: pytest.LogCaptureFixture
) -> None:
    writer = formatted(network.node("a", disk))
    writer.committed = 9
    writer.heartbeat()
    network.cut.add("b")
    syncer = JournalSyncer(journal_of(network), peers, network.fetch)
    assert [syncer.sync(), syncer.sync()] == [0, 2]
    assert "no sync with b: b cannot be reached" in caplog.text


def test_segment_damaged_in_transfer_is_not_stored(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer], caplog: pytest.LogCaptureFixture
) -> None:
    writer = formatted(network.node("a", disk))
    writer.committed = 9
    writer.heartbeat()

    def damaged(url: str, namespace: StorageInfo) -> Iterator[bytes]:
        for chunk in network.fetch(url, namespace):
            yield chunk[:-1]

    assert JournalSyncer(journal_of(network), peers, damaged).sync() == 0
    assert "the fetched file is not segment 1 up to txid 3" in caplog.text
    assert stored(network) == []
    assert disk.names("edits.sync") == []


@pytest.mark.parametrize("after", [False, True])
def test_kill_during_a_sync_leaves_only_complete_segments(
    network: Network, peers: list[MemoryPeer], after: bool
) -> None:
    for at in count():
        disk = MemoryDisk("a")
        writer = formatted(network.node("a", disk))
        writer.committed = 6
        writer.start(4)
        writer.write(4, 4, 5)
        writer.start(10)
        disk.sync("current/committed-txid")
        journal = journal_of(network)
        journal.storage.disk = journal.storage.segments._disk = FaultyDisk(disk, at, Killed, after=after)
        syncer = JournalSyncer(journal, peers[:1], network.fetch)
        try:
            assert syncer.sync() == 2
            break
        except Killed:
            disk.crash()
        network.node("a", disk)
        again = JournalSyncer(journal_of(network), peers[:1], network.fetch)
        again.begin()
        again.sync()
        assert stored(network) == [(1, 3), (4, 6)]
        assert disk.names("edits.sync") == []
    assert at > 5


def test_choice_of_the_segments_to_fetch() -> None:
    own = [StoredSegment(1, 5, ""), StoredSegment(6, None, ""), StoredSegment(30, 40, "")]
    theirs = [RemoteEditLog(1, 5), RemoteEditLog(6, 9), RemoteEditLog(10, 19), RemoteEditLog(20, 31)]
    theirs += [RemoteEditLog(41, 45, True), RemoteEditLog(50, 60)]
    assert missing_segments(own, theirs, committed=55, open_first=None) == theirs[1:3]
    assert missing_segments(own, theirs, committed=18, open_first=None) == theirs[1:2]
    assert missing_segments(own, theirs, committed=60, open_first=6) == [theirs[2], theirs[5]]


class Peer:
    """A peer that raises each of `answers` in turn, and then returns an empty manifest."""

    name = "b"

    def __init__(self, *answers: Exception) -> None:
        self._answers = list(answers)
        self.through = threading.Event()

    def manifest(self, journal_id: str) -> NodeManifest:
        if self._answers:
            raise self._answers.pop(0)
        self.through.set()
        return NodeManifest(EditLogManifest(()), 0)

    def segment_url(self, journal_id: str, first: int, namespace: StorageInfo, manifest: NodeManifest) -> str:
        raise NotImplementedError

    def storage_info(self, journal_id: str) -> StorageInfo:
        raise NotImplementedError

    def promised_epoch(self, journal_id: str) -> int:
        raise NotImplementedError


def test_sync_continues_after_any_fault(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    node = JournalNode(MemoryDisk)
    formatted(node)
    peer = Peer(RpcConnectionError("b is down"), ValueError("what nobody thought of"), RpcConnectionError("b is down"))
    sync = SyncThread(node, JOURNAL, [peer], network.fetch, interval=0.001, may_format=False)
    sync.start()
    assert peer.through.wait(600)
    sync.stop()
    sync.join(600)
    faults = [record for record in caplog.records if record.exc_info]
    assert [record.message for record in faults] == [
        f"{JOURNAL}: a fault of the JournalNode itself; the sync continues"
    ]
    assert not [each for each in threading.enumerate() if each.name == f"sync-{JOURNAL}"]
