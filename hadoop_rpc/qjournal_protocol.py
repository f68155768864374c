"""QJournalProtocol and InterQJournalProtocol: clients of a JournalNode, and its services (QJournalProtocol.proto)."""

from __future__ import annotations

from typing import Any

from hadoop_common.java_numbers import signed64, unsigned64
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client import DEFAULT_CONNECT_TIMEOUT, DEFAULT_TIMEOUT, NO_RETRY
from hadoop_rpc.namenode_messages import storage_message
from hadoop_rpc.proto import qjournal_protocol_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.qjournal_messages import (
    journal_state_of,
    journaled_edits_of,
    namespace_to_message,
    node_manifest_of,
    prepared_of,
    request_info_message,
    segment_message,
    storage_of,
)
from hadoop_rpc.qjournal_service import (
    INTER_QJOURNAL_PROTOCOL,
    QJOURNAL_PROTOCOL,
    inter_qjournal_service,
    qjournal_service,
    right_of,
)
from hadoop_rpc.qjournal_values import (
    JournaledEdits,
    JournalState,
    NodeManifest,
    PreparedRecovery,
    RequestInfo,
    SegmentState,
)

__all__ = [
    "INTER_QJOURNAL_PROTOCOL",
    "QJOURNAL_PROTOCOL",
    "InterQJournalClient",
    "QJournalClient",
    "inter_qjournal_service",
    "qjournal_service",
    "right_of",
]


