"""The election on a real ZooKeeper: expired sessions, interrupted connections, deleted znodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from failover import election
from failover.active_node_info import ActiveNodeInfo
from failover.election import BREADCRUMB, LOCK, Election
from failover.election_events import CreateLock, ZnodeRequest
from failover.elector import ElectorState
from hadoop_common.zookeeper import client as zookeeper_client
from hadoop_common.zookeeper.errors import BadVersionError, ZooKeeperError
from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes
from hadoop_common.zookeeper.session import ZooKeeperAddress
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from namenode_stub.ports import free_port
from tests.failover.cutting_proxy import CuttingProxy, end_session
from tests.failover.failover_support import LONG_SESSIONS, LONGEST_SESSION
from tests.namenode_stub.stub_support import wait_until

# sessions end only if a test ends them; a client that is silent on a busy machine does not lose its session
TIMEOUT = LONGEST_SESSION
NN1, NN2 = (ActiveNodeInfo("ns1", name, "localhost", 8020 + at, 8019) for at, name in enumerate(("nn1", "nn2")))


def test_active_node_info_has_the_bytes_of_hadoop() -> None:
    info = ActiveNodeInfo("ns1", "nn1", "localhost", 32011, 32019)
    recorded = bytes.fromhex("0a036e7331 12036e6e31 1a096c6f63616c686f7374 208bfa01 2893fa01")
    assert info.to_bytes() == recorded
    assert ActiveNodeInfo.from_bytes(recorded) == info


@pytest.mark.parametrize("data", [b"", b"\xff", b"nn1", b"\x0a\x03ns1"])
def test_invalid_active_node_info_is_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="ActiveNodeInfo"):
        ActiveNodeInfo.from_bytes(data)


@dataclass
class NameNode:
    """`ElectionCallbacks` that record their calls and raise given errors."""

    reported: list[str] = field(default_factory=list)
    fails: dict[str, Exception] = field(default_factory=dict)
    before_active: Callable[[], None] = lambda: None
    look: Callable[[], dict[str, object]] = dict
    doing: object = ""

    def _note(self, what: str, name: str = "") -> None:
        self.reported.append(what)
        if (name or what) in self.fails:
            raise self.fails[name or what]

    def become_active(self) -> None:
        self.before_active()
        self._note("active")

    def become_standby(self) -> None:
        self._note("standby")

    def enter_neutral(self) -> None:
        self._note("neutral")

    def fence_old_active(self, breadcrumb: bytes) -> None:
        self.doing = self.look().get("doing")
        self._note(f"fence {ActiveNodeInfo.from_bytes(breadcrumb).namenode}", "fence")

    def fatal(self, reason: str) -> None:
        self._note(f"fatal {reason}")


class Scene:
    """Two controllers, and a client that observes."""

    def __init__(self, stack: ExitStack, zookeeper: ZooKeeperServer, parent: str, first_hosts: str = "") -> None:
        self.parent, self.hosts = parent, zookeeper.hosts
        self.nodes = [NameNode(), NameNode()]
        hosts = (first_hosts or zookeeper.hosts, zookeeper.hosts)
        self.elections = [
            stack.enter_context(closing(Election(ZooKeeperAddress(where, TIMEOUT), parent, node)))
            for where, node in zip(hosts, self.nodes, strict=True)
        ]
        for node, each in zip(self.nodes, self.elections, strict=True):
            node.look = each.facts
        self.client = KazooClient(zookeeper.hosts)
        self.client.start(timeout=600)
        stack.callback(self.client.close)
        stack.callback(self.client.stop)
        self.elections[1].format()

    def join(self, *which: int) -> None:
        for at in which:
            self.elections[at].join((NN1, NN2)[at].to_bytes())

    def hears(self, at: int, *report: str) -> None:
        """Wait until the NameNode has received exactly these calls since the start."""
        wait_until(f"{at} {report}", lambda: self.nodes[at].reported == [*report])

    def settles(self, at: int, state: ElectorState) -> None:
        wait_until(f"{at} {state}", lambda: self.elections[at].state is state)

    def lock(self) -> str:
        return ActiveNodeInfo.from_bytes(self.client.get(f"{self.parent}/{LOCK}")[0]).namenode

    def breadcrumb(self) -> str | None:
        found = self.elections[1].breadcrumb()
        return None if found is None else ActiveNodeInfo.from_bytes(found[0]).namenode

    def expire(self, at: int) -> None:
        """Expire the session of a running owner, as ZooKeeper does."""
        session = self.elections[at]._session
        assert session is not None
        end_session(self.hosts, session._client.client_id)


@pytest.fixture
def scene(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(stack, zookeeper, f"/hadoop-ha/{request.node.name}")


def join_both(scene: Scene) -> None:
    """Make both join, so that nn1 is active and nn2 is a standby."""
    scene.join(0)
    scene.settles(0, ElectorState.ACTIVE)
    scene.join(1)
    scene.hears(1, "standby")


def test_new_active_fences_the_previous_one(scene: Scene) -> None:
    join_both(scene)
    assert scene.nodes[0].reported == ["active"]
    assert (scene.lock(), scene.breadcrumb()) == ("nn1", "nn1")
    assert ActiveNodeInfo.from_bytes(scene.elections[1].active_data() or b"") == NN1
    scene.elections[0].quit(need_fence=True)
    assert scene.elections[0].state is ElectorState.INIT
    scene.settles(1, ElectorState.ACTIVE)
    assert scene.nodes[1].reported == ["standby", "fence nn1", "active"]
    assert (scene.lock(), scene.breadcrumb()) == ("nn2", "nn2")


def test_node_that_quit_without_need_of_fencing_is_not_fenced(scene: Scene) -> None:
    join_both(scene)
    scene.elections[0].quit(need_fence=False)
    scene.settles(1, ElectorState.ACTIVE)
    assert scene.nodes[1].reported == ["standby", "active"]
    scene.join(0)
    scene.settles(0, ElectorState.STANDBY)
    assert scene.elections[0].facts()["joined"]


def test_expired_session_loses_the_lock(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    join_both(scene)
    scene.expire(1)
    scene.hears(1, "standby", "neutral", "standby")
    send = election._Session.send

    def sent(session: election._Session, request: ZnodeRequest) -> None:
        # otherwise, the faster controller would acquire the lock
        if isinstance(request, CreateLock) and request.data == NN1.to_bytes():
            scene.settles(1, ElectorState.ACTIVE)
        send(session, request)

    monkeypatch.setattr(election._Session, "send", sent)
    scene.expire(0)
    scene.hears(1, "standby", "neutral", "standby", "fence nn1", "active")
    scene.hears(0, "active", "neutral", "standby")
    scene.elections[0].quit(need_fence=True)
    scene.expire(1)
    # nn1 finds its own breadcrumb
    scene.hears(1, "standby", "neutral", "standby", "fence nn1", "active", "neutral", "active")


def test_servers_may_grant_a_shorter_session_timeout(scene: Scene) -> None:
    """With the requested timeout, two controllers would believe that they have the lock."""
    with closing(Election(ZooKeeperAddress(scene.hosts, 600.0), scene.parent, NameNode())) as patient:
        patient.join(NN1.to_bytes())
        wait_until("it", lambda: patient.state is ElectorState.ACTIVE)
        assert patient.facts()["sessionTimeoutSeconds"] == LONGEST_SESSION


def test_deleted_lock_is_acquired_again(scene: Scene) -> None:
    scene.join(0)
    scene.settles(0, ElectorState.ACTIVE)
    scene.client.delete(f"{scene.parent}/{LOCK}")
    scene.hears(0, "active", "neutral", "active")
    assert scene.lock() == "nn1"


@pytest.mark.parametrize("asked", ["CheckLock", "CreateLock"])
def test_bug_in_the_driver_releases_the_lock_and_the_election_continues(
    scene: Scene, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the thread ended while its session is alive, the lock would be held forever."""
    faults = [ZeroDivisionError("a fault of this program")]
    send = election._Session.send

    def sent(session: election._Session, request: ZnodeRequest) -> None:
        if type(request).__name__ == asked and faults:
            raise faults.pop()
        send(session, request)

    monkeypatch.setattr(election._Session, "send", sent)
    scene.join(0)
    wait_until("the fault", lambda: not faults)
    reason = "ZeroDivisionError: a fault of this program"
    scene.hears(0, "neutral", f"fatal {reason}", "active")
    scene.elections[0].quit(need_fence=True)
    assert scene.elections[1].active_data() is None


