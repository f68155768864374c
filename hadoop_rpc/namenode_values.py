"""Values of NamenodeProtocol (NamenodeProtocol.proto, HdfsServer.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.proto import namenode_protocol_pb2 as pb


class NamenodeRole(Enum):
    """Role of a registered node (NamenodeRoleProto)."""

    NAMENODE = pb.NamenodeRegistrationProto.NAMENODE
    BACKUP = pb.NamenodeRegistrationProto.BACKUP
    CHECKPOINT = pb.NamenodeRegistrationProto.CHECKPOINT


class NodeErrorCode(Enum):
    """Error codes of errorReport (NamenodeProtocol)."""

    NOTIFY = 0
    FATAL = 1


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """Namespace and software of a NameNode.

    `state` is ACTIVE, STANDBY or OBSERVER; "" if the release does not report it (before Hadoop 3.0).
    """

    storage_info: StorageInfo
    build_version: str
    software_version: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointSignature:
    """Result of a roll of the edit log: newest image, first transaction id of the new segment, and the namespace."""

    storage_info: StorageInfo
    most_recent_checkpoint_txid: int
    current_segment_txid: int


@dataclass(frozen=True, slots=True)
class RemoteEditLog:
    """A segment at the NameNode with the transaction ids `first` to `last`."""

    first: int
    last: int
    in_progress: bool = False


@dataclass(frozen=True, slots=True)
class EditLogManifest:
    """Consecutive segments; `committed_txid` is None if the release does not report it (before Hadoop 3.0)."""

    logs: tuple[RemoteEditLog, ...]
    committed_txid: int | None = None


@dataclass(frozen=True, slots=True)
class NamenodeRegistration:
    """Registration of a node with another node; addresses are `host:port`."""

    rpc_address: str
    http_address: str
    storage_info: StorageInfo
    role: NamenodeRole


@dataclass(frozen=True, slots=True)
class CheckpointCommand:
    """The response to startCheckpoint; `need_to_return_image` is false if the NameNode writes the image itself."""

    signature: CheckpointSignature
    need_to_return_image: bool
