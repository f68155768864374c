"""Conversion between the values of NamenodeProtocol and its messages, which store Java ints and longs as unsigned."""

from __future__ import annotations

from hadoop_common.java_numbers import signed32, signed64, unsigned32, unsigned64
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_values import (
    CheckpointSignature,
    EditLogManifest,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    RemoteEditLog,
)
from hadoop_rpc.proto import namenode_protocol_pb2 as pb


def storage_info_of(message: pb.StorageInfoProto, block_pool_id: str = "") -> StorageInfo:
    return StorageInfo(
        layout_version=signed32(message.layoutVersion),
        namespace_id=signed32(message.namespceID),
        c_time=signed64(message.cTime),
        cluster_id=message.clusterID,
        blockpool_id=block_pool_id,
    )


def storage_message(info: StorageInfo) -> pb.StorageInfoProto:
    return pb.StorageInfoProto(
        layoutVersion=unsigned32(info.layout_version),
        namespceID=unsigned32(info.namespace_id),
        clusterID=info.cluster_id,
        cTime=unsigned64(info.c_time),
    )


def signature_of(message: pb.CheckpointSignatureProto) -> CheckpointSignature:
    return CheckpointSignature(
        storage_info=storage_info_of(message.storageInfo, message.blockPoolId),
        most_recent_checkpoint_txid=signed64(message.mostRecentCheckpointTxId),
        current_segment_txid=signed64(message.curSegmentTxId),
    )


def signature_message(signature: CheckpointSignature) -> pb.CheckpointSignatureProto:
    return pb.CheckpointSignatureProto(
        blockPoolId=signature.storage_info.blockpool_id,
        mostRecentCheckpointTxId=unsigned64(signature.most_recent_checkpoint_txid),
        curSegmentTxId=unsigned64(signature.current_segment_txid),
        storageInfo=storage_message(signature.storage_info),
    )


def registration_of(message: pb.NamenodeRegistrationProto) -> NamenodeRegistration:
    return NamenodeRegistration(
        rpc_address=message.rpcAddress,
        http_address=message.httpAddress,
        storage_info=storage_info_of(message.storageInfo),
        role=NamenodeRole(message.role),
    )


def registration_message(registration: NamenodeRegistration) -> pb.NamenodeRegistrationProto:
    return pb.NamenodeRegistrationProto(
        rpcAddress=registration.rpc_address,
        httpAddress=registration.http_address,
        storageInfo=storage_message(registration.storage_info),
        role=registration.role.value,
    )


def manifest_of(message: pb.RemoteEditLogManifestProto) -> EditLogManifest:
    logs = tuple(
        RemoteEditLog(signed64(log.startTxId), signed64(log.endTxId), log.isInProgress) for log in message.logs
    )
    committed = signed64(message.committedTxnId) if message.HasField("committedTxnId") else None
    return EditLogManifest(logs, committed)


def manifest_message(manifest: EditLogManifest) -> pb.RemoteEditLogManifestProto:
    logs = [
        pb.RemoteEditLogProto(
            startTxId=unsigned64(log.first), endTxId=unsigned64(log.last), isInProgress=log.in_progress
        )
        for log in manifest.logs
    ]
    message = pb.RemoteEditLogManifestProto(logs=logs)
    if manifest.committed_txid is not None:
        message.committedTxnId = unsigned64(manifest.committed_txid)
    return message


def namespace_info_of(message: pb.NamespaceInfoProto) -> NamespaceInfo:
    return NamespaceInfo(
        storage_info=storage_info_of(message.storageInfo, message.blockPoolID),
        build_version=message.buildVersion,
        software_version=message.softwareVersion,
        state=pb.NamespaceInfoProto.State.Name(message.state) if message.HasField("state") else "",
    )


def namespace_message(info: NamespaceInfo) -> pb.NamespaceInfoProto:
    message = pb.NamespaceInfoProto(
        buildVersion=info.build_version,
        unused=0,
        blockPoolID=info.storage_info.blockpool_id,
        storageInfo=storage_message(info.storage_info),
        softwareVersion=info.software_version,
    )
    if info.state:
        message.state = getattr(pb.NamespaceInfoProto, info.state)
    return message
