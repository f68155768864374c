"""HAServiceProtocol: state of this NameNode, and its transitions (NameNode.checkHaStateChange)."""

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
from namenode_stub.refusals import OperationRefusedError
from namenode_stub.rpc.service_switch import ServiceSwitch

_LOG = logging.getLogger(__name__)


class HaNode(Protocol):
    """The HA state of the NameNode."""

    @property
    def state(self) -> HAState: ...

    @property
    def failure(self) -> str:
        """Reason why the node stopped serving; "" if it serves."""

    @property
    def not_ready(self) -> str:
        """Reason why the node cannot become active now; "" if it can."""

    def transition_to_active(self) -> None: ...

    def transition_to_standby(self) -> None: ...


def check_source(source: RequestSource, *, automatic: bool) -> None:
    """Check whether the source of a request may change the state.

    Args:
        automatic: whether failover controllers choose the active NameNode.

    Raises:
        OperationRefusedError: the source is not allowed to change the state.
    """
    if automatic and source is RequestSource.USER:
        raise OperationRefusedError(
            "automatic failover is enabled: the failover controller of this NameNode changes its state",
            hint="Use `hdfs haadmin -failover`, which uses the controllers.",
        )
    if not automatic and source is RequestSource.ZKFC:
        raise OperationRefusedError(
            "a failover controller requested another state, but automatic failover is not enabled on this NameNode",
            hint="Set dfs.ha.automatic-failover.enabled for the NameNode too, which reads it when it starts.",
        )
    if automatic and source is RequestSource.USER_FORCED:
        _LOG.warning("the state is changed manually by force, although automatic failover is enabled")


class HaCalls:
    """`HAServiceProtocol` of the stub; `automatic` as for `check_source`."""

    def __init__(self, node: HaNode, switch: ServiceSwitch, *, automatic: bool) -> None:
        self._node = node
        self._switch = switch
        self._automatic = automatic

    def service_status(self, caller: CallContext) -> ServiceStatus:
        self._switch.check_superuser(caller)
        reason = self._node.not_ready
        return ServiceStatus(self._node.state, ready_to_become_active=not reason, reason=reason)

    def monitor_health(self, caller: CallContext) -> None:
        self._switch.check_superuser(caller)
        reason = self._node.failure
        if reason:
            raise HealthCheckFailedError(reason)

    def transition_to_active(self, source: RequestSource, caller: CallContext) -> None:
        self._change(source, caller, self._node.transition_to_active)

    def transition_to_standby(self, source: RequestSource, caller: CallContext) -> None:
        self._change(source, caller, self._node.transition_to_standby)

    def transition_to_observer(self, source: RequestSource, caller: CallContext) -> None:
        raise UnsupportedOperationRemoteError("this NameNode cannot be an observer")

    def _change(self, source: RequestSource, caller: CallContext, change: Callable[[], None]) -> None:
        self._switch.check_superuser(caller)
        try:
            check_source(source, automatic=self._automatic)
        except OperationRefusedError as refusal:
            raise AccessControlError(refusal.message) from refusal
        try:
            change()
        except HdfsError as error:
            _LOG.error("the state change requested by %s failed: %s", caller.user, error)
            raise ServiceFailedError(error.message) from error
