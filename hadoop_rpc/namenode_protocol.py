"""NamenodeProtocol, between a NameNode and its checkpointers; client and server side (NamenodeProtocol.proto)."""

from __future__ import annotations

from typing import Final, Protocol

from hadoop_common.java_numbers import signed64, unsigned64
from hadoop_rpc.namenode_messages import (
    manifest_message,
    manifest_of,
    namespace_info_of,
    namespace_message,
    registration_message,
    registration_of,
    signature_message,
    signature_of,
)
from hadoop_rpc.namenode_values import (
    CheckpointCommand,
    CheckpointSignature,
    EditLogManifest,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    NodeErrorCode,
    RemoteEditLog,
)
from hadoop_rpc.proto import namenode_protocol_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.rpc_protocol import MethodHandler, RpcProtocol
from hadoop_rpc.service import CallContext, Service

__all__ = [
    "NAMENODE_PROTOCOL",
    "CheckpointCommand",
    "CheckpointSignature",
    "EditLogManifest",
    "NamenodeClient",
    "NamenodeProtocol",
    "NamenodeQueries",
    "NamenodeRegistration",
    "NamenodeRole",
    "NamespaceInfo",
    "NodeErrorCode",
    "RemoteEditLog",
    "namenode_queries",
    "namenode_service",
]

NAMENODE_PROTOCOL: Final = RpcProtocol(
    "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol", pb.DESCRIPTOR.services_by_name["NamenodeProtocolService"]
)

_ACT_SHUTDOWN: Final = 50
_ACT_CHECKPOINT: Final = 51


class NamenodeClient(ProtocolClient):
    """Client of NamenodeProtocol at one NameNode; every method raises `RpcError` (see `RpcClient.call`)."""

    protocol = NAMENODE_PROTOCOL

    def transaction_id(self) -> int:
        answer = self._call("getTransactionId", pb.GetTransactionIdRequestProto())
        return signed64(answer.txId)

    def most_recent_checkpoint_txid(self) -> int:
        """Return the transaction id of the NameNode's newest image."""
        answer = self._call("getMostRecentCheckpointTxId", pb.GetMostRecentCheckpointTxIdRequestProto())
        return signed64(answer.txId)

    def roll_edit_log(self) -> CheckpointSignature:
        """Make the NameNode finalize its segment and begin the next segment."""
        answer = self._call("rollEditLog", pb.RollEditLogRequestProto())
        return signature_of(answer.signature)

    def version_request(self) -> NamespaceInfo:
        """Return the NameNode's namespace and release."""
        return namespace_info_of(self._call("versionRequest", pb.VersionRequestProto()).info)

    def edit_log_manifest(self, since: int) -> EditLogManifest:
        """Return the finalized segments that begin at transaction id `since` or later."""
        answer = self._call("getEditLogManifest", pb.GetEditLogManifestRequestProto(sinceTxId=unsigned64(since)))
        return manifest_of(answer.manifest)

    def is_upgrade_finalized(self) -> bool:
        """Return False while the NameNode keeps a `previous` directory, to which an operator can roll back."""
        request = pb.IsUpgradeFinalizedRequestProto()
        return bool(self._call("isUpgradeFinalized", request).isUpgradeFinalized)

    def is_rolling_upgrade(self) -> bool:
        """Return whether a rolling upgrade is in progress; for Hadoop releases before 3.0, raise
        NoSuchRpcMethodError.
        """
        request = pb.IsRollingUpgradeRequestProto()
        return bool(self._call("isRollingUpgrade", request).isRollingUpgrade)

    def register(self, registration: NamenodeRegistration) -> NamenodeRegistration:
        """Register as a backup or checkpoint node of this NameNode; return the NameNode's registration."""
        request = pb.RegisterRequestProto(registration=registration_message(registration))
        return registration_of(self._call("registerSubordinateNamenode", request).registration)

    def start_checkpoint(self, registration: NamenodeRegistration) -> CheckpointCommand | None:
        """Begin a checkpoint; return None if the NameNode does not need a checkpoint, or orders this node to stop."""
        request = pb.StartCheckpointRequestProto(registration=registration_message(registration))
        answer = self._call("startCheckpoint", request, idempotent=False).command
        if answer.action != _ACT_CHECKPOINT or not answer.HasField("checkpointCmd"):
            return None
        command = answer.checkpointCmd
        return CheckpointCommand(signature_of(command.signature), command.needToReturnImage)

    def end_checkpoint(self, registration: NamenodeRegistration, signature: CheckpointSignature) -> None:
        """Report that the image is uploaded."""
        request = pb.EndCheckpointRequestProto(
            registration=registration_message(registration), signature=signature_message(signature)
        )
        self._call("endCheckpoint", request, idempotent=False)

    def error_report(self, registration: NamenodeRegistration, code: NodeErrorCode, text: str) -> None:
        """Report a fault of this node; FATAL makes the NameNode remove the node's registration."""
        request = pb.ErrorReportRequestProto(
            registration=registration_message(registration), errorCode=code.value, msg=text
        )
        self._call("errorReport", request)


