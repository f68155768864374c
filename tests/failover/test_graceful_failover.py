"""Graceful failover at a controller: its requests to the controllers of the other NameNodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from failover.health import HealthReport, NameNodeHealth
from hadoop_common.errors import HdfsError
from hadoop_rpc.errors import ServiceFailedError
from hadoop_rpc.server import RpcServer
from hadoop_rpc.zkfc_protocol import zkfc_service
from tests.failover.controller_scene import ACTIVE, Scene, healthy, running_scene
from tests.failover.failover_support import GRACEFUL_MILLISECONDS, HERE, settings

# a controller is asked to cede for twice the timeout of a graceful failover
CEDED_FOR = 2 * GRACEFUL_MILLISECONDS


@pytest.fixture
def scene() -> Iterator[Scene]:
    with running_scene() as made:
        yield made


class Theirs:
    """The controller of another NameNode: it cedes its active role, and then `after` runs."""

    def __init__(self, after: Callable[[], object] = lambda: None) -> None:
        self.asked: list[int] = []
        self._after = after

    def cede_active(self, milliseconds: int) -> None:
        self.asked.append(milliseconds)
        if milliseconds > 0:
            self._after()

    def graceful_failover(self) -> None:
        raise AssertionError


def serving(scene: Scene, theirs: Theirs) -> RpcServer:
    return RpcServer([zkfc_service(theirs)], HERE, scene.settings.others[0].zkfc_port)


def test_graceful_failover_makes_the_namenode_active(scene: Scene) -> None:
    scene.hear(healthy())
    scene.election.lock = scene.crumb("nn2")
    theirs = Theirs(scene.controller.become_active)
    with serving(scene, theirs):
        scene.controller.graceful_failover()
    assert scene.node.state is ACTIVE
    assert theirs.asked == [CEDED_FOR, -1]


def _become_active_ignoring_errors(scene: Scene) -> None:
    with suppress(HdfsError):
        scene.controller.become_active()


def test_graceful_failover_errors(scene: Scene) -> None:
    with pytest.raises(ServiceFailedError, match="not currently healthy"):
        scene.controller.graceful_failover()
    scene.hear(healthy())
    with pytest.raises(ServiceFailedError, match="No other node is currently active"):
        scene.controller.graceful_failover()
    scene.election.lock = scene.controller.data
    scene.controller.graceful_failover()
    scene.election.lock = scene.crumb("nn2")
    with pytest.raises(ServiceFailedError, match="does not cede"):
        scene.controller.graceful_failover()
    scene.node.refusals[ACTIVE] = ServiceFailedError("edits are missing")
    theirs = Theirs(partial(_become_active_ignoring_errors, scene))
    with serving(scene, theirs), pytest.raises(ServiceFailedError, match="edits are missing"):
        scene.controller.graceful_failover()
    theirs = Theirs(
        lambda: scene.controller.health_reported(HealthReport(NameNodeHealth.NOT_RESPONDING, "it went away"))
    )
    with serving(scene, theirs), pytest.raises(ServiceFailedError, match="it went away"):
        scene.controller.graceful_failover()
    assert theirs.asked == [CEDED_FOR, -1]


def test_graceful_failover_asks_all_others_with_the_active_last(scene: Scene) -> None:
    """Hadoop 3 asks in the same order; a standby without a running controller does not prevent the failover."""
    ports = {"nn1": scene.node.port, "nn2": scene.other.port, "nn3": 3, "nn4": 4}
    scene = Scene(scene.node, scene.other, settings(ports))
    scene.hear(healthy())
    scene.election.lock = scene.crumb("nn2")
    active, standby = Theirs(scene.controller.become_active), Theirs()
    order = active.asked = standby.asked
    with serving(scene, active), RpcServer([zkfc_service(standby)], HERE, scene.settings.others[1].zkfc_port):
        scene.controller.graceful_failover()
    assert order == [CEDED_FOR, CEDED_FOR, -1, -1]
    assert scene.node.state is ACTIVE
