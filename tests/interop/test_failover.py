"""Our failover controller and Hadoop's in one election, with real NameNodes on our JournalNodes."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from failover.election import BREADCRUMB, LOCK
from hadoop_common.process_user import process_user
from hadoop_rpc.ha_protocol import HAServiceClient, HAState, RequestSource
from namenode_stub.demo_zookeeper import MISSING
from tests.depth import SEED, deep, scaled
from tests.interop.clients import ClientJvm
from tests.interop.cluster import HaPair
from tests.interop.failover_pair import PARENT, SESSION_SECONDS, FailoverPair, HadoopController, OurController
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import wait_until
from tests.interop.stub_pair import StubPair

pytestmark = [pytest.mark.interop, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

_CONNECTED = re.compile(r"Session connected\.|election's session with ZooKeeper at .* is connected")
_BEGUN = re.compile(r"Starting services required for|(?:active|standby), HTTP on")
_STANDS_BY = re.compile(r"to standby state$|is a standby, because another", re.MULTILINE)


class Rounds:
    """Faults of the active side, and their required consequences."""

    def __init__(self, pair: FailoverPair, seed: int = SEED) -> None:
        self.pair = pair
        self._choose = random.Random(seed)
        self.kinds = [
            self.kill_namenode,
            self.ask,
            self.kill_controller,
            self.freeze_controller,
            self.freeze_namenode,
            self.stop_zookeeper,
            self.kill_the_standby,
        ]
        if deep():
            self._choose.shuffle(self.kinds)

    def begin(self, first: str, second: str) -> None:
        """Start both controllers; `first` becomes active because its controller starts alone."""
        self.pair.controllers[first].start()
        self.pair.wait_for_active(first)
        self.pair.controllers[second].start()
        self.pair.write()

    def play(self, number: int) -> None:
        for at in range(number):
            active = self.pair.active()
            assert active is not None
            (other,) = self.pair.nodes.keys() - {active}
            kind = self.kinds[at % len(self.kinds)]
            kind(active, other)
            self.pair.write()

    def kill_namenode(self, active: str, other: str) -> None:
        self.pair.nodes[active].process.kill()
        self.pair.wait_for_active(other)
        with self.reported_standby(active):
            self.pair.start_node(active)

    def kill_controller(self, active: str, other: str) -> None:
        self.pair.controllers[active].kill()
        self.pair.wait_for_active(other)
        with self.reported_standby(active):
            self.pair.controllers[active].start()

    def freeze_controller(self, active: str, other: str) -> None:
        self.pair.controllers[active].signal(signal.SIGSTOP)
        self.pair.wait_for_active(other)
        self.pair.controllers[active].signal(signal.SIGCONT)
        # the controller notices that its session has ended, and changes no NameNode
        self.pair.write()
        assert self.pair.active() == other

    def freeze_namenode(self, active: str, other: str) -> None:
        """Freeze the NameNode. The other controller fences it with the script, which kills the process, and activates
        its own NameNode.
        """
        before = self.fencings()
        self.pair.nodes[active].process.signal(signal.SIGSTOP)
        self.pair.wait_for_active(other)
        assert self.fencings() == before + 1
        self.pair.nodes[active].process.kill()
        with self.reported_standby(active):
            self.pair.start_node(active)

    def ask(self, active: str, other: str) -> None:
        """Fail over with Hadoop's haadmin, for controllers of either kind."""
        if deep() and self._choose.random() < 0.5:
            self.pair.zk.delete(f"{PARENT}/{BREADCRUMB}")
        # a controller may not have noticed its NameNode's return; Hadoop's controller may keep a connection to the old
        # process
        wait_until(lambda: not self.pair.client.ha_admin("-failover", active, other).code, "a graceful failover")
        self.pair.wait_for_active(other)

    def kill_the_standby(self, active: str, other: str) -> None:
        """Kill the standby and its controller, which does not affect the active NameNode."""
        before = self.begun(active)
        self.pair.controllers[other].kill()
        self.pair.nodes[other].process.kill()
        self.pair.write()
        with self.reported_standby(other):
            self.pair.start_node(other)
            self.pair.controllers[other].start()
        self.pair.write()
        assert self.pair.active() == active
        assert self.begun(active) == before

    def stop_zookeeper(self, active: str, other: str) -> None:
        """Stop ZooKeeper for three timeouts, during which both NameNodes keep their states.

        If the host is so busy that a session ends before its client is connected again, either NameNode may become
        active.
        """
        before, owner = (self.begun(active), self.begun(other), self.fencings()), self.pair.owner()
        sessions = {name: self.reported(name, _CONNECTED) for name in (active, other)}
        self.pair.zookeeper.stop()
        end = time.monotonic() + 3 * SESSION_SECONDS
        while time.monotonic() < end:
            assert self.pair.active() == active
            self.pair.write()
        self.pair.zookeeper.start()
        for name, number in sessions.items():
            wait_until(partial(self._more, name, number), f"the session of {name}")
        wait_until(self._has_leader, "an active NameNode with the lock")
        if self.pair.owner() == owner:
            assert self.pair.active() == active
            assert (self.begun(active), self.begun(other), self.fencings()) == before

    def _has_leader(self) -> bool:
        active = self.pair.active()
        return active is not None and self.pair.named(LOCK) == self.pair.named(BREADCRUMB) == active

    @contextmanager
    def reported_standby(self, name: str) -> Iterator[None]:
        """Wait until the controller of `name` takes part again; Hadoop's controller exits if ZooKeeper fails while the
        controller connects.
        """
        before = self.reported(name, _STANDS_BY)
        yield
        wait_until(lambda: self.reported(name, _STANDS_BY) > before, f"{name} to stand by")

    def _more(self, name: str, before: int) -> bool:
        return self.reported(name, _CONNECTED) > before

    def reported(self, name: str, what: re.Pattern[str]) -> int:
        """Count the matches in the log of the NameNode's controller."""
        return len(what.findall(self.pair.controllers[name].log_text()))

    def begun(self, name: str) -> int:
        """Count how often this NameNode became active or a standby."""
        return len(_BEGUN.findall(self.pair.nodes[name].process.log_text()))

    def fencings(self) -> int:
        return len(self.pair.fenced.read_text().splitlines()) if self.pair.fenced.exists() else 0