class NamenodeQueries(Protocol):
    """The queries that a NameNode answers in any state. Many threads call the methods, which raise `RemoteError`."""

    def transaction_id(self, caller: CallContext) -> int: ...

    def most_recent_checkpoint_txid(self, caller: CallContext) -> int: ...

    def version_request(self, caller: CallContext) -> NamespaceInfo: ...


class NamenodeProtocol(NamenodeQueries, Protocol):
    """The queries, and the methods that only an active NameNode serves."""

    def roll_edit_log(self, caller: CallContext) -> CheckpointSignature: ...

    def edit_log_manifest(self, since: int, caller: CallContext) -> EditLogManifest: ...

    def is_upgrade_finalized(self, caller: CallContext) -> bool: ...

    def is_rolling_upgrade(self, caller: CallContext) -> bool: ...

    def register(self, registration: NamenodeRegistration, caller: CallContext) -> NamenodeRegistration: ...

    def start_checkpoint(self, registration: NamenodeRegistration, caller: CallContext) -> CheckpointCommand | None:
        """Begin a checkpoint; return None to make the node stop."""

    def end_checkpoint(
        self, registration: NamenodeRegistration, signature: CheckpointSignature, caller: CallContext
    ) -> None: ...

    def error_report(self, registration: NamenodeRegistration, code: int, text: str, caller: CallContext) -> None: ...


def namenode_queries(node: NamenodeQueries) -> Service:
    """Return the part of NamenodeProtocol that a standby serves (OperationCategory.UNCHECKED in NameNodeRpcServer)."""
    return NAMENODE_PROTOCOL.served_by(_queries(node))


def _queries(node: NamenodeQueries) -> dict[str, MethodHandler]:
    return {
        "getTransactionId": lambda _, caller: pb.GetTransactionIdResponseProto(
            txId=unsigned64(node.transaction_id(caller))
        ),
        "getMostRecentCheckpointTxId": lambda _, caller: pb.GetMostRecentCheckpointTxIdResponseProto(
            txId=unsigned64(node.most_recent_checkpoint_txid(caller))
        ),
        "versionRequest": lambda _, caller: pb.VersionResponseProto(
            info=namespace_message(node.version_request(caller))
        ),
    }


def namenode_service(node: NamenodeProtocol) -> Service:
    def start(request: pb.StartCheckpointRequestProto, caller: CallContext) -> pb.StartCheckpointResponseProto:
        command = node.start_checkpoint(registration_of(request.registration), caller)
        if command is None:
            answer = pb.NamenodeCommandProto(action=_ACT_SHUTDOWN, type=pb.NamenodeCommandProto.NamenodeCommand)
            return pb.StartCheckpointResponseProto(command=answer)
        answer = pb.NamenodeCommandProto(
            action=_ACT_CHECKPOINT,
            type=pb.NamenodeCommandProto.CheckPointCommand,
            checkpointCmd=pb.CheckpointCommandProto(
                signature=signature_message(command.signature), needToReturnImage=command.need_to_return_image
            ),
        )
        return pb.StartCheckpointResponseProto(command=answer)

    def end(request: pb.EndCheckpointRequestProto, caller: CallContext) -> None:
        node.end_checkpoint(registration_of(request.registration), signature_of(request.signature), caller)

    def report(request: pb.ErrorReportRequestProto, caller: CallContext) -> None:
        node.error_report(registration_of(request.registration), request.errorCode, request.msg, caller)

    def register(request: pb.RegisterRequestProto, caller: CallContext) -> pb.RegisterResponseProto:
        own = node.register(registration_of(request.registration), caller)
        return pb.RegisterResponseProto(registration=registration_message(own))

    def manifest(request: pb.GetEditLogManifestRequestProto, caller: CallContext) -> pb.GetEditLogManifestResponseProto:
        found = node.edit_log_manifest(signed64(request.sinceTxId), caller)
        return pb.GetEditLogManifestResponseProto(manifest=manifest_message(found))

    methods: dict[str, MethodHandler] = {
        **_queries(node),
        "rollEditLog": lambda _, caller: pb.RollEditLogResponseProto(
            signature=signature_message(node.roll_edit_log(caller))
        ),
        "getEditLogManifest": manifest,
        "isUpgradeFinalized": lambda _, caller: pb.IsUpgradeFinalizedResponseProto(
            isUpgradeFinalized=node.is_upgrade_finalized(caller)
        ),
        "isRollingUpgrade": lambda _, caller: pb.IsRollingUpgradeResponseProto(
            isRollingUpgrade=node.is_rolling_upgrade(caller)
        ),
        "registerSubordinateNamenode": register,
        "startCheckpoint": start,
        "endCheckpoint": end,
        "errorReport": report,
    }
    return NAMENODE_PROTOCOL.served_by(methods)
