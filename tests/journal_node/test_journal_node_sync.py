"""The thread that syncs a journal of a JournalNode with its peers."""

from __future__ import annotations

import threading

import pytest

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RpcConnectionError
from hadoop_rpc.namenode_values import EditLogManifest
from hadoop_rpc.qjournal_values import NodeManifest
from journal_node.node import JournalNode
from journal_node.sync_thread import SyncThread
from tests.journal_node.journal_node_support import JOURNAL, Network, formatted
from tests.journal_node.memory_disk import MemoryDisk


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