def test_session_is_closed_without_a_thread_to_close_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    join_both(scene)
    begin = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        if thread.name == "election-close":
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    scene.elections[0].quit(need_fence=True)
    scene.settles(1, ElectorState.ACTIVE)


def test_node_becomes_active_only_after_fencing_succeeds(scene: Scene) -> None:
    join_both(scene)
    scene.nodes[1].fails["fence"] = OSError("no route")
    scene.elections[0].quit(need_fence=True)
    wait_until("two tries", lambda: scene.nodes[1].reported.count("fence nn1") >= 2)
    assert scene.nodes[1].doing == "fences"
    assert "no route" in str(scene.elections[1].facts()["problem"])
    assert (scene.breadcrumb(), "active" in scene.nodes[1].reported) == ("nn1", False)
    problems: list[object] = []
    scene.nodes[1].before_active = lambda: problems.append(scene.elections[1].facts()["problem"])
    scene.nodes[1].fails.clear()
    scene.settles(1, ElectorState.ACTIVE)
    # the fault has ended, and is not reported during an activation, which may take a long time
    assert [*problems, scene.elections[1].facts()["problem"]] == ["", ""]


def test_node_that_fails_to_become_active_releases_the_lock(scene: Scene) -> None:
    scene.nodes[0].fails["active"] = OSError("edits are missing")
    scene.join(0)
    wait_until("a try", lambda: "active" in scene.nodes[0].reported)
    scene.join(1)
    scene.settles(1, ElectorState.ACTIVE)
    assert scene.nodes[1].reported[-2:] == ["fence nn1", "active"]
    scene.settles(0, ElectorState.STANDBY)