def test_one_active_namenode_after_any_fault(client_jvm: ClientJvm, tmp_path: Path) -> None:
    with FailoverPair(tmp_path, client_jvm) as pair:
        rounds = Rounds(pair)
        rounds.begin("nn1", "nn2")
        rounds.play(scaled(20, 2))
        print("seconds to the next active:", [round(each, 1) for each in pair.took])


@pytest.mark.deep
def test_one_active_namenode_with_two_controllers_of_ours(client_jvm: ClientJvm, tmp_path: Path) -> None:
    with FailoverPair(tmp_path, client_jvm, ours=("nn1", "nn2")) as pair:
        rounds = Rounds(pair)
        rounds.begin("nn1", "nn2")
        rounds.play(scaled(10))
        print("seconds to the next active:", [round(each, 1) for each in pair.took])


@pytest.mark.deep
@pytest.mark.parametrize("controllers", [("nn1", "nn2"), ("nn1",), ()], ids=["ours", "mixed", "Hadoop's"])
def test_one_active_namenode_with_stubs(client_jvm: ClientJvm, tmp_path: Path, controllers: tuple[str, ...]) -> None:
    with FailoverPair(tmp_path, client_jvm, ours=controllers, of=StubPair) as pair:
        rounds = Rounds(pair)
        rounds.begin("nn1", "nn2")
        rounds.play(scaled(14))
        print("seconds to the next active:", [round(each, 1) for each in pair.took])


@pytest.mark.deep
@pytest.mark.parametrize("of", [HaPair, StubPair], ids=["Hadoop's", "stubs"])
@pytest.mark.parametrize("hung", ["nn1", "nn2"])
def test_a_hung_active_namenode_becomes_standby(
    client_jvm: ClientJvm, tmp_path: Path, hung: str, of: type[HaPair] | type[StubPair]
) -> None:
    """Only the epoch of the JournalNodes fences the old active NameNode, which steps down once it continues."""
    with FailoverPair(tmp_path, client_jvm, of=of, fencing="shell(true)") as pair:
        (other,) = pair.nodes.keys() - {hung}
        rounds = Rounds(pair)
        rounds.begin(hung, other)
        pair.nodes[hung].process.signal(signal.SIGSTOP)
        wait_until(lambda: pair.states()[other] is HAState.ACTIVE, f"{other} to be active")
        # Hadoop's client would wait for the frozen NameNode
        pair.nodes[hung].process.signal(signal.SIGCONT)
        # the NameNode exits if it tries to close its segment; otherwise, it continues as a standby
        process = pair.nodes[hung].process
        wait_until(lambda: not process.running or pair.states()[hung] is HAState.STANDBY, f"{hung} to step down")
        assert pair.active() == other
        pair.write()
        if not process.running:
            pair.start_node(hung)
        rounds.ask(other, hung)
        pair.write()


@pytest.mark.deep
@pytest.mark.skipif(not SERVER.observers_refuse_controllers, reason="controllers change the state of observers")
def test_observer_that_was_active_last_keeps_running(client_jvm: ClientJvm, tmp_path: Path) -> None:
    """The controller of nn1 has ended, so the breadcrumb names nn1 when the controller of nn2 acquires the lock."""
    with FailoverPair(tmp_path, client_jvm, ours=("nn1", "nn2")) as pair:
        pair.controllers["nn1"].start()
        pair.wait_for_active("nn1")
        pair.controllers["nn1"].kill()
        with HAServiceClient(*pair.nodes["nn1"].rpc_address, user=process_user()) as client:
            client.transition_to_standby(RequestSource.USER_FORCED)
            client.transition_to_observer(RequestSource.USER_FORCED)
        pair.controllers["nn2"].start()
        pair.wait_for_active("nn2")
        assert pair.states()["nn1"] is HAState.OBSERVER
        assert not pair.fenced.exists()


@pytest.mark.deep
def test_our_controller_replaces_hadoops_and_vice_versa(client_jvm: ClientJvm, tmp_path: Path) -> None:
    """Replace Hadoop's controller with ours and back; the active NameNode is unaffected."""
    with FailoverPair(tmp_path, client_jvm) as pair:
        rounds = Rounds(pair)
        rounds.begin("nn1", "nn2")
        pair.controllers["nn2"].stop()
        for kind in (HadoopController, OurController, HadoopController):
            begun, crumb, owner = rounds.begun("nn1"), pair.breadcrumb(), pair.owner()
            pair.controllers["nn1"].kill()
            pair.controllers["nn1"] = pair.controller("nn1", kind)
            pair.controllers["nn1"].start()
            # the old session ends, and the new session has the lock
            wait_until(partial(_another_owner, pair, owner), "the new controller")
            pair.wait_for_active("nn1")
            assert pair.breadcrumb() == crumb
            if kind is OurController:
                assert rounds.begun("nn1") == begun
            pair.write()


def _another_owner(pair: FailoverPair, before: int) -> bool:
    return pair.owner() not in (before, 0)
