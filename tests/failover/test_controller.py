"""Actions of a controller on its NameNode and in the election, for every event."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from failover.active_node_info import ActiveNodeInfo
from failover.election import Election
from failover.health import HealthReport, NameNodeHealth
from failover.status import ControllerFacts, readiness
from failover.transitions import TransitionError
from hadoop_common.errors import HdfsError
from hadoop_common.zookeeper.session import ZooKeeperAddress
from hadoop_rpc.errors import AccessControlError, ServiceFailedError
from hadoop_rpc.ha_protocol import ServiceStatus
from tests.failover.controller_scene import ACTIVE, OBSERVER, STANDBY, Scene, healthy, running_scene
from tests.failover.failover_support import HERE
from tests.namenode_stub.stub_support import wait_until

IMPATIENT = {
    "ha.failover-controller.new-active.rpc-timeout.ms": "100",
    "ha.failover-controller.graceful-fence.rpc-timeout.ms": "500",
}


@pytest.fixture
def scene() -> Iterator[Scene]:
    with running_scene() as made:
        yield made


@pytest.fixture
def impatient() -> Iterator[Scene]:
    """A NameNode whose controller waits only a short time for a response."""
    with running_scene(IMPATIENT) as made:
        yield made


def test_controller_joins_the_election_while_its_namenode_is_healthy(scene: Scene) -> None:
    assert scene.hear(HealthReport()) == []
    assert scene.hear(healthy(), 3) == ["join"]
    assert scene.hear(HealthReport(NameNodeHealth.UNHEALTHY, "no room", ServiceStatus(STANDBY)), 2) == [
        "quit to be fenced"
    ]
    assert scene.hear(healthy()) == ["join"]
    assert scene.hear(HealthReport(NameNodeHealth.NOT_RESPONDING, "refused"), 2) == ["quit to be fenced"]
    assert scene.node.reported == []


def test_joining_the_election_is_retried_after_a_thread_start_failure(scene: Scene) -> None:
    """Joining for the first time starts a thread, and the system may refuse to start another thread at that moment."""
    election = Election(ZooKeeperAddress("127.0.0.1:9"), "/hadoop-ha/ns1", scene.controller)
    scene.controller.begin(election)
    with pytest.MonkeyPatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", lambda _: no_thread())
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                scene.controller.health_reported(healthy())
    assert not scene.controller.facts()["takesPart"]
    scene.controller.health_reported(healthy())
    assert scene.controller.facts()["takesPart"]
    assert election._thread is not None
    election.close()


def no_thread() -> None:
    raise RuntimeError("can't start new thread")


def test_election_results_change_the_state_of_the_namenode(scene: Scene) -> None:
    scene.hear(healthy())
    scene.controller.become_active()
    assert scene.node.state is ACTIVE
    scene.controller.enter_neutral()
    assert scene.node.state is ACTIVE
    scene.election.lock = scene.crumb("nn2")
    scene.controller.become_standby()
    assert scene.node.reported == [ACTIVE, STANDBY]
    assert scene.controller.transitions == {("active", "done"): 1, ("standby", "done"): 1}


def test_an_unhealthy_namenode_is_not_made_active(scene: Scene) -> None:
    scene.hear(HealthReport(NameNodeHealth.UNHEALTHY, "no room", ServiceStatus(STANDBY)))
    with pytest.raises(TransitionError, match="no room"):
        scene.controller.become_active()
    assert scene.node.reported == []


def test_namenode_stays_active_while_its_earlier_lock_exists(scene: Scene) -> None:
    """After a restart within the session's timeout, the active NameNode stays active."""
    scene.node.state = ACTIVE
    scene.hear(healthy(ACTIVE))
    scene.election.lock = scene.controller.data
    scene.controller.become_standby()
    assert scene.node.reported == []
    assert scene.hear(healthy(ACTIVE), 5) == []
    scene.controller.become_active()
    assert scene.node.state is ACTIVE
    # another controller may also acquire the lock, which the election does not report
    scene.controller.become_standby()
    scene.election.lock = scene.crumb("nn2")
    scene.hear(healthy(ACTIVE), 2)
    assert scene.node.reported == [ACTIVE, STANDBY]