def test_lock_lost_during_fencing_is_not_used(scene: Scene) -> None:
    """The owner is checked again before any request to the NameNode."""
    join_both(scene)
    expired = threading.Event()

    def fence(breadcrumb: bytes) -> None:
        if not expired.is_set():
            scene.expire(1)
            scene.join(0)
            expired.set()

    scene.nodes[1].fence_old_active = fence  # type: ignore[method-assign]
    scene.elections[0].quit(need_fence=True)
    wait_until("fenced", expired.is_set)
    wait_until("settled", lambda: sorted(each.state.value for each in scene.elections) == ["active", "standby"])
    active = [each.state for each in scene.elections].index(ElectorState.ACTIVE)
    assert scene.breadcrumb() == f"nn{active + 1}"


def test_election_continues_once_the_missing_parent_znode_exists(scene: Scene) -> None:
    scene.client.delete(scene.parent, recursive=True)
    scene.join(0)
    wait_until("fatal", lambda: any("zkfc format" in each for each in scene.nodes[0].reported))
    assert not scene.elections[0].parent_exists()
    scene.elections[1].format()
    scene.settles(0, ElectorState.ACTIVE)


def test_refused_lock_error_names_the_acl(scene: Scene) -> None:
    """The znode belongs to another user, so we can read but not write it."""
    acl = [make_digest_acl("hadoop", "secret", all=True), *READ_ACL_UNSAFE]
    scene.client.set_acls(scene.parent, acl)
    scene.join(0)
    named = f"{scene.parent} has the ACL digest:hadoop:rwcda,world:anyone:r"
    wait_until("fatal", lambda: any(named in each for each in scene.nodes[0].reported))
    (reason, *_) = [each for each in scene.nodes[0].reported if named in each]
    assert reason.startswith(
        f"fatal {scene.parent}/{LOCK}: ZooKeeper refuses this operation and identifies us as an anonymous"
    )
    assert "ha.zookeeper.auth" in reason
    scene.client.add_auth("digest", "hadoop:secret")
    scene.client.set_acls(scene.parent, OPEN_ACL_UNSAFE)
    scene.settles(0, ElectorState.ACTIVE)


def test_restart_of_zookeeper_does_not_change_the_active(tmp_path: Path) -> None:
    if MISSING:
        pytest.skip(MISSING)
    with ExitStack() as stack:
        server = stack.enter_context(ZooKeeperServer(tmp_path / "zookeeper", LONG_SESSIONS))
        scene = Scene(stack, server, "/hadoop-ha/ns1")
        join_both(scene)
        server.stop()
        for at in (0, 1):
            scene.settles(at, ElectorState.NEUTRAL)
        server.start()
        scene.settles(0, ElectorState.ACTIVE)
        scene.settles(1, ElectorState.STANDBY)
        scene.hears(0, "active", "neutral", "active")
        scene.hears(1, "standby", "neutral", "standby")


