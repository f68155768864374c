"""Controllers on a real ZooKeeper, with NameNodes that a test controls: the cases of TestZKFailoverController."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial

import pytest
import requests
from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from failover.active_node_info import ActiveNodeInfo
from failover.election import BREADCRUMB, LOCK
from failover.errors import NotFormattedError, SecondControllerError
from failover.server import FailoverServer
from failover.watching import watching
from hadoop_rpc.errors import AccessControlError, ServiceFailedError
from namenode_stub.demo_zookeeper import ZooKeeperServer
from tests.depth import SEED, scaled
from tests.failover.controller_pair import ACTIVE, OBSERVER, STANDBY, Pair
from tests.failover.failover_support import LONGEST_SESSION, NAMESERVICE


@pytest.fixture
def pair(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, zookeeper, request.node.name)


@pytest.fixture
def three(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, zookeeper, request.node.name, ("nn1", "nn2", "nn3"))


# ---- automatic failover --------------------------------------------------------------------------------------


def test_failover_from_an_unhealthy_namenode_to_a_healthy_one_only(pair: Pair) -> None:
    pair.both()
    pair.unwell("nn2", "no room")
    pair.unwell("nn1", "no room")
    pair.until(lambda: not pair.named(LOCK), "nobody to have the lock")
    assert pair.nodes["nn2"].state is STANDBY
    pair.unwell("nn2", "")
    pair.becomes("nn2", ACTIVE)
    pair.has_lock("nn2")
    # nn1 still answers, so nn2's controller asks nn1 to stand down; forced fencing would run the `false` command
    assert pair.nodes["nn1"].state is STANDBY
    pair.unwell("nn1", "")
    pair.until(lambda: pair.election("nn1") == "standby", "nn1 to stand by")


@pytest.mark.deep
def test_external_state_change_causes_a_failover(pair: Pair) -> None:
    pair.both()
    pair.nodes["nn1"].state = STANDBY
    pair.becomes("nn2", ACTIVE)
    pair.has_lock("nn2")
    pair.until(lambda: pair.election("nn1") == "standby", "nn1 to stand by")


def test_expired_session_leaves_exactly_one_active(pair: Pair) -> None:
    pair.both()
    assert pair.expire("nn1")
    # then only the faster controller has the lock
    pair.until(lambda: pair.named(LOCK) != "" and len(pair.active()) == 1, "one active")


@pytest.mark.deep
def test_namenode_that_cannot_become_active_releases_the_lock(pair: Pair) -> None:
    pair.both()
    pair.nodes["nn2"].refusals[ACTIVE] = ServiceFailedError("edits are missing")
    pair.unwell("nn1", "no room")
    pair.until(lambda: pair.servers["nn2"].controller.transitions["active", "failed"] > 0, "nn2 to fail")
    assert "edits are missing" in pair.servers["nn2"].ready().message
    pair.unwell("nn1", "")
    pair.becomes("nn1", ACTIVE)
    pair.unwell("nn1", "no room")
    pair.nodes["nn2"].refusals.clear()
    pair.becomes("nn2", ACTIVE)


def test_no_failover_while_the_old_active_cannot_be_fenced(pair: Pair) -> None:
    pair.both()
    pair.nodes["nn1"].refusals[STANDBY] = ServiceFailedError("no")
    pair.unwell("nn1", "no room")
    server = pair.servers["nn2"]
    pair.until(lambda: server.controller.fencings["shell", "failed"] > 1, "two tries")
    assert pair.nodes["nn2"].state is STANDBY
    found = requests.get(f"{server.url}/metrics", timeout=600).text
    assert "hdfs_zkfc_fencing_failing 1.0" in found
    assert 'hdfs_zkfc_fencings_total{method="rpc",result="failed"}' in found

    def ready() -> requests.Response:
        return requests.get(f"{server.url}/health/ready", timeout=600)

    # the message also remains during a retry
    assert "cannot be fenced" in ready().json()["message"]
    assert ready().status_code == requests.codes.service_unavailable
    pair.nodes["nn1"].refusals.clear()
    pair.becomes("nn2", ACTIVE)
    pair.until(lambda: server.ready().ok, "nn2's controller to be ready")
    assert "hdfs_zkfc_fencing_failing 0.0" in requests.get(f"{server.url}/metrics", timeout=600).text


def test_stopped_namenode_is_fenced_by_the_configured_methods(pair: Pair) -> None:
    pair._values["dfs.ha.fencing.methods"] = "shell(test $target_namenodeid = nn1)"
    pair.both()
    pair.nodes["nn1"].stop()
    pair.becomes("nn2", ACTIVE)
    assert pair.servers["nn2"].controller.fencings["shell", "done"] == 1


def test_namenode_stays_active_when_its_controller_restarts(pair: Pair) -> None:
    """The NameNode stays active if its controller restarts within the session timeout."""
    own = pair.settings("nn1").own
    before = KazooClient(pair.settings("nn1").zookeeper.hosts, timeout=LONGEST_SESSION)
    before.start(timeout=600)
    data = ActiveNodeInfo(NAMESERVICE, "nn1", own.name, own.port, own.zkfc_port).to_bytes()
    before.create(f"{pair.znode}/{LOCK}", data, ephemeral=True)
    before.create(f"{pair.znode}/{BREADCRUMB}", data)
    pair.nodes["nn1"].state = ACTIVE
    pair.start("nn1")
    pair.until(lambda: pair.election("nn1") == "standby", "nn1's new controller to wait")
    # the new controller soon recognises the owner of the lock
    pair.until(
        lambda: pair.servers["nn1"].controller.state.now.predecessor, "nn1's new controller to know the old session"
    )
    before.stop()
    before.close()
    pair.until(lambda: pair.election("nn1") == "active", "nn1's new controller to have the lock")
    assert pair.nodes["nn1"].state is ACTIVE
    assert pair.nodes["nn1"].reported == [ACTIVE]
    assert not pair.servers["nn1"].controller.fencings


def test_second_controller_of_a_namenode_does_not_start(pair: Pair) -> None:
    pair.start("nn1")
    with pytest.raises(SecondControllerError) as caught, FailoverServer(pair.settings("nn1")):
        pass
    assert "dfs.ha.zkfc.port" in caught.value.hint


def _wiped(pair: Pair) -> bool:
    """Return whether the znodes were deleted; the controller may create a znode during the deletion."""
    with suppress(NotEmptyError):
        pair.zk.delete(pair.znode, recursive=True)
        return True
    return False


def test_deleted_znodes_are_reported(pair: Pair) -> None:
    pair.start("nn1")
    pair.becomes("nn1", ACTIVE)
    pair.until(partial(_wiped, pair), "the znodes to be gone")
    pair.until(lambda: "no longer exists in ZooKeeper" in pair.servers["nn1"].ready().message, "the error")
    assert pair.nodes["nn1"].state is ACTIVE
    # the controller retries every second, and does not count as failed in between
    metrics = f"{pair.servers['nn1'].url}/metrics"
    pair.until(lambda: "hdfs_zkfc_election_failed 1.0" in requests.get(metrics, timeout=600).text, "the metric")
    with pytest.raises(NotFormattedError, match=pair.znode), FailoverServer(pair.settings("nn2")):
        pass
    with watching(pair.settings("nn1")) as election:
        election.format()
    pair.has_lock("nn1")
    pair.until(lambda: pair.servers["nn1"].ready().ok, "nn1's controller to be ready")


# ---- on request ----------------------------------------------------------------------------------------------


def test_graceful_failover_in_both_directions(pair: Pair) -> None:
    pair.both()
    for name, other in (("nn2", "nn1"), ("nn1", "nn2"), ("nn1", "nn2")):
        with pair.client(name) as client:
            client.graceful_failover()
        assert (pair.nodes[name].state, pair.nodes[other].state) == (ACTIVE, STANDBY)
        pair.has_lock(name)
        pair.until(lambda other=other: pair.election(other) == "standby", f"{other} to stand by")  # type: ignore[misc]
    assert not any(server.controller.fencings for server in pair.servers.values())


def test_graceful_failover_that_fails(pair: Pair) -> None:
    pair.both()
    pair.unwell("nn2", "no room")
    with pair.client("nn2") as client:
        with pytest.raises(ServiceFailedError, match="not currently healthy"):
            client.graceful_failover()
        pair.unwell("nn2", "")
        pair.nodes["nn2"].refusals[ACTIVE] = ServiceFailedError("edits are missing")
        with pytest.raises(ServiceFailedError, match="edits are missing"):
            client.graceful_failover()
        pair.becomes("nn1", ACTIVE)
        pair.has_lock("nn1")
        pair.nodes["nn2"].refusals.clear()
        # a NameNode that does not stand down is fenced, and fencing fails
        pair.nodes["nn1"].refusals[STANDBY] = ServiceFailedError("no")
        with pytest.raises(ServiceFailedError, match="cannot be fenced"):
            client.graceful_failover()
        assert pair.nodes["nn2"].state is STANDBY
        pair.nodes["nn1"].refusals.clear()
        pair.until(lambda: pair.named(LOCK) != "", "one active")
        pair.until(lambda: len(pair.active()) == 1, "one active")


def test_other_users_may_not_request_failovers(pair: Pair) -> None:
    pair.start("nn1")
    with pair.client("nn1", user="mallory") as client:
        with pytest.raises(AccessControlError, match="mallory"):
            client.cede_active(1000)
        with pytest.raises(AccessControlError) as refusal:
            client.graceful_failover()
    # a superuser of HDFS is refused too
    assert "dfs.cluster.administrators" in refusal.value.hint


def test_cede_active_until_it_is_revoked(pair: Pair) -> None:
    pair.both()
    with pair.client("nn1") as client:
        client.cede_active(3_600_000)
    pair.becomes("nn2", ACTIVE)
    assert pair.nodes["nn1"].state is STANDBY
    assert not pair.servers["nn1"].ready().ok
    with pair.client("nn1") as client:
        client.cede_active(-1)
    pair.until(lambda: pair.election("nn1") == "standby", "nn1 to stand by")


# ---- more than two -------------------------------------------------------------------------------------------


def test_failover_among_two_namenodes_and_an_observer(three: Pair) -> None:
    three.both()
    three.nodes["nn3"].state = OBSERVER
    three.start("nn3")
    three.until(lambda: three.servers["nn3"].ready().ok, "the observer's controller")
    with three.client("nn2") as client:
        client.graceful_failover()
    assert {name: node.state for name, node in three.nodes.items()} == {"nn1": STANDBY, "nn2": ACTIVE, "nn3": OBSERVER}
    with three.client("nn3") as client, pytest.raises(ServiceFailedError, match="observer"):
        client.graceful_failover()
    three.nodes["nn3"].state = STANDBY
    three.until(lambda: three.election("nn3") == "standby", "nn3 to take part")
    with three.client("nn3") as client:
        client.graceful_failover()
    three.has_lock("nn3")


def test_random_faults_end_with_exactly_one_active(three: Pair) -> None:
    """Health, sessions and states change at random. Two controllers never hold the lock, and in the end exactly one
    NameNode is active.
    """
    three._values["dfs.ha.fencing.methods"] = "shell(true)"
    three.start(*three.nodes)
    choose = random.Random(SEED)
    for _ in range(scaled(60, 3)):
        name = choose.choice(list(three.nodes))
        match choose.randrange(4):
            case 0:
                three.nodes[name].unwell = choose.choice(["", "no room"])
            case 1:
                if three.election(name) == "active":
                    three.expire(name)
            case 2:
                with three.client(name) as client:
                    client.cede_active(choose.choice([-1, 100]))
            case 3:
                three.nodes[name].state = STANDBY
        three.until(lambda: all(node.unwell for node in three.nodes.values()) or bool(three.named(LOCK)), "a lock")
    for node in three.nodes.values():
        node.unwell = ""
    three.until(lambda: len(three.active()) == 1 and three.named(LOCK) == three.active()[0], "one active")
