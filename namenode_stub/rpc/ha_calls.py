"""HAServiceProtocol: which state this NameNode is in, and its change by hand (NameNodeRpcServer, HAAdmin)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from hadoop_common.errors import HdfsError
from hadoop_rpc.errors import (
    AccessControlError,
    HealthCheckFailedError,
    ServiceFailedError,
    UnsupportedOperationRemoteError,
)
from hadoop_rpc.ha_protocol import HAState, RequestSource, ServiceStatus
from hadoop_rpc.service import CallContext
from namenode_stub.fail_stop import FailStop
from namenode_stub.rpc.gate import Gate

_LOG = logging.getLogger(__name__)


class TakesStates(Protocol):
    """The NameNode, as far as its state goes."""

    @property
    def state(self) -> HAState: ...

    @property
    def not_ready(self) -> str:
        """Why it cannot become active now, "" where it can."""

    def transition_to_active(self) -> None: ...

    def transition_to_standby(self) -> None: ...


class HaCalls:
    """`HAServiceProtocol` of the stub."""

    def __init__(self, node: TakesStates, fail_stop: FailStop, gate: Gate) -> None:
        self._node = node
        self._fail_stop = fail_stop
        self._gate = gate

    def service_status(self, caller: CallContext) -> ServiceStatus:
        self._gate.check_superuser(caller)
        reason = self._node.not_ready
        return ServiceStatus(self._node.state, ready_to_become_active=not reason, reason=reason)

    def monitor_health(self, caller: CallContext) -> None:
        self._gate.check_superuser(caller)
        reason = self._fail_stop.reason
        if reason:
            raise HealthCheckFailedError(reason)

    def transition_to_active(self, source: RequestSource, caller: CallContext) -> None:
        self._change(source, caller, self._node.transition_to_active)

    def transition_to_standby(self, source: RequestSource, caller: CallContext) -> None:
        self._change(source, caller, self._node.transition_to_standby)

    def transition_to_observer(self, source: RequestSource, caller: CallContext) -> None:
        raise UnsupportedOperationRemoteError("this NameNode can be no observer")

    def _change(self, source: RequestSource, caller: CallContext, change: Callable[[], None]) -> None:
        self._gate.check_superuser(caller)
        if source is RequestSource.ZKFC:
            raise AccessControlError("there is no automatic failover here: the state is changed by hand")
        try:
            change()
        except HdfsError as error:
            _LOG.error("%s wanted another state: %s", caller.user, error)
            raise ServiceFailedError(error.message) from error
