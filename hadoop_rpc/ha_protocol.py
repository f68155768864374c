"""HAServiceProtocol: which NameNode of a pair is active; client and server side (HAServiceProtocol.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from hadoop_rpc.proto import ha_service_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.service import CallContext, Method, Service

__all__ = ["HA_PROTOCOL", "HAServiceClient", "HAServiceProtocol", "HAState", "ServiceStatus", "ha_service"]

HA_PROTOCOL: Final = "org.apache.hadoop.ha.HAServiceProtocol"


class HAState(Enum):
    """State of one NameNode (HAServiceStateProto)."""

    INITIALIZING = pb.INITIALIZING
    ACTIVE = pb.ACTIVE
    STANDBY = pb.STANDBY
    OBSERVER = pb.OBSERVER


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """State of a NameNode, and whether it could become active; `reason` says why not."""

    state: HAState
    ready_to_become_active: bool = False
    reason: str = ""


class HAServiceClient(ProtocolClient):
    """Calls HAServiceProtocol at one NameNode; the methods raise `RpcError`, see `RpcClient.call`."""

    protocol = HA_PROTOCOL

    def service_status(self) -> ServiceStatus:
        """State of the NameNode; one without HA answers NoSuchProtocolError or as active."""
        answer = self._rpc.call("getServiceStatus", pb.GetServiceStatusRequestProto(), pb.GetServiceStatusResponseProto)
        return ServiceStatus(HAState(answer.state), answer.readyToBecomeActive, answer.notReadyReason)

    def monitor_health(self) -> None:
        """Raises RemoteError where the NameNode is not well (HealthCheckFailedException)."""
        self._rpc.call("monitorHealth", pb.MonitorHealthRequestProto(), pb.MonitorHealthResponseProto)


class HAServiceProtocol(Protocol):
    """What a NameNode tells of its state; called from many threads."""

    def service_status(self, caller: CallContext) -> ServiceStatus: ...

    def monitor_health(self, caller: CallContext) -> None:
        """Raises RemoteError where it is not well."""


def ha_service(node: HAServiceProtocol) -> Service:
    """HAServiceProtocol as a service of an `RpcServer`."""

    def status(_: pb.GetServiceStatusRequestProto, caller: CallContext) -> pb.GetServiceStatusResponseProto:
        found = node.service_status(caller)
        answer = pb.GetServiceStatusResponseProto(
            state=found.state.value, readyToBecomeActive=found.ready_to_become_active
        )
        if found.reason:
            answer.notReadyReason = found.reason
        return answer

    def health(_: pb.MonitorHealthRequestProto, caller: CallContext) -> pb.MonitorHealthResponseProto:
        node.monitor_health(caller)
        return pb.MonitorHealthResponseProto()

    methods = {
        "getServiceStatus": Method(pb.GetServiceStatusRequestProto, status),
        "monitorHealth": Method(pb.MonitorHealthRequestProto, health),
    }
    return Service(HA_PROTOCOL, methods)
