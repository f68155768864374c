"""A wiped JournalNode formats itself with the namespace and the promises of its peers."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from hadoop_rpc.errors import InconsistentStorageError, JavaIOError, JournalOutOfSyncError, NotAuthorizedError
from hadoop_rpc.namenode_values import EditLogManifest
from hadoop_rpc.qjournal_protocol import QJournalClient
from hadoop_rpc.qjournal_values import NodeManifest, SegmentState
from journal.quorum.address import NodeAddress
from journal_node.peers import RpcPeer
from journal_node.self_format import SelfFormatError, format_from_peers, needed_answers
from tests.journal_node.journal_node_support import (
    JOURNAL,
    NAMESPACE,
    MemoryPeer,
    Network,
    Writer,
    formatted,
    journal_of,
    segment_at,
)
from tests.journal_node.memory_disk import FaultyDisk, Killed, MemoryDisk


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
            with pytest.raises(JavaIOError, match="lacks the earlier segments"):
                call()
        with pytest.raises(JournalOutOfSyncError):
            writer.end(7, 9)
    writer.accept(7, 9, segment_at("c", 7))
    with pytest.raises(JavaIOError, match="lacks the earlier segments"):
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
    with pytest.raises(SelfFormatError, match="not formatted on any of b, c"):
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
        with pytest.raises(JavaIOError, match="lacks the earlier segments"):
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
