"""A controller with its NameNode, a recorder in place of the election, and another NameNode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from failover.active_node_info import ActiveNodeInfo
from failover.controller import Controller
from failover.health import HealthReport, NameNodeHealth
from failover.settings import FailoverSettings
from hadoop_common.zookeeper.errors import ZooKeeperError
from hadoop_rpc.ha_protocol import HAState, ServiceStatus
from tests.clock import Clock
from tests.failover.failover_support import FakeNameNode, namenode, settings

ACTIVE, STANDBY, OBSERVER = HAState.ACTIVE, HAState.STANDBY, HAState.OBSERVER


@dataclass
class Elections:
    """A recorder of requests to the election; `lock` is the lock's content; `away` is true while ZooKeeper does not
    answer.

    `on_quit` runs during `quit`, and `on_look` runs during `active_data`.
    """

    lock: bytes | None = None
    away: bool = False
    asked: list[Any] = field(default_factory=list)
    on_quit: Callable[[], object] = lambda: None
    on_look: Callable[[], object] = lambda: None

    def join(self, data: bytes) -> None:
        self.asked.append("join")

    def quit(self, *, need_fence: bool) -> None:
        self.asked.append("quit to be fenced" if need_fence else "quit")
        self.on_quit()

    def active_data(self) -> bytes | None:
        self.on_look()
        if self.away:
            raise ZooKeeperError("ZooKeeper did not answer")
        return self.lock


def healthy(state: HAState = STANDBY) -> HealthReport:
    return HealthReport(NameNodeHealth.HEALTHY, "", ServiceStatus(state, True))


class Scene:
    """The controller of nn1, whose NameNode runs; nn2 is another fake NameNode with the controller `theirs`."""

    def __init__(self, node: FakeNameNode, other: FakeNameNode, given: FailoverSettings) -> None:
        self.node, self.other, self.settings = node, other, given
        self.clock = Clock()
        self.election = Elections()
        self.controller = Controller(given, self.clock)
        self.controller.begin(self.election)

    def hear(self, report: HealthReport, times: int = 1) -> list[Any]:
        """Report the NameNode's health to the controller `times` times; return the requests to the election."""
        self.election.asked.clear()
        for _ in range(times):
            self.controller.health_reported(report)
        return list(self.election.asked)

    def crumb(self, name: str) -> bytes:
        target = self.settings.target_of(name)
        assert target is not None
        return ActiveNodeInfo("ns1", name, target.name, target.port, target.zkfc_port).to_bytes()


@contextmanager
def running_scene(more: Mapping[str, str] | None = None) -> Iterator[Scene]:
    with namenode() as node, namenode() as other:
        yield Scene(node, other, settings({"nn1": node.port, "nn2": other.port}, more=more))