def test_own_lock_is_recognized_with_other_host_name_and_port(scene: Scene) -> None:
    """The lock may have been written by Hadoop's controller, or by ours at another port."""
    scene.node.state = ACTIVE
    scene.hear(healthy(ACTIVE))
    scene.election.lock = ActiveNodeInfo("ns1", "nn1", HERE, scene.node.port, 1).to_bytes()
    scene.controller.become_standby()
    scene.hear(healthy(ACTIVE), 3)
    assert scene.node.reported == []
    scene.election.lock = b"no node"
    scene.hear(healthy(ACTIVE))
    assert scene.node.reported == [STANDBY]


def test_lock_owner_is_read_while_other_transitions_are_blocked(scene: Scene) -> None:
    """Otherwise, the controller might acquire the lock after the read, and then make the newly active NameNode a
    standby again.
    """
    changing: list[bool] = []
    scene.election.on_look = lambda: changing.append(scene.controller._changing.locked())
    scene.election.lock = scene.crumb("nn2")
    scene.controller.become_standby()
    assert changing == [True]


def test_external_state_change_makes_the_controller_rejoin_the_election(scene: Scene) -> None:
    scene.hear(healthy())
    scene.controller.become_active()
    assert scene.hear(healthy(STANDBY)) == []
    assert scene.hear(healthy(STANDBY)) == ["quit to be fenced"]
    assert scene.hear(healthy(STANDBY)) == []
    scene.clock.now += 1.1
    assert scene.hear(healthy(STANDBY)) == ["join"]


def test_failed_standby_transition_makes_the_controller_rejoin(scene: Scene) -> None:
    scene.node.refusals[STANDBY] = ServiceFailedError("not now")
    scene.election.lock = scene.crumb("nn2")
    scene.hear(healthy(ACTIVE))
    scene.controller.become_standby()
    assert scene.hear(healthy(ACTIVE), 2) == ["quit to be fenced"]
    scene.clock.now += 1.1
    assert scene.hear(healthy(ACTIVE)) == ["join"]


def test_observer_does_not_join_the_election(scene: Scene) -> None:
    scene.node.state = OBSERVER
    assert scene.hear(healthy(OBSERVER), 3) == []
    scene.controller.cede_active(1000)
    assert scene.node.state is OBSERVER
    with pytest.raises(ServiceFailedError, match="observer"):
        scene.controller.graceful_failover()
    scene.clock.now += 2
    assert scene.hear(healthy(STANDBY)) == ["join"]
    assert scene.hear(healthy(OBSERVER), 3) == ["quit to be fenced"]


