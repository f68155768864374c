"""HAServiceProtocol, which controls the active NameNode of a pair; client and server side (HAServiceProtocol.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from hadoop_rpc.proto import ha_service_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.rpc_protocol import MethodHandler, RpcProtocol
from hadoop_rpc.service import CallContext, Service

HA_PROTOCOL: Final = RpcProtocol(
    "org.apache.hadoop.ha.HAServiceProtocol", pb.DESCRIPTOR.services_by_name["HAServiceProtocolService"]
)


class HAState(Enum):
    """State of a NameNode (HAServiceStateProto)."""

    INITIALIZING = pb.INITIALIZING
    ACTIVE = pb.ACTIVE
    STANDBY = pb.STANDBY
    OBSERVER = pb.OBSERVER


class RequestSource(Enum):
    """Originator of a state change (HARequestSource)."""

    USER = pb.REQUEST_BY_USER
    USER_FORCED = pb.REQUEST_BY_USER_FORCED
    ZKFC = pb.REQUEST_BY_ZKFC


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """State of a NameNode, and whether it could become active; `reason` explains why not."""

    state: HAState
    ready_to_become_active: bool = False
    reason: str = ""


class HAServiceClient(ProtocolClient):
    """Client of HAServiceProtocol at one NameNode; the methods raise `RpcError` (see `RpcClient.call`)."""

    protocol = HA_PROTOCOL

    def service_status(self) -> ServiceStatus:
        """Return the state of the NameNode; without HA, the call raises NoSuchProtocolError or returns active."""
        answer = self._call("getServiceStatus", pb.GetServiceStatusRequestProto())
        return ServiceStatus(HAState(answer.state), answer.readyToBecomeActive, answer.notReadyReason)

    def monitor_health(self) -> None:
        """Check the NameNode's health; raise RemoteError if the NameNode is unhealthy (HealthCheckFailedException)."""
        self._call("monitorHealth", pb.MonitorHealthRequestProto())

    def transition_to_active(self, source: RequestSource = RequestSource.USER) -> None:
        """Make the NameNode active, unless it is already active; raise RemoteError on failure."""
        request = pb.TransitionToActiveRequestProto(reqInfo=_request_info(source))
        self._call("transitionToActive", request)

    def transition_to_standby(self, source: RequestSource = RequestSource.USER) -> None:
        """Make the NameNode a standby, unless it is already a standby; raise RemoteError on failure."""
        request = pb.TransitionToStandbyRequestProto(reqInfo=_request_info(source))
        self._call("transitionToStandby", request)

    def transition_to_observer(self, source: RequestSource = RequestSource.USER) -> None:
        """Make a standby an observer; raise RemoteError on failure, or if the NameNode's release has no observers."""
        self._call("transitionToObserver", pb.TransitionToObserverRequestProto(reqInfo=_request_info(source)))


class HAServiceProtocol(Protocol):
    """A NameNode as a server of HAServiceProtocol; called from many threads."""

    def service_status(self, caller: CallContext) -> ServiceStatus: ...

    def monitor_health(self, caller: CallContext) -> None:
        """Raise RemoteError if the NameNode is unhealthy."""

    def transition_to_active(self, source: RequestSource, caller: CallContext) -> None: ...

    def transition_to_standby(self, source: RequestSource, caller: CallContext) -> None: ...

    def transition_to_observer(self, source: RequestSource, caller: CallContext) -> None: ...


def ha_service(node: HAServiceProtocol) -> Service:
    def status(_: pb.GetServiceStatusRequestProto, caller: CallContext) -> pb.GetServiceStatusResponseProto:
        found = node.service_status(caller)
        answer = pb.GetServiceStatusResponseProto(
            state=found.state.value, readyToBecomeActive=found.ready_to_become_active
        )
        if found.reason:
            answer.notReadyReason = found.reason
        return answer

    def health(_: pb.MonitorHealthRequestProto, caller: CallContext) -> None:
        node.monitor_health(caller)

    def activate(request: pb.TransitionToActiveRequestProto, caller: CallContext) -> None:
        node.transition_to_active(RequestSource(request.reqInfo.reqSource), caller)

    def stand_by(request: pb.TransitionToStandbyRequestProto, caller: CallContext) -> None:
        node.transition_to_standby(RequestSource(request.reqInfo.reqSource), caller)

    def observe(request: pb.TransitionToObserverRequestProto, caller: CallContext) -> None:
        node.transition_to_observer(RequestSource(request.reqInfo.reqSource), caller)

    methods: dict[str, MethodHandler] = {
        "getServiceStatus": status,
        "monitorHealth": health,
        "transitionToActive": activate,
        "transitionToStandby": stand_by,
        "transitionToObserver": observe,
    }
    return HA_PROTOCOL.served_by(methods)


def _request_info(source: RequestSource) -> pb.HAStateChangeRequestInfoProto:
    return pb.HAStateChangeRequestInfoProto(reqSource=source.value)
