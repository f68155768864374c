"""Values of QJournalProtocol, and the protocol as an interface (QJournalProtocol.proto, QJournalProtocol.java)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_values import EditLogManifest

INVALID_TXID = -12345  # HdfsServerConstants.INVALID_TXID


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Information that a writer sends with each call (RequestInfoProto).

    Attributes:
        journal_id: name of the journal.
        epoch: epoch of the writer.
        serial: increases by one with each call of an epoch.
        committed_txid: newest transaction that a majority has stored; None if the writer does not send it.
        nameservice: None in Hadoop 2.
    """

    journal_id: str
    epoch: int
    serial: int
    committed_txid: int | None = None
    nameservice: str | None = None


@dataclass(frozen=True, slots=True)
class SegmentState:
    """Transactions `first` to `last` of a segment (SegmentStateProto)."""

    first: int
    last: int
    in_progress: bool


@dataclass(frozen=True, slots=True)
class JournalState:
    """Response to getJournalState; `from_url` is None in Hadoop 2, where the host of the RPC address serves HTTP."""

    last_promised_epoch: int
    http_port: int
    from_url: str | None = None


@dataclass(frozen=True, slots=True)
class NodeManifest:
    """Segments of a JournalNode, and its HTTP address."""

    manifest: EditLogManifest
    http_port: int
    from_url: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedRecovery:
    """A node's state of a segment to be recovered (PrepareRecoveryResponseProto).

    Attributes:
        segment: None if the node has no transactions of the segment.
        accepted_in_epoch: epoch of an accepted recovery; None if no recovery was accepted, or if the segment is
            finalized.
        last_writer_epoch: epoch of the writer that last began a segment on this node.
        last_committed_txid: newest transaction that this node knows to be committed.
    """

    segment: SegmentState | None
    accepted_in_epoch: int | None
    last_writer_epoch: int
    last_committed_txid: int | None


@dataclass(frozen=True, slots=True)
class JournaledEdits:
    """`count` transactions; `content` is a file header and the transactions' records, or empty if there are no
    transactions.
    """

    count: int
    content: bytes


class QJournal(Protocol):
    """Interface of one JournalNode for a writer or reader of the quorum: over RPC, or in memory in tests.

    Every method raises `RpcError`: `RemoteError` if the node refuses, `RpcConnectionError` if it is unreachable.
    """

    def is_formatted(self, journal_id: str) -> bool: ...

    def format(self, journal_id: str, namespace: StorageInfo, *, force: bool) -> None:
        """Create an empty journal and delete any previous journal. A Hadoop 3 node deletes data only if `force` is
        set.
        """

    def get_journal_state(self, journal_id: str) -> JournalState: ...

    def new_epoch(self, journal_id: str, namespace: StorageInfo, epoch: int) -> int | None:
        """Promise `epoch`; return the first transaction id of the newest segment, or None if the node has no
        segments.
        """

    def start_log_segment(self, request: RequestInfo, txid: int, layout_version: int) -> None: ...

    def journal(self, request: RequestInfo, segment_txid: int, first_txid: int, count: int, records: bytes) -> None:
        """Append `count` transactions from `first_txid` on to the segment that began at `segment_txid`."""

    def heartbeat(self, request: RequestInfo) -> None: ...

    def finalize_log_segment(self, request: RequestInfo, first: int, last: int) -> None: ...

    def purge_logs(self, request: RequestInfo, min_txid_to_keep: int) -> None: ...

    def get_edit_log_manifest(self, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest: ...

    def get_journaled_edits(self, journal_id: str, since: int, max_transactions: int) -> JournaledEdits: ...

    def prepare_recovery(self, request: RequestInfo, segment_txid: int) -> PreparedRecovery: ...

    def accept_recovery(self, request: RequestInfo, state: SegmentState, from_url: str) -> None:
        """Accept `state` as the segment's state; a node with a different copy fetches the segment from `from_url`."""

    def get_journal_ctime(self, journal_id: str) -> int: ...

    def do_pre_upgrade(self, journal_id: str) -> None: ...

    def do_upgrade(self, journal_id: str, namespace: StorageInfo) -> None: ...

    def do_finalize(self, journal_id: str) -> None: ...

    def can_roll_back(
        self, journal_id: str, storage: StorageInfo, previous: StorageInfo, target_layout_version: int
    ) -> bool: ...

    def do_rollback(self, journal_id: str) -> None: ...

    def discard_segments(self, journal_id: str, first_txid: int) -> None: ...


class InterQJournal(Protocol):
    """Queries between JournalNodes (InterQJournalProtocol); the methods raise the same errors as the methods of
    `QJournal`.
    """

    def get_edit_log_manifest(self, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest: ...

    def get_storage_info(self, journal_id: str) -> StorageInfo:
        """Return the content of the journal's VERSION file (since Hadoop 3.5)."""
