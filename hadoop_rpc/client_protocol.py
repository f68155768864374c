"""Client side of ClientProtocol, with the one query that checkpointers need (ClientNamenodeProtocol.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.rpc_protocol import RpcProtocol

CLIENT_PROTOCOL: Final = RpcProtocol(
    "org.apache.hadoop.hdfs.protocol.ClientProtocol", pb.DESCRIPTOR.services_by_name["ClientNamenodeProtocol"]
)

# RollingUpgradeActionProto
_QUERY: Final = 1


@dataclass(frozen=True, slots=True)
class RollingUpgradeInfo:
    """A rolling upgrade; `start_time` is in ms since the epoch, and `finalized` is true once the upgrade is over."""

    start_time: int
    finalized: bool


class ClientProtocolClient(ProtocolClient):
    """Client of ClientProtocol at one NameNode, for superusers.

    Every method raises `RpcError` (see `RpcClient.call`).
    """

    protocol = CLIENT_PROTOCOL

    def rolling_upgrade(self) -> RollingUpgradeInfo | None:
        """Return the NameNode's rolling upgrade, or None if there is none (`dfsadmin -rollingUpgrade query`)."""
        request = pb.RollingUpgradeRequestProto(action=_QUERY)
        answer = self._call("rollingUpgrade", request)
        if not answer.HasField("rollingUpgradeInfo"):
            return None
        info = answer.rollingUpgradeInfo
        finalized = info.status.finalized or info.finalizeTime != 0
        return RollingUpgradeInfo(info.startTime, finalized)