class _JournalNodeClient(ProtocolClient):
    """Base of JournalNode clients; the client does not retry calls, because the quorum evaluates each failed call.

    Args:
        nameservice: sent with calls without a `RequestInfo`; None omits it, as Hadoop 2 does.
    """

    default_retry = NO_RETRY

    def __init__(
        self,
        host: str,
        port: int,
        *,
        user: str,
        timeout: float = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        nameservice: str | None = None,
    ) -> None:
        super().__init__(host, port, user=user, timeout=timeout, connect_timeout=connect_timeout)
        self._nameservice = nameservice

    def _named(self, journal_id: str) -> dict[str, Any]:
        """Return the fields that identify the journal in a call."""
        return {"jid": pb.JournalIdProto(identifier=journal_id), "nameServiceId": self._nameservice}

    def _manifest(self, method: str, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest:
        request = pb.GetEditLogManifestRequestProto(
            **self._named(journal_id), sinceTxId=unsigned64(since), inProgressOk=in_progress_ok
        )
        return node_manifest_of(self._call(method, request))


class InterQJournalClient(_JournalNodeClient):
    """`InterQJournal` over RPC: queries between JournalNodes of Hadoop 3 or ours."""

    protocol = INTER_QJOURNAL_PROTOCOL

    def get_edit_log_manifest(self, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest:
        """Return the segments that the other node has."""
        return self._manifest("getEditLogManifestFromJournal", journal_id, since, in_progress_ok=in_progress_ok)

    def get_storage_info(self, journal_id: str) -> StorageInfo:
        """Return the namespace of the other node's journal; for a node before Hadoop 3.5, raise
        NoSuchRpcMethodError.
        """
        request = pb.GetStorageInfoRequestProto(**self._named(journal_id))
        return storage_of(self._call("getStorageInfo", request))


class QJournalClient(_JournalNodeClient):
    """`QJournal` over RPC: a JournalNode of Hadoop 2.7 to 3.5, or ours; the interface documents the exceptions."""

    protocol = QJOURNAL_PROTOCOL

    def is_formatted(self, journal_id: str) -> bool:
        request = pb.IsFormattedRequestProto(**self._named(journal_id))
        return bool(self._call("isFormatted", request).isFormatted)

    def format(self, journal_id: str, namespace: StorageInfo, *, force: bool) -> None:
        request = pb.FormatRequestProto(**self._named(journal_id), nsInfo=namespace_to_message(namespace), force=force)
        self._call("format", request)

    def get_journal_state(self, journal_id: str) -> JournalState:
        request = pb.GetJournalStateRequestProto(**self._named(journal_id))
        return journal_state_of(self._call("getJournalState", request))

    def new_epoch(self, journal_id: str, namespace: StorageInfo, epoch: int) -> int | None:
        request = pb.NewEpochRequestProto(
            **self._named(journal_id), nsInfo=namespace_to_message(namespace), epoch=unsigned64(epoch)
        )
        answer = self._call("newEpoch", request)
        return signed64(answer.lastSegmentTxId) if answer.HasField("lastSegmentTxId") else None

    def start_log_segment(self, request: RequestInfo, txid: int, layout_version: int) -> None:
        message = pb.StartLogSegmentRequestProto(
            reqInfo=request_info_message(request), txid=unsigned64(txid), layoutVersion=layout_version
        )
        self._call("startLogSegment", message)

    def journal(self, request: RequestInfo, segment_txid: int, first_txid: int, count: int, records: bytes) -> None:
        message = pb.JournalRequestProto(
            reqInfo=request_info_message(request),
            firstTxnId=unsigned64(first_txid),
            numTxns=count,
            records=records,
            segmentTxnId=unsigned64(segment_txid),
        )
        self._call("journal", message)

    def heartbeat(self, request: RequestInfo) -> None:
        message = pb.HeartbeatRequestProto(reqInfo=request_info_message(request))
        self._call("heartbeat", message)

    def finalize_log_segment(self, request: RequestInfo, first: int, last: int) -> None:
        message = pb.FinalizeLogSegmentRequestProto(
            reqInfo=request_info_message(request), startTxId=unsigned64(first), endTxId=unsigned64(last)
        )
        self._call("finalizeLogSegment", message)

    def purge_logs(self, request: RequestInfo, min_txid_to_keep: int) -> None:
        message = pb.PurgeLogsRequestProto(
            reqInfo=request_info_message(request), minTxIdToKeep=unsigned64(min_txid_to_keep)
        )
        self._call("purgeLogs", message)

    def get_edit_log_manifest(self, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest:
        return self._manifest("getEditLogManifest", journal_id, since, in_progress_ok=in_progress_ok)

    def get_journaled_edits(self, journal_id: str, since: int, max_transactions: int) -> JournaledEdits:
        request = pb.GetJournaledEditsRequestProto(
            **self._named(journal_id), sinceTxId=unsigned64(since), maxTxns=max_transactions
        )
        return journaled_edits_of(self._call("getJournaledEdits", request))

    def prepare_recovery(self, request: RequestInfo, segment_txid: int) -> PreparedRecovery:
        message = pb.PrepareRecoveryRequestProto(
            reqInfo=request_info_message(request), segmentTxId=unsigned64(segment_txid)
        )
        return prepared_of(self._call("prepareRecovery", message))

    def accept_recovery(self, request: RequestInfo, state: SegmentState, from_url: str) -> None:
        message = pb.AcceptRecoveryRequestProto(
            reqInfo=request_info_message(request), stateToAccept=segment_message(state), fromURL=from_url
        )
        self._call("acceptRecovery", message)

    def get_journal_ctime(self, journal_id: str) -> int:
        request = pb.GetJournalCTimeRequestProto(**self._named(journal_id))
        return int(self._call("getJournalCTime", request).resultCTime)

    def do_pre_upgrade(self, journal_id: str) -> None:
        request = pb.DoPreUpgradeRequestProto(jid=pb.JournalIdProto(identifier=journal_id))
        self._call("doPreUpgrade", request)

    def do_upgrade(self, journal_id: str, namespace: StorageInfo) -> None:
        request = pb.DoUpgradeRequestProto(
            jid=pb.JournalIdProto(identifier=journal_id), sInfo=storage_message(namespace)
        )
        self._call("doUpgrade", request)

    def do_finalize(self, journal_id: str) -> None:
        self._call("doFinalize", pb.DoFinalizeRequestProto(**self._named(journal_id)))

    def can_roll_back(
        self, journal_id: str, storage: StorageInfo, previous: StorageInfo, target_layout_version: int
    ) -> bool:
        request = pb.CanRollBackRequestProto(
            **self._named(journal_id),
            storage=storage_message(storage),
            prevStorage=storage_message(previous),
            targetLayoutVersion=target_layout_version,
        )
        return bool(self._call("canRollBack", request).canRollBack)

    def do_rollback(self, journal_id: str) -> None:
        request = pb.DoRollbackRequestProto(
            jid=pb.JournalIdProto(identifier=journal_id), nameserviceId=self._nameservice
        )
        self._call("doRollback", request)

    def discard_segments(self, journal_id: str, first_txid: int) -> None:
        request = pb.DiscardSegmentsRequestProto(**self._named(journal_id), startTxId=unsigned64(first_txid))
        self._call("discardSegments", request)
