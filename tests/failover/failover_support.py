"""NameNodes that a test controls, and settings of controllers for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from failover.settings import FailoverSettings
from hadoop_common.configuration import Configuration
from hadoop_rpc.errors import HealthCheckFailedError, RemoteError, ServiceFailedError
from hadoop_rpc.ha_protocol import HAState, RequestSource, ServiceStatus, ha_service
from hadoop_rpc.security import RpcServerSecurity
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext
from namenode_stub.ports import free_port

HERE = "127.0.0.1"
NAMESERVICE = "ns1"
GRACEFUL_MILLISECONDS = 60_000
"""Time limit of a request to stand by, which even a busy machine meets."""
LONGEST_SESSION = 60.0
"""Seconds; on a busy machine, a client may be silent for longer than ZooKeeper's default limit of 20 ticks."""
LONG_SESSIONS = {"maxSessionTimeout": f"{LONGEST_SESSION * 1000:.0f}"}
"""Settings of a ZooKeeper that grants such sessions."""


@dataclass
class FakeNameNode:
    """Responses and actions of a NameNode; a test can change them at any time.

    The NameNode has no namespace, unlike the double of the stub, because a failover controller only changes its state.

    Attributes:
        unwell: the reason that the NameNode reports for bad health.
        refusals: responses to transitions, by state.
        pause: event for which each transition to active waits.
        told: requested states.
    """

    state: HAState = HAState.STANDBY
    unwell: str = ""
    refusals: dict[HAState, RemoteError] = field(default_factory=dict)
    pause: threading.Event | None = None
    reported: list[HAState] = field(default_factory=list)
    port: int = field(default_factory=free_port)
    security: RpcServerSecurity | None = None
    _server: RpcServer | None = None

    def start(self) -> None:
        self._server = RpcServer([ha_service(self)], HERE, self.port, shutdown_timeout=0.1, security=self.security)
        self._server.start()

    def stop(self) -> None:
        """Make the NameNode unreachable."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def service_status(self, caller: CallContext) -> ServiceStatus:
        return ServiceStatus(self.state, ready_to_become_active=True)

    def monitor_health(self, caller: CallContext) -> None:
        if self.unwell:
            raise HealthCheckFailedError(self.unwell)

    def transition_to_active(self, source: RequestSource, caller: CallContext) -> None:
        self._take(HAState.ACTIVE, source)

    def transition_to_standby(self, source: RequestSource, caller: CallContext) -> None:
        self._take(HAState.STANDBY, source)

    def transition_to_observer(self, source: RequestSource, caller: CallContext) -> None:
        self._take(HAState.OBSERVER, source)

    def _take(self, state: HAState, source: RequestSource) -> None:
        assert source is RequestSource.ZKFC
        self.reported.append(state)
        if state in self.refusals:
            raise self.refusals[state]
        if state is HAState.ACTIVE and self.pause is not None and not self.pause.wait(600):
            raise ServiceFailedError("the test never let it continue")
        self.state = state


@contextmanager
def namenode(node: FakeNameNode | None = None) -> Iterator[FakeNameNode]:
    """Run a fake NameNode; yield it."""
    node = node or FakeNameNode()
    node.start()
    try:
        yield node
    finally:
        node.stop()


def properties(ports: Mapping[str, int], own: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return settings of a controller for `own`, one of the NameNodes with RPC servers at these ports."""
    found = {
        "fs.defaultFS": f"hdfs://{NAMESERVICE}",
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(ports),
        "dfs.ha.namenode.id": own,
        "dfs.ha.automatic-failover.enabled": "true",
        "dfs.ha.fencing.methods": "shell(false)",
        "ha.zookeeper.quorum": f"{HERE}:1",
        "checkpointer.zkfc.http-address": f"{HERE}:0",
        "ha.health-monitor.check-interval.ms": "50",
        "ha.health-monitor.connect-retry-interval.ms": "50",
        "ha.health-monitor.sleep-after-disconnect.ms": "50",
        "dfs.ha.zkfc.nn.http.timeout.ms": "0",
        "ha.failover-controller.graceful-fence.rpc-timeout.ms": str(GRACEFUL_MILLISECONDS),
    }
    for name, port in ports.items():
        found[f"dfs.namenode.rpc-address.{NAMESERVICE}.{name}"] = f"{HERE}:{port}"
        found[f"dfs.namenode.http-address.{NAMESERVICE}.{name}"] = f"{HERE}:1"
        found[f"dfs.ha.zkfc.port.{NAMESERVICE}.{name}"] = str(free_port())
    return found | dict(more or {})


def settings_of(values: Mapping[str, str]) -> FailoverSettings:
    return FailoverSettings.from_configuration(Configuration.from_mapping(values, {}))


def settings(
    ports: Mapping[str, int] | None = None, own: str = "nn1", more: Mapping[str, str] | None = None
) -> FailoverSettings:
    """Return settings of a controller for `own`."""
    return settings_of(properties(ports or {"nn1": 1, "nn2": 2}, own, more))
