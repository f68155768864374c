"""A writer of a single JournalNode, and JournalNodes in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import JavaIOError, NoSuchRpcMethodError, RemoteError, RpcConnectionError
from hadoop_rpc.qjournal_values import NodeManifest, PreparedRecovery, QJournal, RequestInfo, SegmentState
from journal.binary_codec import encode_op
from journal.ops import EndLogSegmentOp, SetGenstampV2Op
from journal_node.disk import JournalDisk
from journal_node.hosted_journal import HostedJournal
from journal_node.node import JournalNode
from tests.journal_node.memory_disk import MemoryDisk

JOURNAL = "j1"
NAMESPACE = StorageInfo(-63, 980837346, 0, "CID-x", "BP-1-127.0.0.1-1")
LAYOUT = -63
OWN = "http://127.0.0.1:8480/getJournal?jid=j1"  # URL of any node of a `Network`
FIRST = "current/edits_inprogress_0000000000000000001"
HEADER = b"\xff\xff\xff\xc1\x00\x00\x00\x00"


def transaction(txid: int) -> bytes:
    op = EndLogSegmentOp()
    op.txid = txid
    return encode_op(op, LAYOUT)


def other_batch(first: int, last: int) -> bytes:
    """Return different transactions with the same txids, as from another writer."""
    ops = (SetGenstampV2Op(genstamp=7, txid=txid) for txid in range(first, last + 1))
    return b"".join(encode_op(op, LAYOUT) for op in ops)


def batch(first: int, last: int) -> bytes:
    """Return transactions `first` to `last` in the form of a segment."""
    return b"".join(map(transaction, range(first, last + 1)))


@dataclass
class Writer:
    """A writer in `epoch` that calls `node` with increasing serial numbers."""

    node: QJournal
    epoch: int = 1
    serial: int = 0
    committed: int | None = None
    journal_id: str = JOURNAL
    url: str = OWN

    def request(self) -> RequestInfo:
        self.serial += 1
        return RequestInfo(self.journal_id, self.epoch, self.serial, self.committed)

    def begin(self) -> int | None:
        return self.node.new_epoch(self.journal_id, NAMESPACE, self.epoch)

    def start(self, txid: int) -> None:
        self.node.start_log_segment(self.request(), txid, LAYOUT)

    def write(self, segment: int, first: int, last: int) -> None:
        self.node.journal(self.request(), segment, first, last - first + 1, batch(first, last))

    def end(self, first: int, last: int) -> None:
        self.node.finalize_log_segment(self.request(), first, last)

    def segment(self, first: int, last: int) -> None:
        """Write a complete finalized segment."""
        self.start(first)
        self.write(first, first, last)
        self.end(first, last)

    def heartbeat(self) -> None:
        self.node.heartbeat(self.request())

    def purge(self, min_txid_to_keep: int) -> None:
        self.node.purge_logs(self.request(), min_txid_to_keep)

    def prepare(self, first: int) -> PreparedRecovery:
        return self.node.prepare_recovery(self.request(), first)

    def accept(self, first: int, last: int, url: str = "", *, in_progress: bool = True) -> None:
        """Make the node accept the copy at `url`, by default the node's own copy."""
        self.node.accept_recovery(self.request(), SegmentState(first, last, in_progress), url or self.url)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the Java class of its refusal."""
    try:
        return call()
    except RemoteError as error:
        return error.class_name


class Network:
    """Nodes in memory by name, which fetch segments from each other at `segment_at(name, first)`."""

    def __init__(self) -> None:
        self.nodes: dict[str, JournalNode] = {}
        self.cut: set[str] = set()

    def node(self, name: str, disk: JournalDisk | None = None, *, cache_bytes: int | None = None) -> JournalNode:
        """Return a node on `disk`, which replaces an earlier node with this name."""
        own = MemoryDisk(name) if disk is None else disk
        node = self.nodes[name] = JournalNode(lambda _: own, fetch=self.fetch, cache_bytes=cache_bytes)
        node.announce(8480, f"memory://{name}")
        return node

    def fetch(self, url: str, namespace: StorageInfo) -> Iterator[bytes]:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        if parts.netloc in self.cut:
            raise JavaIOError(f"{parts.netloc} cannot be reached")
        first = int(query["segmentTxId"][0])
        found = self.nodes[parts.netloc].find_segment(query["jid"][0], first, in_progress_ok=True)
        assert found is not None, url
        with found.content as content:
            yield content.read(found.size)


def segment_at(name: str, first: int) -> str:
    """Return the URL of a segment on a node of a `Network`."""
    return f"memory://{name}/getJournal?jid={JOURNAL}&segmentTxId={first}"


def formatted(node: JournalNode) -> Writer:
    """Format the journal; return a writer in epoch 1."""
    node.format(JOURNAL, NAMESPACE, force=False)
    writer = Writer(node)
    assert writer.begin() is None
    return writer


def logs(node: JournalNode, since: int = 1, *, in_progress_ok: bool = True) -> list[tuple[int, int, bool]]:
    manifest = node.get_edit_log_manifest(JOURNAL, since, in_progress_ok=in_progress_ok).manifest
    return [(log.first, log.last, log.in_progress) for log in manifest.logs]


def node_on(disk: JournalDisk) -> JournalNode:
    """Return a node that does not fetch from other nodes."""
    return JournalNode(lambda _: disk)


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


def journal_of(network: Network, name: str = "a") -> HostedJournal:
    return network.nodes[name].open_journal(JOURNAL)
