"""The content of the lock and the breadcrumb: the current or last active NameNode (ActiveNodeInfo, HAZKInfo.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from google.protobuf.message import DecodeError

from hadoop_rpc.proto.active_node_info_pb2 import ActiveNodeInfoProto


@dataclass(frozen=True, slots=True)
class ActiveNodeInfo:
    """A NameNode and its controller.

    Attributes:
        nameservice, namenode: ids in the configuration.
        hostname, port: service RPC address if it is configured, otherwise the RPC address.
        zkfc_port: port of the NameNode's controller, which runs on the same host.
    """

    nameservice: str
    namenode: str
    hostname: str
    port: int
    zkfc_port: int

    def to_bytes(self) -> bytes:
        """Encode this value as Hadoop's controllers do, because they recognise their breadcrumb by its bytes."""
        return ActiveNodeInfoProto(
            nameserviceId=self.nameservice,
            namenodeId=self.namenode,
            hostname=self.hostname,
            port=self.port,
            zkfcPort=self.zkfc_port,
        ).SerializeToString(deterministic=True)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode the result of `to_bytes`; raise ValueError if `data` is malformed."""
        try:
            found = ActiveNodeInfoProto.FromString(data)
        except DecodeError:
            found = ActiveNodeInfoProto()
        if not found.IsInitialized():
            raise ValueError(f"{data[:64]!r} is not an ActiveNodeInfo")
        return cls(found.nameserviceId, found.namenodeId, found.hostname, found.port, found.zkfcPort)