def test_observer_does_not_count_as_a_transition_to_standby(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scene.node.state = OBSERVER
    scene.node.refusals[STANDBY] = AccessControlError("denied since the namenode is in Observer state")
    scene.election.lock = scene.crumb("nn2")
    scene.controller.become_standby()
    assert scene.controller.transitions == {}
    assert any("is an observer" in line for line in caplog.messages)
    assert not any("is a standby" in line for line in caplog.messages)


# ---- becoming active ---------------------------------------------------------------------------------------


def test_slow_transition_to_active_is_polled_until_done(impatient: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """In this case, Hadoop's controller releases the lock although the NameNode still becomes active."""
    impatient.node.pause = threading.Event()
    impatient.hear(healthy())
    impatient.election.lock = impatient.controller.data
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(impatient.controller.become_active)
        wait_until("the requests", lambda: len(impatient.node.reported) > 2)
        assert impatient.hear(HealthReport(NameNodeHealth.NOT_RESPONDING, "it is busy"), 2) == []
        assert not done.done()
        impatient.node.pause.set()
        done.result(600)
    assert impatient.node.state is ACTIVE
    assert "has not reported whether it is active" in caplog.text


@pytest.mark.parametrize("stop", ["limit", "lock", "nobody", "silence", "health", "cede"])
def test_slow_transition_to_active_is_abandoned(impatient: Scene, stop: str) -> None:
    """The transition ends when the lock is lost, because the new owner has fenced the NameNode, which must not become
    active.
    """
    impatient.node.pause = threading.Event()
    impatient.hear(healthy())
    impatient.election.lock = impatient.controller.data
    with ThreadPoolExecutor(2) as pool:
        done = pool.submit(impatient.controller.become_active)
        wait_until("the requests", lambda: len(impatient.node.reported) > 1)
        if stop == "limit":
            impatient.clock.now += 601
        elif stop == "lock":
            impatient.election.lock = impatient.crumb("nn2")
        elif stop == "nobody":
            impatient.election.lock = None
        elif stop == "silence":
            impatient.election.away = True
        elif stop == "health":
            assert impatient.hear(HealthReport(NameNodeHealth.UNHEALTHY, "no room", ServiceStatus(STANDBY))) == [
                "quit to be fenced"
            ]
        else:
            pool.submit(impatient.controller.cede_active, 1000)
        with pytest.raises(TransitionError, match="cedes"):
            done.result(600)
        impatient.node.pause.set()
    assert impatient.controller.transitions["active", "failed"] == 1


def test_unreachable_namenode_cannot_be_made_active(scene: Scene) -> None:
    scene.hear(healthy())
    scene.node.stop()
    with pytest.raises(TransitionError, match="cannot be made active"):
        scene.controller.become_active()


def test_namenode_without_automatic_failover_is_reported(scene: Scene) -> None:
    text = "Request from ZK failover controller at 127.0.0.1 denied since automatic HA is not enabled"
    scene.node.refusals = dict.fromkeys((ACTIVE, STANDBY), AccessControlError(text))
    scene.hear(healthy())
    with pytest.raises(TransitionError, match="does not accept failover controllers") as caught:
        scene.controller.become_active()
    assert "dfs.ha.automatic-failover.enabled" in caught.value.hint


# ---- fencing -----------------------------------------------------------------------------------------------


def test_reachable_namenode_is_fenced_by_rpc(scene: Scene) -> None:
    scene.other.state = ACTIVE
    scene.controller.fence_old_active(scene.crumb("nn2"))
    assert scene.other.state is STANDBY
    assert scene.controller.fencings == {("rpc", "done"): 1}


def test_unreachable_namenode_is_fenced_by_the_configured_methods(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.other.stop()
    for _ in range(2):
        with pytest.raises(HdfsError, match="cannot be fenced"):
            scene.controller.fence_old_active(scene.crumb("nn2"))
    outcome = [each for each in caplog.records if "cannot be fenced" in each.message and each.levelname == "ERROR"]
    assert len(outcome) == 1
    facts = scene.controller.facts()
    assert [each["method"] for each in facts["lastFencing"]["tried"]] == ["rpc", "shell(false)"]
    assert scene.controller.fencings == {("rpc", "failed"): 2, ("shell", "failed"): 2}


def test_observer_is_not_fenced(scene: Scene) -> None:
    """An observer refuses requests of controllers (HDFS-14961), but is not active."""
    scene.other.state = OBSERVER
    refusal = "Request from ZK failover controller at 127.0.0.1 denied since the namenode is in Observer state."
    scene.other.refusals[STANDBY] = AccessControlError(refusal)
    scene.controller.fence_old_active(scene.crumb("nn2"))
    (tried,) = scene.controller.facts()["lastFencing"]["tried"]
    assert (tried["method"], tried["worked"], tried["reason"]) == ("rpc", True, "it reports that it is an observer")
    scene.other.state = ACTIVE
    with pytest.raises(HdfsError, match="cannot be fenced"):
        scene.controller.fence_old_active(scene.crumb("nn2"))


def test_own_namenode_is_not_fenced(scene: Scene) -> None:
    """Hadoop compares bytes, and would fence a NameNode that is recorded by its address."""
    target = scene.settings.own
    other_words = ActiveNodeInfo("ns1", "nn1", HERE, target.port, 1).to_bytes()
    assert other_words != scene.crumb("nn1")
    scene.controller.fence_old_active(other_words)
    assert scene.node.reported == []


def test_fencing_error_for_a_breadcrumb_with_an_old_address(scene: Scene) -> None:
    gone = ActiveNodeInfo("ns1", "nn2", "old.invalid", 1, 1).to_bytes()
    with pytest.raises(HdfsError) as caught:
        scene.controller.fence_old_active(gone)
    assert "old.invalid" in caught.value.message
    assert "clear-breadcrumb" in caught.value.hint


# ---- ceding and taking over the active role ----------------------------------------------------------------


def test_cede_active_makes_the_namenode_standby_for_the_requested_time(scene: Scene) -> None:
    scene.hear(healthy())
    scene.controller.become_active()
    scene.election.asked.clear()
    scene.controller.cede_active(10_000)
    assert scene.node.state is STANDBY
    assert scene.election.asked == ["quit"]
    assert scene.hear(healthy(), 3) == []
    with pytest.raises(TransitionError, match="cede"):
        scene.controller.become_active()
    scene.clock.now += 10.1
    assert scene.hear(healthy()) == ["join"]


def test_failed_transition_when_ceding_leaves_the_breadcrumb(scene: Scene) -> None:
    scene.hear(healthy())
    scene.node.refusals[STANDBY] = ServiceFailedError("no")
    scene.election.asked.clear()
    scene.controller.cede_active(10_000)
    assert scene.election.asked == ["quit to be fenced"]


def test_negative_cede_time_ends_the_wait(scene: Scene) -> None:
    scene.hear(healthy())
    scene.controller.cede_active(10_000)
    scene.election.asked.clear()
    scene.controller.cede_active(-1)
    assert scene.election.asked == ["join"]


@pytest.mark.parametrize("called_off", [False, True])
def test_no_transition_to_active_before_the_lock_is_released(scene: Scene, called_off: bool) -> None:
    """Otherwise, the breadcrumb would be removed, and no controller would fence a NameNode whose transition is slow."""
    scene.hear(healthy())
    scene.controller.become_active()
    with ThreadPoolExecutor(1) as pool:

        def late() -> None:
            scene.clock.now += 11
            if called_off:
                pool.submit(scene.controller.cede_active, -1)
            with pytest.raises(TransitionError, match="cede"):
                scene.controller.become_active()

        scene.election.on_quit = late
        scene.election.asked.clear()
        scene.controller.cede_active(10_000)
    assert scene.node.state is STANDBY
    assert scene.election.asked == (["quit", "join"] if called_off else ["quit"])
    scene.clock.now += 10.1
    assert scene.hear(healthy()) == ([] if called_off else ["join"])


def test_stopped_controller_does_not_rejoin_the_election(scene: Scene) -> None:
    scene.hear(healthy())
    scene.controller.end()
    scene.election.asked.clear()
    scene.controller.cede_active(-1)
    scene.controller.cede_active(10_000)
    scene.clock.now += 11
    assert scene.hear(healthy(), 3) == []
    with pytest.raises(TransitionError, match="stopping"):
        scene.controller.become_active()


# ---- reports -----------------------------------------------------------------------------------------------


def facts(scene: Scene, election: str, problem: str = "", doing: str = "") -> ControllerFacts:
    outcome = {"state": election, "problem": problem, "doing": doing}
    return ControllerFacts(scene.controller.facts(), outcome, {}, {}, {}, "1", 0.0)


def test_readiness_in_each_election_state(scene: Scene) -> None:
    assert "not known yet" in readiness(facts(scene, "init")).message
    scene.hear(healthy())
    assert readiness(facts(scene, "standby")).ok
    assert not readiness(facts(scene, "neutral")).ok
    # fencing may take a long time
    assert "has the lock, and fences" in readiness(facts(scene, "standby", doing="fences")).message
    for doing in ("", "reads the breadcrumb", "fences"):
        assert readiness(facts(scene, "standby", "nn2 cannot be fenced", doing)).message == "nn2 cannot be fenced"
    scene.controller.become_active()
    assert readiness(facts(scene, "active")).ok
    scene.controller.fatal("there is no /hadoop-ha/ns1")
    assert "no /hadoop-ha/ns1" in readiness(facts(scene, "init")).message
    scene.controller.become_active()
    assert readiness(facts(scene, "active")).ok
    scene.hear(healthy(OBSERVER))
    assert readiness(facts(scene, "init")).ok
    scene.hear(HealthReport(NameNodeHealth.UNHEALTHY, "no room", ServiceStatus(STANDBY)))
    assert "no room" in readiness(facts(scene, "init")).message
