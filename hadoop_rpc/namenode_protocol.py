"""NamenodeProtocol: what a NameNode tells its checkpointers; client and server side (NamenodeProtocol.proto)."""

from __future__ import annotations

from typing import Final, Protocol

from hadoop_rpc.namenode_messages import (
    manifest_message,
    manifest_of,
    namespace_info_of,
    namespace_message,
    registration_message,
    registration_of,
    signature_message,
    signature_of,
    signed,
    unsigned,
)
from hadoop_rpc.namenode_values import (
    CheckpointCommand,
    CheckpointSignature,
    EditLogManifest,
    ErrorCode,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    RemoteEditLog,
)
from hadoop_rpc.proto import namenode_protocol_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.service import CallContext, Method, Service

__all__ = [
    "NAMENODE_PROTOCOL",
    "CheckpointCommand",
    "CheckpointSignature",
    "EditLogManifest",
    "ErrorCode",
    "NamenodeClient",
    "NamenodeProtocol",
    "NamenodeQuestions",
    "NamenodeRegistration",
    "NamenodeRole",
    "NamespaceInfo",
    "RemoteEditLog",
    "namenode_questions",
    "namenode_service",
]

NAMENODE_PROTOCOL: Final = "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol"

_ACT_SHUTDOWN: Final = 50
_ACT_CHECKPOINT: Final = 51


class NamenodeClient(ProtocolClient):
    """Calls NamenodeProtocol at one NameNode; every method raises `RpcError`, see `RpcClient.call`."""

    protocol = NAMENODE_PROTOCOL

    def transaction_id(self) -> int:
        """The last transaction the NameNode has written."""
        answer = self._rpc.call("getTransactionId", pb.GetTransactionIdRequestProto(), pb.GetTransactionIdResponseProto)
        return signed(answer.txId, 64)

    def most_recent_checkpoint_txid(self) -> int:
        """Txid of the NameNode's newest image."""
        answer = self._rpc.call(
            "getMostRecentCheckpointTxId",
            pb.GetMostRecentCheckpointTxIdRequestProto(),
            pb.GetMostRecentCheckpointTxIdResponseProto,
        )
        return signed(answer.txId, 64)

    def roll_edit_log(self) -> CheckpointSignature:
        """Let the NameNode finalize its segment and begin the next."""
        answer = self._rpc.call("rollEditLog", pb.RollEditLogRequestProto(), pb.RollEditLogResponseProto)
        return signature_of(answer.signature)

    def version_request(self) -> NamespaceInfo:
        """Which namespace it holds, and its release."""
        return namespace_info_of(
            self._rpc.call("versionRequest", pb.VersionRequestProto(), pb.VersionResponseProto).info
        )

    def edit_log_manifest(self, since: int) -> EditLogManifest:
        """The NameNode's finalized segments from the one that begins with txid `since`, or after it, on."""
        answer = self._rpc.call(
            "getEditLogManifest",
            pb.GetEditLogManifestRequestProto(sinceTxId=unsigned(since, 64)),
            pb.GetEditLogManifestResponseProto,
        )
        return manifest_of(answer.manifest)

    def is_upgrade_finalized(self) -> bool:
        """False while the NameNode keeps a `previous` directory to roll back to."""
        request = pb.IsUpgradeFinalizedRequestProto()
        return self._rpc.call("isUpgradeFinalized", request, pb.IsUpgradeFinalizedResponseProto).isUpgradeFinalized

    def is_rolling_upgrade(self) -> bool:
        """Whether a rolling upgrade is in progress; releases before 3.0 answer NoSuchRpcMethodError."""
        request = pb.IsRollingUpgradeRequestProto()
        return self._rpc.call("isRollingUpgrade", request, pb.IsRollingUpgradeResponseProto).isRollingUpgrade

    def register(self, registration: NamenodeRegistration) -> NamenodeRegistration:
        """Become a backup or checkpoint node of this NameNode; returns the NameNode's own registration."""
        request = pb.RegisterRequestProto(registration=registration_message(registration))
        return registration_of(
            self._rpc.call("registerSubordinateNamenode", request, pb.RegisterResponseProto).registration
        )

    def start_checkpoint(self, registration: NamenodeRegistration) -> CheckpointCommand | None:
        """Begin a checkpoint; None where the NameNode does not want one, or wants this node to stop."""
        request = pb.StartCheckpointRequestProto(registration=registration_message(registration))
        answer = self._rpc.call("startCheckpoint", request, pb.StartCheckpointResponseProto, idempotent=False).command
        if answer.action != _ACT_CHECKPOINT or not answer.HasField("checkpointCmd"):
            return None
        command = answer.checkpointCmd
        return CheckpointCommand(signature_of(command.signature), command.needToReturnImage)

    def end_checkpoint(self, registration: NamenodeRegistration, signature: CheckpointSignature) -> None:
        """Tell that the image is uploaded."""
        request = pb.EndCheckpointRequestProto(
            registration=registration_message(registration), signature=signature_message(signature)
        )
        self._rpc.call("endCheckpoint", request, pb.EndCheckpointResponseProto, idempotent=False)

    def error_report(self, registration: NamenodeRegistration, code: ErrorCode, text: str) -> None:
        """Tell a fault of this node; FATAL makes the NameNode forget it."""
        request = pb.ErrorReportRequestProto(
            registration=registration_message(registration), errorCode=code.value, msg=text
        )
        self._rpc.call("errorReport", request, pb.ErrorReportResponseProto)


