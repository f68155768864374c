"""A JournalNode and its peers: missed segments are fetched, a wiped node formats itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import pytest

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import (
    EditsCacheMissError,
    InconsistentStorageError,
    JavaIOError,
    JournalOutOfSyncError,
    NoSuchRpcMethodError,
    NotAuthorizedError,
    RpcConnectionError,
)
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog
from hadoop_rpc.qjournal_protocol import QJournalClient
from hadoop_rpc.qjournal_values import NodeManifest, SegmentState
from journal.quorum.address import NodeAddress
from journal_node.hosted_journal import HostedJournal
from journal_node.node import JournalNode
from journal_node.peers import RpcPeer
from journal_node.segment_files import StoredSegment
from journal_node.self_format import SelfFormatError, format_from_peers, needed_answers
from journal_node.syncer import JournalSyncer, missing_segments
from tests.journal_node.journal_node_support import (
    HEADER,
    JOURNAL,
    NAMESPACE,
    Network,
    Writer,
    batch,
    formatted,
    segment_at,
)
from tests.journal_node.memory_disk import FaultyDisk, Killed, MemoryDisk


@dataclass
class MemoryPeer:
    """A node of a `Network` as its peers see it."""

    network: Network
    name: str
    tells_namespace: bool = True

    @property
    def node(self) -> JournalNode:
        if self.name in self.network.cut:
            raise RpcConnectionError(f"{self.name} cannot be reached")
        return self.network.nodes[self.name]

    def manifest(self, journal_id: str) -> NodeManifest:
        return self.node.get_edit_log_manifest(journal_id, 0, in_progress_ok=False)

    def segment_url(self, journal_id: str, first: int, namespace: StorageInfo, manifest: NodeManifest) -> str:
        assert manifest.from_url == f"memory://{self.name}"
        return segment_at(self.name, first)

    def storage_info(self, journal_id: str) -> StorageInfo:
        if not self.tells_namespace:
            raise NoSuchRpcMethodError("Unknown method getStorageInfo")
        return self.node.get_storage_info(journal_id)

    def promised_epoch(self, journal_id: str) -> int:
        return self.node.get_journal_state(journal_id).last_promised_epoch


@pytest.fixture
def peers(network: Network) -> list[MemoryPeer]:
    """Peers: b with 1-3 and 4-6, c with 1-3 and 7-9."""
    for name, last in (("b", 6), ("c", 9)):
        writer = formatted(network.node(name))
        writer.epoch = 4
        writer.segment(1, 3)
        writer.segment(last - 2, last)
    return [MemoryPeer(network, "b"), MemoryPeer(network, "c")]


def journal_of(network: Network, name: str = "a") -> HostedJournal:
    return network.nodes[name].open_journal(JOURNAL)


def stored(network: Network) -> list[tuple[int, int]]:
    return [(log.first, log.last) for log in MemoryPeer(network, "a").manifest(JOURNAL).manifest.logs]


# ---- sync ----


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


# ---- a node that formats itself ----


@pytest.mark.parametrize(("nodes", "answers"), [(2, 1), (3, 2), (4, 2), (5, 3), (7, 4)])
def test_number_of_peers_that_must_answer(nodes: int, answers: int) -> None:
    majority = nodes // 2 + 1
    assert needed_answers(nodes) == answers
    # Any majority with this node includes majority - 1 of the other nodes, so at least one node of the majority
    # answered.
    assert majority - 1 + answers > nodes - 1


def test_wiped_node_adopts_namespace_and_promises_of_its_peers(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    Writer(network.nodes["c"], epoch=6).begin()
    node = network.node("a", disk)
    format_from_peers(journal_of(network), peers)
    assert node.get_storage_info(JOURNAL) == network.nodes["b"].get_storage_info(JOURNAL)
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 6
    with pytest.raises(JavaIOError, match="last promised epoch 6"):
        Writer(node, epoch=5).heartbeat()
    format_from_peers(journal_of(network), peers)
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 6


def test_self_formatted_node_does_not_vote_before_a_new_segment(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    network.node("a", disk)
    format_from_peers(journal_of(network), peers)
    for _ in range(2):
        writer = Writer(network.node("a", disk), epoch=9)
        calls = (writer.begin, lambda writer=writer: writer.prepare(7))
        for call in calls:
            with pytest.raises(JavaIOError, match="lacks segments begun before"):
                call()
        with pytest.raises(JournalOutOfSyncError):
            writer.end(7, 9)
    writer.accept(7, 9, segment_at("c", 7))
    with pytest.raises(JavaIOError, match="lacks segments"):
        writer.prepare(7)
    writer.start(10)
    writer.write(10, 10, 12)
    again = Writer(network.node("a", disk), epoch=10)
    assert again.begin() == 10
    assert again.prepare(10).segment == SegmentState(10, 12, True)


def test_namenode_may_reformat_a_self_formatted_journal(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    node = network.node("a", disk)
    format_from_peers(journal_of(network), peers)
    writer = formatted(node)
    assert writer.prepare(1).segment is None
    with pytest.raises(InconsistentStorageError):
        formatted(node)


def test_self_format_is_refused_with_too_few_peers(network: Network, disk: MemoryDisk, peers: list[MemoryPeer]) -> None:
    network.node("a", disk)
    network.cut.add("c")
    with pytest.raises(SelfFormatError, match=r"2 of the other JournalNodes must answer, but 1 do: c \(c cannot"):
        format_from_peers(journal_of(network), peers)
    with pytest.raises(SelfFormatError, match="none is configured"):
        format_from_peers(journal_of(network), [])
    assert not disk.files


@pytest.mark.parametrize("call", ["promised_epoch", "storage_info"])
def test_refusals_of_peers_are_reported(
    network: Network, peers: list[MemoryPeer], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(peer: MemoryPeer, journal_id: str) -> int:
        raise NotAuthorizedError("User jn is not authorized for protocol interface a.InterQJournalProtocol: denied")

    monkeypatch.setattr(MemoryPeer, call, refuse)
    network.node("a")
    with pytest.raises(SelfFormatError) as caught:
        format_from_peers(journal_of(network), peers)
    assert "security.interqjournal.service.protocol.acl" in caught.value.hint
    assert "Start the other" not in caught.value.hint


def test_self_format_is_refused_if_peers_lack_the_journal(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    network.node("a", disk)
    network.node("b")
    with pytest.raises(SelfFormatError, match="must answer, but 1 do: b does not have the journal") as caught:
        format_from_peers(journal_of(network), peers)
    assert "b are mounted" in caught.value.hint
    network.node("c")
    with pytest.raises(SelfFormatError, match="formatted on none of b, c"):
        format_from_peers(journal_of(network), peers)
    assert not disk.files


def test_wiped_node_among_its_peers_does_not_count_itself(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    fenced = Writer(network.nodes["c"], epoch=4)
    Writer(network.nodes["b"], epoch=5).begin()
    network.node("a", disk)
    network.cut.add("b")
    with pytest.raises(SelfFormatError, match="b cannot be reached"):
        format_from_peers(journal_of(network), [MemoryPeer(network, "a"), *peers])
    network.cut.clear()
    format_from_peers(journal_of(network), [MemoryPeer(network, "a"), *peers])
    fenced.node = network.nodes["a"]
    with pytest.raises(JavaIOError, match="last promised epoch 5"):
        fenced.start(10)


def test_self_format_is_refused_if_peers_disagree(network: Network, disk: MemoryDisk, peers: list[MemoryPeer]) -> None:
    network.node("a", disk)
    network.nodes["c"].format(JOURNAL, replace(NAMESPACE, cluster_id="CID-other"), force=True)
    with pytest.raises(SelfFormatError, match="belong to several namespaces"):
        format_from_peers(journal_of(network), peers)


def test_older_peers_report_promises_but_no_namespace(
    network: Network, disk: MemoryDisk, peers: list[MemoryPeer]
) -> None:
    node = network.node("a", disk)
    for peer in peers:
        peer.tells_namespace = False
    with pytest.raises(SelfFormatError, match="none of b, c reports its namespace") as caught:
        format_from_peers(journal_of(network), peers)
    assert "--from-namenode" in caught.value.hint
    format_from_peers(journal_of(network), peers, NAMESPACE)
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 4


@pytest.mark.parametrize("after", [False, True])
def test_kill_during_a_self_format_leaves_no_voting_journal(
    network: Network, peers: list[MemoryPeer], after: bool
) -> None:
    for at in count():
        disk = MemoryDisk("a")
        faulty = FaultyDisk(disk, at, Killed, after=after)
        network.node("a", faulty)
        try:
            format_from_peers(journal_of(network), peers)
            break
        except Killed:
            disk.crash()
        network.node("a", disk)
        format_from_peers(journal_of(network), peers)
        node = network.nodes["a"]
        assert node.get_journal_state(JOURNAL).last_promised_epoch == 4
        with pytest.raises(JavaIOError, match="lacks segments"):
            Writer(node, epoch=9).begin()
    assert at > 3


def test_promises_are_read_from_metrics_newer_than_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop's metrics are up to two periods old, and a period of 60 s is common."""
    now = 1000.0
    read_at: list[float] = []

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    def refuse(client: QJournalClient, journal_id: str) -> None:
        raise NotAuthorizedError("denied")

    def promised(*_: object, **__: object) -> int:
        read_at.append(now)
        return 4

    monkeypatch.setattr(QJournalClient, "get_journal_state", refuse)
    monkeypatch.setattr(RpcPeer, "_ask", lambda *_: NodeManifest(EditLogManifest(()), 8480))
    monkeypatch.setattr("journal_node.peers.promised_epoch", promised)
    peer = RpcPeer(NodeAddress("127.0.0.1", 1), user="jn", clock=lambda: now, pause=pause)
    now += 7.0
    for _ in range(2):
        assert peer.promised_epoch(JOURNAL) == 4
    assert read_at == [read_at[0]] * 2
    assert read_at[0] - 1000.0 > 2 * 60.0
