"""Hadoop's JournalNode on folders of our killed JournalNode, and as a peer of our JournalNode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from hadoop_rpc.errors import JournalNotFormattedError, NoSuchProtocolError, NoSuchRpcMethodError
from hadoop_rpc.qjournal_protocol import QJournalClient
from journal.quorum.address import NodeAddress
from journal_node.fetch import HttpFetch
from journal_node.file_disk import below
from journal_node.node import JournalNode as OurNode
from journal_node.peers import RpcPeer
from journal_node.self_format import format_from_peers
from journal_node.syncer import JournalSyncer
from tests.interop.cluster import JournalNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.journal_node.journal_node_cases import CASES, faulty_node, peers
from tests.journal_node.journal_node_support import HEADER, JOURNAL, NAMESPACE, Writer, batch, formatted
from tests.journal_node.memory_disk import Killed, MemoryDisk

pytestmark = pytest.mark.interop


def written_out(disk: MemoryDisk, folder: Path) -> None:
    for name in disk.directories:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, inode in disk.files.items():
        (folder / name).write_bytes(inode.data)


def killed_states(root: Path) -> dict[str, set[int]]:
    """Yield a journal for every step of every case, as a kill leaves it, with the possible ends of segment 11."""
    expected: dict[str, set[int]] = {}
    for number, case in enumerate(CASES.values()):
        for at in count():
            disk, writer, _ = faulty_node(case, peers(), at, Killed, after=False)
            journal_id = f"case{number}-step{at}"
            try:
                case.operation(writer)
                break
            except Killed:
                expected[journal_id] = case.before
                written_out(disk, root / journal_id)
    return expected


def test_hadoops_node_recovers_directories_of_a_killed_node_of_ours(conf: HadoopConf) -> None:
    root = Path(conf["dfs.journalnode.edits.dir"])
    expected = killed_states(root)
    assert len(expected) > 30
    with JournalNode(conf) as node, QJournalClient(*node.rpc_address, user="hdfs", timeout=600.0) as client:
        for journal_id, ends in expected.items():
            writer = Writer(client, epoch=3, journal_id=journal_id)
            assert writer.begin() in (1, 11, None), journal_id
            segment = writer.prepare(11).segment
            assert segment is not None, journal_id
            assert segment.last in ends, journal_id
            writer.accept(11, segment.last)
            writer.end(11, segment.last)
            writer.segment(segment.last + 1, segment.last + 2)


@pytest.fixture
def hadoops_peer(conf: HadoopConf) -> Iterator[RpcPeer]:
    """Run a JournalNode of Hadoop with segments 1-3 and 4-6 in epoch 5, as a peer."""
    with JournalNode(conf) as node, QJournalClient(*node.rpc_address, user="hdfs", timeout=600.0) as client:
        client.format(JOURNAL, NAMESPACE, force=True)
        writer = Writer(client, epoch=5)
        writer.begin()
        writer.segment(1, 3)
        writer.segment(4, 6)
        yield RpcPeer(NodeAddress(*node.rpc_address), user="hdfs")


def test_our_node_syncs_segments_from_hadoops(hadoops_peer: RpcPeer, tmp_path: Path) -> None:
    ours = OurNode(below(tmp_path / "ours"))
    writer = formatted(ours)
    writer.committed = 6
    writer.heartbeat()
    syncer = JournalSyncer(ours.open_journal(JOURNAL), [hadoops_peer], HttpFetch(20.0))
    assert syncer.sync() == 2
    found = tmp_path / "ours" / JOURNAL / "current" / "edits_0000000000000000004-0000000000000000006"
    assert found.read_bytes().rstrip(b"\xff") == HEADER + batch(4, 6)
    ours.close()


def test_hadoops_node_returns_promised_epoch_and_namespace(hadoops_peer: RpcPeer, tmp_path: Path) -> None:
    assert hadoops_peer.promised_epoch(JOURNAL) == 5
    given = None
    if SERVER.journal_tells_namespace:
        # Hadoop's response lacks the block pool
        found = hadoops_peer.storage_info(JOURNAL)
        assert replace(found, blockpool_id=NAMESPACE.blockpool_id, storage_type=NAMESPACE.storage_type) == NAMESPACE
    else:
        given = NAMESPACE
        with pytest.raises(NoSuchRpcMethodError if SERVER.is_3 else NoSuchProtocolError):
            hadoops_peer.storage_info(JOURNAL)
    with pytest.raises(JournalNotFormattedError):
        hadoops_peer.promised_epoch("unknown")
    ours = OurNode(below(tmp_path / "ours"))
    format_from_peers(ours.open_journal(JOURNAL), [hadoops_peer], given)
    assert ours.get_journal_state(JOURNAL).last_promised_epoch == 5
    ours.close()