class NamenodeQuestions(Protocol):
    """What a NameNode answers in any state; methods are called from many threads and raise `RemoteError`s."""

    def transaction_id(self, caller: CallContext) -> int: ...

    def most_recent_checkpoint_txid(self, caller: CallContext) -> int: ...

    def version_request(self, caller: CallContext) -> NamespaceInfo: ...


class NamenodeProtocol(NamenodeQuestions, Protocol):
    """What an active NameNode has to offer; as above."""

    def roll_edit_log(self, caller: CallContext) -> CheckpointSignature: ...

    def edit_log_manifest(self, since: int, caller: CallContext) -> EditLogManifest: ...

    def is_upgrade_finalized(self, caller: CallContext) -> bool: ...

    def is_rolling_upgrade(self, caller: CallContext) -> bool: ...

    def register(self, registration: NamenodeRegistration, caller: CallContext) -> NamenodeRegistration: ...

    def start_checkpoint(self, registration: NamenodeRegistration, caller: CallContext) -> CheckpointCommand | None:
        """None refuses: the node is to stop."""

    def end_checkpoint(
        self, registration: NamenodeRegistration, signature: CheckpointSignature, caller: CallContext
    ) -> None: ...

    def error_report(self, registration: NamenodeRegistration, code: int, text: str, caller: CallContext) -> None: ...


def namenode_questions(node: NamenodeQuestions) -> Service:
    """The part of NamenodeProtocol that a standby serves (OperationCategory.UNCHECKED in NameNodeRpcServer)."""
    methods = {
        "getTransactionId": Method(
            pb.GetTransactionIdRequestProto,
            lambda _, caller: pb.GetTransactionIdResponseProto(txId=unsigned(node.transaction_id(caller), 64)),
        ),
        "getMostRecentCheckpointTxId": Method(
            pb.GetMostRecentCheckpointTxIdRequestProto,
            lambda _, caller: pb.GetMostRecentCheckpointTxIdResponseProto(
                txId=unsigned(node.most_recent_checkpoint_txid(caller), 64)
            ),
        ),
        "versionRequest": Method(
            pb.VersionRequestProto,
            lambda _, caller: pb.VersionResponseProto(info=namespace_message(node.version_request(caller))),
        ),
    }
    return Service(NAMENODE_PROTOCOL, methods)


def namenode_service(node: NamenodeProtocol) -> Service:
    """NamenodeProtocol as a service of an `RpcServer`."""

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

    def end(request: pb.EndCheckpointRequestProto, caller: CallContext) -> pb.EndCheckpointResponseProto:
        node.end_checkpoint(registration_of(request.registration), signature_of(request.signature), caller)
        return pb.EndCheckpointResponseProto()

    def report(request: pb.ErrorReportRequestProto, caller: CallContext) -> pb.ErrorReportResponseProto:
        node.error_report(registration_of(request.registration), request.errorCode, request.msg, caller)
        return pb.ErrorReportResponseProto()

    def register(request: pb.RegisterRequestProto, caller: CallContext) -> pb.RegisterResponseProto:
        own = node.register(registration_of(request.registration), caller)
        return pb.RegisterResponseProto(registration=registration_message(own))

    def manifest(request: pb.GetEditLogManifestRequestProto, caller: CallContext) -> pb.GetEditLogManifestResponseProto:
        found = node.edit_log_manifest(signed(request.sinceTxId, 64), caller)
        return pb.GetEditLogManifestResponseProto(manifest=manifest_message(found))

    methods = {
        **namenode_questions(node).methods,
        "rollEditLog": Method(
            pb.RollEditLogRequestProto,
            lambda _, caller: pb.RollEditLogResponseProto(signature=signature_message(node.roll_edit_log(caller))),
        ),
        "getEditLogManifest": Method(pb.GetEditLogManifestRequestProto, manifest),
        "isUpgradeFinalized": Method(
            pb.IsUpgradeFinalizedRequestProto,
            lambda _, caller: pb.IsUpgradeFinalizedResponseProto(isUpgradeFinalized=node.is_upgrade_finalized(caller)),
        ),
        "isRollingUpgrade": Method(
            pb.IsRollingUpgradeRequestProto,
            lambda _, caller: pb.IsRollingUpgradeResponseProto(isRollingUpgrade=node.is_rolling_upgrade(caller)),
        ),
        "registerSubordinateNamenode": Method(pb.RegisterRequestProto, register),
        "startCheckpoint": Method(pb.StartCheckpointRequestProto, start),
        "endCheckpoint": Method(pb.EndCheckpointRequestProto, end),
        "errorReport": Method(pb.ErrorReportRequestProto, report),
    }
    return Service(NAMENODE_PROTOCOL, methods)
