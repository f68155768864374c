"""Rolls that a standby requests: the flow of edits, refusals, alarms and recoveries."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from checkpointer.roles.standby.log_roller import LogRoller
from checkpointer.roles.standby.namenodes import RollRefusedError
from checkpointer.transfer.common import never
from hadoop_rpc.errors import RpcError
from tests.checkpointer.service_support import Clock


class Nodes:
    """NameNodes that count calls."""

    def __init__(self) -> None:
        self.txids: dict[str, int] = {"nn1:8020": 100}
        self.refusal: RpcError | None = None
        self.rolls = 0
        self.asked = 0

    def last_txids(self) -> Mapping[str, int]:
        self.asked += 1
        return self.txids

    def roll(self, cancelled: object) -> str:
        if self.refusal is not None:
            raise self.refusal
        self.rolls += 1
        return "nn1:8020"


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def roller(nodes: Nodes, clock: Clock) -> LogRoller:
    """A roller that has seen no edits after transaction 50 for longer than its period."""
    made = LogRoller(nodes, 120.0, clock=clock)
    made.check(50, never)
    clock.now = 121.0
    return made


def test_no_namenode_is_queried_while_edits_arrive(nodes: Nodes) -> None:
    clock = Clock()
    roller = LogRoller(nodes, 120.0, clock=clock)
    for applied in range(10):
        clock.now += 121.0
        assert not roller.check(applied, never)
    assert nodes.asked == 0
    clock.now += 120.0
    assert not roller.check(9, never)
    assert nodes.asked == 0
    clock.now += 1.0
    assert roller.check(9, never)
    assert (nodes.rolls, roller.active_txid) == (1, 100)


def test_roll_without_new_edits_is_an_alarm_and_not_repeated(nodes: Nodes, roller: LogRoller, clock: Clock) -> None:
    assert roller.check(50, never)
    for _ in range(3):
        clock.now += 60.0
        assert not roller.check(50, never)
        assert "nn1:8020 is at txid 100, but the last applied transaction is 50" in roller.alarm
    assert nodes.rolls == 1
    assert not roller.check(101, never)
    assert roller.alarm == ""


def test_refused_roll_is_an_alarm_and_repeated(nodes: Nodes, roller: LogRoller) -> None:
    nodes.refusal = RollRefusedError("nn1:8020: is in safe mode")
    assert not roller.check(50, never)
    assert roller.alarm == (
        "50 transactions wait in the open segment of the active NameNode, but nn1:8020: is in safe mode"
    )
    nodes.refusal = None
    assert roller.check(50, never)
    nodes.txids = {"nn1:8020": 51}
    assert not roller.check(50, never)
    assert roller.alarm == ""


def test_arrival_of_edits_is_logged_only_after_some_were_applied(
    nodes: Nodes, roller: LogRoller, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The NameNode that was ahead is killed; the others have only transactions that this node also has."""
    caplog.set_level("INFO")
    nodes.refusal = RollRefusedError("nn1:8020: is in safe mode")
    assert not roller.check(50, never)
    nodes.txids = {"nn2:8020": 50}
    for _ in range(2):
        clock.now += 60.0
        assert not roller.check(50, never)
        assert "50 transactions wait" in roller.alarm
    assert not [line for line in caplog.messages if "again" in line]
    assert not roller.check(51, never)
    assert "edits arrive again after" in caplog.messages[-1]


def test_no_roll_and_no_alarm_without_answers(
    nodes: Nodes, roller: LogRoller, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time that the NameNodes become silent is logged once."""
    for silences in (1, 2):
        nodes.txids = {}
        for _ in range(2):
            assert not roller.check(50, never)
        assert (nodes.rolls, roller.alarm) == (0, "")
        assert len([line for line in caplog.messages if "no NameNode reports its last transaction" in line]) == silences
        nodes.txids = {"nn1:8020": 50}
        assert not roller.check(50, never)


def test_roll_is_requested_again_after_a_new_start(nodes: Nodes, roller: LogRoller, clock: Clock) -> None:
    assert roller.check(50, never)
    roller.forget()
    assert not roller.check(50, never)
    clock.now = 242.0
    assert roller.check(50, never)
    assert (nodes.rolls, roller.alarm) == (2, "")


def test_active_txid_is_queried_without_a_roll() -> None:
    class Nodes:
        asked = 0

        def last_txids(self) -> dict[str, int]:
            self.asked += 1
            return {"nn1:8020": 50}

        def roll(self, cancelled: object) -> str:
            raise AssertionError("nobody rolls here")

    clock, nodes = Clock(), Nodes()
    roller = LogRoller(nodes, 120.0, clock=clock)
    roller.update_active(10)
    clock.now += 120
    roller.update_active(10)
    assert (nodes.asked, roller.active_txid) == (0, -1)
    clock.now += 1
    roller.update_active(10)
    assert (nodes.asked, roller.active_txid, roller.alarm) == (1, 50, "")
    roller.period = 0.0
    roller.update_active(10)
    assert nodes.asked == 1
