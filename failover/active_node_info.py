"""What lies in lock and breadcrumb: the NameNode that is active, or was (ActiveNodeInfo of HAZKInfo.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from google.protobuf.message import DecodeError

from hadoop_rpc.proto.active_node_info_pb2 import ActiveNodeInfoProto


@dataclass(frozen=True, slots=True)
class ActiveNodeInfo:
    """A NameNode and its controller.

    Attributes:
        nameservice, namenode: ids of the configuration.
        hostname, port: of its service RPC if that is configured, else of its RPC.
        zkfc_port: of its controller, on the same host.
    """

    nameservice: str
    namenode: str
    hostname: str
    port: int
    zkfc_port: int

    def to_bytes(self) -> bytes:
        """As Hadoop's controllers write it, byte for byte: they tell their own breadcrumb by that."""
        return ActiveNodeInfoProto(
            nameserviceId=self.nameservice,
            namenodeId=self.namenode,
            hostname=self.hostname,
            port=self.port,
            zkfcPort=self.zkfc_port,
        ).SerializeToString(deterministic=True)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises ValueError where `data` is none."""
        try:
            found = ActiveNodeInfoProto.FromString(data)
        except DecodeError:
            found = ActiveNodeInfoProto()
        if not found.IsInitialized():
            raise ValueError(f"{data[:64]!r} is no ActiveNodeInfo")
        return cls(found.nameserviceId, found.namenodeId, found.hostname, found.port, found.zkfcPort)