def test_active_data_is_synced_with_the_zookeeper_leader(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without contact to the leader returns old data during its syncLimit."""
    join_both(scene)

    def sync(*_: object) -> None:
        raise ZooKeeperError("the leader does not answer")

    monkeypatch.setattr(KazooZNodes, "sync", sync)
    with pytest.raises(ZooKeeperError, match="leader"):
        scene.elections[1].active_data()


def test_session_survives_a_server_that_accepts_but_does_not_respond(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, kazoo waits until the session expires if a server is starting or hangs."""
    # the session is long enough for a busy machine, and the wait of 2 s does not grow with the session
    monkeypatch.setattr(zookeeper_client, "_ROUNDS_PER_SESSION", 9)
    with ExitStack() as stack:
        proxy = stack.enter_context(CuttingProxy(zookeeper.port))
        node = NameNode()
        election = stack.enter_context(closing(Election(ZooKeeperAddress(proxy.hosts, 18.0), "/hadoop-ha/mute", node)))
        election.format()
        election.join(NN1.to_bytes())
        wait_until("it", lambda: election.state is ElectorState.ACTIVE)
        session = election.facts()["sessionId"]
        proxy.swallow(1)
        proxy.cut(REQUESTS["exists"], answered=False)
        wait_until("it again", lambda: node.reported == ["active", "neutral", "active"])
        assert election.facts()["sessionId"] == session


def test_connecting_without_zookeeper_fails_after_the_timeout() -> None:
    address = ZooKeeperAddress(f"127.0.0.1:{free_port()}", 0.3, named_by="ha.zookeeper.quorum.ns1")
    with closing(Election(address, "/hadoop-ha/ns1", NameNode())) as election:
        with pytest.raises(ZooKeeperError, match=r"did not answer within 0\.3 s") as caught:
            election.connect()
        assert "ha.zookeeper.quorum.ns1" in caught.value.hint


def test_no_callbacks_after_close(scene: Scene) -> None:
    going_on, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        going_on.set()
        may_end.wait(600)

    scene.nodes[0].before_active = wait
    scene.join(0)
    assert going_on.wait(600)
    ending = threading.Thread(target=scene.elections[0].close)
    ending.start()
    # the lock is released immediately, although the callback still runs
    wait_until("the lock", lambda: scene.client.exists(f"{scene.parent}/{LOCK}") is None)
    may_end.set()
    ending.join()
    scene.elections[0].join(b"again")
    scene.elections[0].quit(need_fence=True)
    assert scene.nodes[0].reported == ["active"]


def test_breadcrumb_is_cleared_only_in_the_version_that_was_read(scene: Scene) -> None:
    join_both(scene)
    found = scene.elections[1].breadcrumb()
    assert found is not None
    with pytest.raises(BadVersionError):
        scene.elections[1].clear_breadcrumb(found[1] + 1)
    scene.elections[1].clear_breadcrumb(found[1])
    assert scene.elections[1].breadcrumb() is None


def test_format_keeps_other_znodes_and_repairs_acls(zookeeper: ZooKeeperServer) -> None:
    digest = ("digest", "zkfc:secret")
    acl = make_digest_acl("zkfc", "secret", all=True)
    address = ZooKeeperAddress(zookeeper.hosts, TIMEOUT, ((acl.id.scheme, acl.id.id, "cdrwa"),), (digest,))
    with ExitStack() as stack:
        client = stack.enter_context(closing(KazooClient(zookeeper.hosts, auth_data=[digest])))
        client.start(timeout=600)
        stack.callback(client.stop)
        for path in ("/formats/ns1/deep/er", "/formats/ns2/child"):
            client.create(path, b"x", makepath=True)
        assert client.get_acls("/formats")[0] == OPEN_ACL_UNSAFE
        election = stack.enter_context(closing(Election(address, "/formats/ns1", NameNode())))
        assert election.parent_exists()
        election.format()
        assert client.get_children("/formats/ns1") == []
        assert client.exists("/formats/ns2/child")
        assert client.get_acls("/formats/ns1")[0] == client.get_acls("/formats")[0] == [acl]
        election.join(NN1.to_bytes())
        wait_until("active", lambda: election.state is ElectorState.ACTIVE)
        assert client.get_acls(f"/formats/ns1/{LOCK}")[0] == client.get_acls(f"/formats/ns1/{BREADCRUMB}")[0] == [acl]


# ---- connections that are cut ------------------------------------------------------------------------------

REQUESTS = {"create": 1, "delete": 2, "exists": 3, "get": 4, "set": 5}


@pytest.mark.parametrize("when", ["before it is sent", "before it is answered"])
@pytest.mark.parametrize("request_kind", ["create", "exists", "get", "set", "delete"])
@pytest.mark.parameters(3)
def test_interrupted_request_leaves_exactly_one_active(
    zookeeper: ZooKeeperServer, request_kind: str, when: str
) -> None:
    """The connection is cut at each of the elector's requests in turn, before or after the server performs it."""
    with ExitStack() as stack:
        proxy = stack.enter_context(CuttingProxy(zookeeper.port))
        scene = Scene(stack, zookeeper, f"/hadoop-ha/cut-{request_kind}-{when.rsplit(maxsplit=1)[-1]}", proxy.hosts)
        if request_kind in ("set", "delete"):
            scene.join(0)
            scene.settles(0, ElectorState.ACTIVE)
            scene.elections[0].quit(need_fence=True)
        if request_kind == "delete":
            scene.join(0)
            scene.settles(0, ElectorState.ACTIVE)
        proxy.cut(REQUESTS[request_kind], answered=when == "before it is answered")
        if request_kind == "delete":
            scene.elections[0].quit(need_fence=False)
        scene.join(0)
        assert proxy.was_cut.wait(600)
        scene.join(1)
        wait_until("settled", lambda: sorted(e.state.value for e in scene.elections) == ["active", "standby"])
        active = [each.state for each in scene.elections].index(ElectorState.ACTIVE)
        assert (scene.lock(), scene.breadcrumb()) == (f"nn{active + 1}", f"nn{active + 1}")
        assert not any(report.startswith("fatal") for node in scene.nodes for report in node.reported)
