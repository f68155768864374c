"""HAServiceProtocol: which NameNode of a pair is active; client and server side (HAServiceProtocol.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Protocol, Self

from hadoop_rpc.client import DEFAULT_CONNECT_TIMEOUT, DEFAULT_TIMEOUT, RpcClient
from hadoop_rpc.proto import ha_service_pb2 as pb
from hadoop_rpc.retry import RetryPolicy
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


class HAServiceClient:
    """Calls HAServiceProtocol at one NameNode; the methods raise `RpcError`, see `RpcClient.call`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        user: str,
        timeout: float = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._rpc = RpcClient(
            host, port, HA_PROTOCOL, user=user, timeout=timeout, connect_timeout=connect_timeout, retry=retry
        )

    def service_status(self) -> ServiceStatus:
        """State of the NameNode; one without HA answers NoSuchProtocolError or as active."""
        answer = self._rpc.call("getServiceStatus", pb.GetServiceStatusRequestProto(), pb.GetServiceStatusResponseProto)
        return ServiceStatus(HAState(answer.state), answer.readyToBecomeActive, answer.notReadyReason)

    def monitor_health(self) -> None:
        """Raises RemoteError where the NameNode is not well (HealthCheckFailedException)."""
        self._rpc.call("monitorHealth", pb.MonitorHealthRequestProto(), pb.MonitorHealthResponseProto)

    def close(self) -> None:
        self._rpc.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
