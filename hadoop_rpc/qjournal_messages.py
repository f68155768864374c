"""Conversion between the values of QJournalProtocol and its messages, which store Java ints and longs as unsigned."""

from __future__ import annotations

from hadoop_common.storage_info import JOURNAL_NODE, StorageInfo
from hadoop_rpc.namenode_messages import (
    manifest_message,
    manifest_of,
    namespace_info_of,
    namespace_message,
    signed,
    storage_info_of,
    storage_message,
    unsigned,
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
        epoch=unsigned(request.epoch, 64),
        ipcSerialNumber=unsigned(request.serial, 64),
    )
    if request.committed_txid is not None:
        message.committedTxId = unsigned(request.committed_txid, 64)
    if request.nameservice is not None:
        message.nameServiceId = request.nameservice
    return message


def request_info_of(message: pb.RequestInfoProto) -> RequestInfo:
    committed = signed(message.committedTxId, 64) if message.HasField("committedTxId") else INVALID_TXID
    return RequestInfo(
        journal_id=message.journalId.identifier,
        epoch=signed(message.epoch, 64),
        serial=signed(message.ipcSerialNumber, 64),
        committed_txid=None if committed == INVALID_TXID else committed,
        nameservice=message.nameServiceId if message.HasField("nameServiceId") else None,
    )


def segment_message(segment: SegmentState) -> pb.SegmentStateProto:
    return pb.SegmentStateProto(
        startTxId=unsigned(segment.first, 64), endTxId=unsigned(segment.last, 64), isInProgress=segment.in_progress
    )


def segment_of(message: pb.SegmentStateProto) -> SegmentState:
    return SegmentState(signed(message.startTxId, 64), signed(message.endTxId, 64), message.isInProgress)


def namespace_to_message(namespace: StorageInfo) -> namenode_pb.NamespaceInfoProto:
    return namespace_message(NamespaceInfo(namespace, _UNKNOWN, _UNKNOWN))


def namespace_of(message: namenode_pb.NamespaceInfoProto) -> StorageInfo:
    return namespace_info_of(message).storage_info


def storage_of(message: namenode_pb.StorageInfoProto) -> StorageInfo:
    info = storage_info_of(message)
    return StorageInfo(info.layout_version, info.namespace_id, info.c_time, info.cluster_id, storage_type=JOURNAL_NODE)


def journal_state_message(state: JournalState) -> pb.GetJournalStateResponseProto:
    return pb.GetJournalStateResponseProto(
        lastPromisedEpoch=unsigned(state.last_promised_epoch, 64), httpPort=state.http_port, fromURL=state.from_url
    )


def journal_state_of(message: pb.GetJournalStateResponseProto) -> JournalState:
    url = message.fromURL if message.HasField("fromURL") else None
    return JournalState(signed(message.lastPromisedEpoch, 64), message.httpPort, url)


def node_manifest_message(found: NodeManifest) -> pb.GetEditLogManifestResponseProto:
    return pb.GetEditLogManifestResponseProto(
        manifest=manifest_message(found.manifest), httpPort=found.http_port, fromURL=found.from_url
    )


def node_manifest_of(message: pb.GetEditLogManifestResponseProto) -> NodeManifest:
    url = message.fromURL if message.HasField("fromURL") else None
    return NodeManifest(manifest_of(message.manifest), message.httpPort, url)


def prepared_message(prepared: PreparedRecovery) -> pb.PrepareRecoveryResponseProto:
    message = pb.PrepareRecoveryResponseProto(lastWriterEpoch=unsigned(prepared.last_writer_epoch, 64))
    if prepared.segment is not None:
        message.segmentState.CopyFrom(segment_message(prepared.segment))
    if prepared.accepted_in_epoch is not None:
        message.acceptedInEpoch = unsigned(prepared.accepted_in_epoch, 64)
    if prepared.last_committed_txid is not None:
        message.lastCommittedTxId = unsigned(prepared.last_committed_txid, 64)
    return message


def prepared_of(message: pb.PrepareRecoveryResponseProto) -> PreparedRecovery:
    return PreparedRecovery(
        segment=segment_of(message.segmentState) if message.HasField("segmentState") else None,
        accepted_in_epoch=signed(message.acceptedInEpoch, 64) if message.HasField("acceptedInEpoch") else None,
        last_writer_epoch=signed(message.lastWriterEpoch, 64),
        last_committed_txid=signed(message.lastCommittedTxId, 64) if message.HasField("lastCommittedTxId") else None,
    )


def journaled_edits_message(edits: JournaledEdits) -> pb.GetJournaledEditsResponseProto:
    message = pb.GetJournaledEditsResponseProto(txnCount=edits.count)
    if edits.content:
        message.editLog = edits.content
    return message


def journaled_edits_of(message: pb.GetJournaledEditsResponseProto) -> JournaledEdits:
    return JournaledEdits(message.txnCount, message.editLog)
