"""ClientProtocol of a served namespace, which answers reads over RPC as an observer NameNode does.

A call with a state id, which is a transaction id, waits until the node has applied that transaction. Each response
contains the newest state id. A client without a state id may be an application that expects the newest state. At the
address of a NameNode, such a client receives StandbyException, and then calls the active NameNode.

All other calls also receive StandbyException: changes, calls that require DataNodes, and queries of the server's
defaults. These defaults determine how clients write, and whether they move deleted files to the trash. As the only
exception, the service accepts lease renewals by clients without a lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from checkpointer.serving.client_answers import ANSWERS, NamespaceRead, check_request
from checkpointer.serving.live_namespace import LiveNamespace
from engine.live_browser import LiveBrowser
from engine.read_refusals import STANDBY, standby_refusal
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.errors import (
    AccessControlError,
    HealthCheckFailedError,
    RemoteError,
    StandbyError,
    UnsupportedOperationRemoteError,
    remote_error,
)
from hadoop_rpc.ha_protocol import HAState, RequestSource, ServiceStatus, ha_service
from hadoop_rpc.namenode_protocol import NAMENODE_PROTOCOL
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler, Method, Service
from image_tools.namespace_reads import NamespaceReads
from image_tools.permission_checker import ReadRefusedError

_RETRY_ON_ACTIVE: Final = "org.apache.hadoop.ipc.ObserverRetryOnActiveException"
MAX_FRAME: Final = 64 << 10
"""Maximum size of a request in bytes; a read contains a path and a few names."""
MAX_FRAME_OF_NAMENODE: Final = 4 << 20
"""Maximum size at the address of a NameNode, where large requests such as concat must receive StandbyException."""
_RENEWS_ALWAYS: Final = "go-hdfs-"
"""Name prefix of clients that renew leases each second although they have none (github.com/colinmarc/hdfs,
internal/rpc/namenode.go). After StandbyException, such a client avoids the node for 5 s. Other clients renew leases
only while they write.
"""
_NO_NAMENODE: Final = "this node makes checkpoints and answers reads of the namespace; it cannot become active"
_NO_STATE_ID: Final = (
    "this node answers like an observer NameNode, but the request has no state id: the client is not configured with "
    "ObserverReadProxyProvider. Ask the active NameNode, or set checkpointer.namespace.rpc-address here for clients "
    "that accept an older state"
)


def namespace_services(live: LiveNamespace, *, needs_state_id: bool) -> list[Service]:
    """Return the services of an RPC server that answers reads.

    Args:
        needs_state_id: whether to refer clients without a state id to the active NameNode.
    """
    calls = _NamespaceCalls(live, needs_state_id)
    return [
        Service(CLIENT_PROTOCOL.name, _OrRefused(calls.methods())),
        # a Balancer with failover calls every NameNode of the nameservice
        Service(NAMENODE_PROTOCOL.name, _OrRefused({})),
        ha_service(_ObserverState(live)),
    ]


class _OrRefused(Mapping[str, Method]):
    """Mapping of a protocol's methods; methods that are missing refer the client to the active NameNode."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods

    def __getitem__(self, name: str) -> Method:
        return self._methods.get(name) or Method(pb.EmptyProto, _refusing(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


def _refusing(name: str) -> Handler:
    def refused(_: Any, context: CallContext) -> Message:
        raise _for_client(STANDBY, standby_refusal(name), context)

    return refused


def _for_client(java_class: str, message: str, context: CallContext) -> RemoteError:
    """Return an exception that prevents a client that reads from observers from trying another observer."""
    if java_class == STANDBY and context.state_id is not None:
        return remote_error(_RETRY_ON_ACTIVE, message)
    return remote_error(java_class, message)


@dataclass(frozen=True, slots=True)
class _NamespaceCalls:
    """Handlers of read calls."""

    live: LiveNamespace
    needs_state_id: bool

    def methods(self) -> dict[str, Method]:
        found = {name: Method(CLIENT_PROTOCOL.request(name), self._reading(name), may_wait=True) for name in ANSWERS}
        renewal = Method(pb.RenewLeaseRequestProto, self.renew_lease, may_wait=True)
        return {**found, "renewLease": renewal, "getHAServiceState": Method(pb.EmptyProto, self.ha_state)}

    def _reading(self, name: str) -> Handler:
        answer: Callable[[NamespaceRead, Any], Message] = ANSWERS[name]

        def read(request: Any, context: CallContext) -> Message:
            self._check_client(context)
            try:
                check_request(request)
                # looked up before read access to the namespace is acquired, because the lookup of groups may take a
                # long time
                permissions = self.live.permissions(context.user)
                with self.live.reading(max(0, context.state_id or 0), context.waited) as browser:
                    assert isinstance(browser, LiveBrowser)
                    reads = NamespaceReads(browser, permissions)
                    return answer(NamespaceRead(browser, reads), request)
            except ReadRefusedError as refused:
                raise _for_client(refused.java_class, str(refused), context) from refused

        return read

    def _check_client(self, context: CallContext) -> None:
        if context.state_id is None and self.needs_state_id:
            raise StandbyError(_NO_STATE_ID)
        if context.real_user not in ("", context.user):
            problem = f"User: {context.real_user} is not allowed to impersonate {context.user}"
            # the active NameNode may allow the impersonation
            raise _for_client(STANDBY, problem, context) if self.needs_state_id else AccessControlError(problem)

    def renew_lease(self, request: pb.RenewLeaseRequestProto, context: CallContext) -> pb.EmptyProto:
        """Accept lease renewals from clients that renew although they have no lease, as a NameNode does.

        Refuse other renewals, because only a NameNode can renew leases.
        """
        self._check_client(context)
        client = request.clientName
        if not client.startswith(_RENEWS_ALWAYS) or self.live.may_hold_lease(client):
            raise _for_client(STANDBY, standby_refusal("renewLease"), context)
        return pb.EmptyProto()

    def ha_state(self, _: pb.EmptyProto, __: CallContext) -> pb.HAServiceStateResponseProto:
        return pb.HAServiceStateResponseProto(state=_state(self.live).value)


def _state(live: LiveNamespace) -> HAState:
    """Return the state to report; while it is standby, clients of observers do not use this node."""
    return HAState.OBSERVER if live.answers_soon else HAState.STANDBY


@dataclass(frozen=True, slots=True)
class _ObserverState:
    """The HA state of a node that is not a NameNode and that a controller cannot make active (`HAServiceProtocol`)."""

    live: LiveNamespace

    def service_status(self, caller: CallContext) -> ServiceStatus:
        return ServiceStatus(_state(self.live), reason=_NO_NAMENODE)

    def monitor_health(self, caller: CallContext) -> None:
        raise HealthCheckFailedError(_NO_NAMENODE)

    def transition_to_active(self, source: RequestSource, caller: CallContext) -> None:
        raise UnsupportedOperationRemoteError(_NO_NAMENODE)

    def transition_to_standby(self, source: RequestSource, caller: CallContext) -> None:
        raise UnsupportedOperationRemoteError(_NO_NAMENODE)

    def transition_to_observer(self, source: RequestSource, caller: CallContext) -> None:
        raise UnsupportedOperationRemoteError(_NO_NAMENODE)
