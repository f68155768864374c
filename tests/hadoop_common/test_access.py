"""Who may do what: the decision, and the names of hosts that it goes by."""

from __future__ import annotations

import logging
from ipaddress import ip_network

import pytest

from hadoop_common.access import ANYBODY, LOOPBACK, AccessControl, AccessRules, Caller, Grant, Right, decide
from hadoop_common.port_limits import Refusals

NETWORKS = frozenset({ip_network("10.0.0.0/8"), ip_network("::1")})
USERS = frozenset({"hdfs", "nn"})


@pytest.mark.parametrize(
    ("grant", "caller", "allowed"),
    [
        (Grant(), Caller("192.0.2.1", ("anybody",)), True),
        (Grant(NETWORKS), Caller("10.1.2.3", ("anybody",)), True),
        (Grant(NETWORKS), Caller("::ffff:10.1.2.3"), True),
        (Grant(NETWORKS), Caller("::1%lo"), True),
        (Grant(NETWORKS), Caller("192.0.2.1", ("hdfs",)), False),
        (Grant(NETWORKS), Caller(""), False),
        (Grant(NETWORKS), Caller("no address"), False),
        (Grant(None, USERS), Caller("192.0.2.1", ("hdfs",)), True),
        (Grant(None, USERS), Caller("192.0.2.1", ("hdfs", "nn")), True),
        (Grant(None, USERS), Caller("192.0.2.1", ("hdfs", "stranger")), False),
        (Grant(None, USERS), Caller("192.0.2.1"), True),
        (Grant(frozenset()), Caller("10.1.2.3"), False),
    ],
)
def test_the_decision(grant: Grant, caller: Caller, allowed: bool) -> None:
    verdict = decide(grant, caller, "newEpoch")
    assert verdict.allowed is allowed
    assert ("newEpoch is not allowed" in verdict.reason) is not allowed


class Names:
    """A resolver and a clock."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []
        self.refusals = Refusals()
        self.now = 100.0

    def look_up(self, name: str) -> list[str]:
        self.asked.append(name)
        if name not in self.addresses:
            raise OSError("no such name")
        return self.addresses[name]

    def control(self, *hosts: str) -> AccessControl:
        rules = AccessRules(hosts, frozenset({"hdfs"}))
        return AccessControl(rules, self.refusals, look_up=self.look_up, clock=lambda: self.now)


def test_names_are_looked_up_when_a_caller_is_unknown_and_not_for_each_of_them() -> None:
    names = Names(nn1=["10.0.0.1"])
    control = names.control(*LOOPBACK, "nn1", "nn2")
    assert control.check(Caller("127.0.0.1", ("hdfs",)), Right.CHANGE, "x").allowed
    assert names.asked == []
    assert control.check(Caller("10.0.0.1", ("hdfs",)), Right.CHANGE, "x").allowed
    for _ in range(3):
        assert not control.check(Caller("10.0.0.2"), Right.READ, "x").allowed
    assert names.asked == ["nn1", "nn2"]
    names.addresses["nn2"] = ["10.0.0.2"]
    names.now += 60
    assert control.check(Caller("10.0.0.2"), Right.READ, "x").allowed
    assert names.refusals.counts() == {"may not read": 3}


def test_users_count_for_changes_alone() -> None:
    control = Names().control(ANYBODY)
    assert control.check(Caller("192.0.2.1", ("stranger",)), Right.READ, "x").allowed
    assert not control.check(Caller("192.0.2.1", ("stranger",)), Right.CHANGE, "x").allowed


def test_one_line_a_second_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    names = Names()
    control = names.control("10.0.0.1")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            control.check(Caller("192.0.2.1"), Right.READ, "GET /x")
        names.now += 1
        control.check(Caller("192.0.2.1"), Right.READ, "GET /x")
    assert caplog.messages == ["refused: GET /x is not allowed from 192.0.2.1"] * 2
    assert names.refusals.counts() == {"may not read": 6}


def test_a_host_to_ask_has_all_its_addresses_among_those_who_may_call() -> None:
    names = Names(jn1=["10.0.0.1"], both=["10.0.0.1", "192.0.2.1"], alias=["10.0.0.1"])
    control = names.control("jn1")
    assert control.may_be_asked("alias")
    assert control.may_be_asked("10.0.0.1")
    assert not control.may_be_asked("both")
    assert not control.may_be_asked("unknown")
    assert not control.may_be_asked("")
    assert Names().control(ANYBODY).may_be_asked("192.0.2.1")
