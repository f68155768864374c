"""Conversion between the values of QJournalProtocol and its messages, which store Java ints and longs as unsigned."""

from __future__ import annotations

from hadoop_common.java_numbers import signed64, unsigned64
from hadoop_common.storage_info import JOURNAL_NODE, StorageInfo
from hadoop_rpc.namenode_messages import (
    manifest_message,
    manifest_of,
    namespace_info_of,
    namespace_message,
    storage_info_of,
    storage_message,
)
from hadoop_rpc.namenode_values import NamespaceInfo
from hadoop_rpc.proto import namenode_protocol_pb2 as namenode_pb
from hadoop_rpc.proto import qjournal_protocol_pb2 as pb
from hadoop_rpc.qjournal_values import (
    INVALID_TXID,
    JournaledEdits,
    JournalState,
    NodeManifest,
    PreparedRecovery,
    RequestInfo,
    SegmentState,
)

__all__ = [
    "journal_state_message",
    "journal_state_of",
    "journaled_edits_message",
    "journaled_edits_of",
    "namespace_of",
    "namespace_to_message",
    "node_manifest_message",
    "node_manifest_of",
    "prepared_message",
    "prepared_of",
    "request_info_message",
    "request_info_of",
    "segment_message",
    "segment_of",
    "storage_message",
    "storage_of",
]

_UNKNOWN = "Unknown"  # VersionInfo's value for a build without a version


def request_info_message(request: RequestInfo) -> pb.RequestInfoProto:
    message = pb.RequestInfoProto(
        journalId=pb.JournalIdProto(identifier=request.journal_id),
        epoch=unsigned64(request.epoch),
        ipcSerialNumber=unsigned64(request.serial),
    )
    if request.committed_txid is not None:
        message.committedTxId = unsigned64(request.committed_txid)
    if request.nameservice is not None:
        message.nameServiceId = request.nameservice
    return message


def request_info_of(message: pb.RequestInfoProto) -> RequestInfo:
    committed = signed64(message.committedTxId) if message.HasField("committedTxId") else INVALID_TXID
    return RequestInfo(
        journal_id=message.journalId.identifier,
        epoch=signed64(message.epoch),
        serial=signed64(message.ipcSerialNumber),
        committed_txid=None if committed == INVALID_TXID else committed,
        nameservice=message.nameServiceId if message.HasField("nameServiceId") else None,
    )


def segment_message(segment: SegmentState) -> pb.SegmentStateProto:
    return pb.SegmentStateProto(
        startTxId=unsigned64(segment.first), endTxId=unsigned64(segment.last), isInProgress=segment.in_progress
    )


def segment_of(message: pb.SegmentStateProto) -> SegmentState:
    return SegmentState(signed64(message.startTxId), signed64(message.endTxId), message.isInProgress)


def namespace_to_message(namespace: StorageInfo) -> namenode_pb.NamespaceInfoProto:
    return namespace_message(NamespaceInfo(namespace, _UNKNOWN, _UNKNOWN))


def namespace_of(message: namenode_pb.NamespaceInfoProto) -> StorageInfo:
    return namespace_info_of(message).storage_info


def storage_of(message: namenode_pb.StorageInfoProto) -> StorageInfo:
    info = storage_info_of(message)
    return StorageInfo(info.layout_version, info.namespace_id, info.c_time, info.cluster_id, storage_type=JOURNAL_NODE)


def journal_state_message(state: JournalState) -> pb.GetJournalStateResponseProto:
    return pb.GetJournalStateResponseProto(
        lastPromisedEpoch=unsigned64(state.last_promised_epoch), httpPort=state.http_port, fromURL=state.from_url
    )


def journal_state_of(message: pb.GetJournalStateResponseProto) -> JournalState:
    url = message.fromURL if message.HasField("fromURL") else None
    return JournalState(signed64(message.lastPromisedEpoch), message.httpPort, url)


def node_manifest_message(found: NodeManifest) -> pb.GetEditLogManifestResponseProto:
    return pb.GetEditLogManifestResponseProto(
        manifest=manifest_message(found.manifest), httpPort=found.http_port, fromURL=found.from_url
    )


def node_manifest_of(message: pb.GetEditLogManifestResponseProto) -> NodeManifest:
    url = message.fromURL if message.HasField("fromURL") else None
    return NodeManifest(manifest_of(message.manifest), message.httpPort, url)


def prepared_message(prepared: PreparedRecovery) -> pb.PrepareRecoveryResponseProto:
    message = pb.PrepareRecoveryResponseProto(lastWriterEpoch=unsigned64(prepared.last_writer_epoch))
    if prepared.segment is not None:
        message.segmentState.CopyFrom(segment_message(prepared.segment))
    if prepared.accepted_in_epoch is not None:
        message.acceptedInEpoch = unsigned64(prepared.accepted_in_epoch)
    if prepared.last_committed_txid is not None:
        message.lastCommittedTxId = unsigned64(prepared.last_committed_txid)
    return message


def prepared_of(message: pb.PrepareRecoveryResponseProto) -> PreparedRecovery:
    return PreparedRecovery(
        segment=segment_of(message.segmentState) if message.HasField("segmentState") else None,
        accepted_in_epoch=signed64(message.acceptedInEpoch) if message.HasField("acceptedInEpoch") else None,
        last_writer_epoch=signed64(message.lastWriterEpoch),
        last_committed_txid=signed64(message.lastCommittedTxId) if message.HasField("lastCommittedTxId") else None,
    )


def journaled_edits_message(edits: JournaledEdits) -> pb.GetJournaledEditsResponseProto:
    message = pb.GetJournaledEditsResponseProto(txnCount=edits.count)
    if edits.content:
        message.editLog = edits.content
    return message


def journaled_edits_of(message: pb.GetJournaledEditsResponseProto) -> JournaledEdits:
    return JournaledEdits(message.txnCount, message.editLog)
