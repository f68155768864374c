"""Access decisions, and the host names on which they depend."""

from __future__ import annotations

import logging
import queue
import socket
import threading
from ipaddress import ip_network

import pytest

from hadoop_common.access import (
    ANYBODY,
    LOOPBACK,
    AccessControl,
    AccessControlList,
    AccessDecision,
    AccessPolicy,
    AccessRules,
    Caller,
    Grant,
    MachineList,
    Right,
    decide,
)
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
def test_access_decision_for_each_caller(grant: Grant, caller: Caller, allowed: bool) -> None:
    verdict = decide(grant, caller, "newEpoch")
    assert verdict.allowed is allowed
    assert ("newEpoch is not allowed" in verdict.reason) is not allowed


class Names:
    """A resolver and a clock."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []
        self.failure = OSError("no answer")
        self.refusals = Refusals()
        self.now = 100.0

    def look_up(self, name: str) -> list[str]:
        self.asked.append(name)
        if name not in self.addresses:
            raise self.failure
        return self.addresses[name]

    def control(self, *hosts: str) -> AccessControl:
        rules = AccessRules(hosts, frozenset({"hdfs"}))
        return AccessControl(rules, self.refusals, look_up=self.look_up, clock=lambda: self.now)


def test_names_are_looked_up_for_unknown_callers_once_a_minute() -> None:
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


def test_a_host_keeps_its_addresses_while_dns_does_not_answer() -> None:
    names = Names(nn1=["10.0.0.1"])
    control = names.control("nn1")
    namenode, stranger = Caller("10.0.0.1", ("hdfs",)), Caller("192.0.2.1")
    assert control.check(namenode, Right.CHANGE, "journal").allowed
    addresses, names.addresses = names.addresses, {}
    for hosts in (("nn1",), ("nn1", "nn2")):
        control.replace_rules(AccessRules(hosts, frozenset({"hdfs"})))
        names.now += 60
        # a stranger's call, such as a port scanner's, causes all names to be resolved again
        assert not control.check(stranger, Right.READ, "x").allowed
        assert control.check(namenode, Right.CHANGE, "journal").allowed
    names.addresses = {**addresses, "nn1": ["10.0.0.9"]}
    names.now += 60
    assert control.check(Caller("10.0.0.9"), Right.READ, "x").allowed
    assert not control.check(namenode, Right.CHANGE, "journal").allowed


def test_name_removed_from_dns_loses_its_addresses() -> None:
    names = Names(nn1=["10.0.0.1"])
    control = names.control("nn1")
    assert control.check(Caller("10.0.0.1"), Right.READ, "x").allowed
    names.failure, names.addresses = socket.gaierror(socket.EAI_NONAME, "Name or service not known"), {}
    names.now += 60
    assert not control.check(Caller("192.0.2.1"), Right.READ, "x").allowed
    assert not control.check(Caller("10.0.0.1"), Right.READ, "x").allowed


def test_concurrent_callers_share_one_name_lookup() -> None:
    class NoticedLock:
        """A lock that reports each attempt to acquire it."""

        def acquire(self, *, blocking: bool) -> bool:
            attempts.put(None)
            return lock.acquire(blocking)

        def release(self) -> None:
            lock.release()

    def look_up(name: str) -> list[str]:
        attempts.get()
        second.start()
        attempts.get()
        return ["10.0.0.1", "10.0.0.2"]

    def call(host: str) -> None:
        verdicts.append(control.check(Caller(host), Right.READ, "x").allowed)

    lock, attempts, verdicts = threading.Lock(), queue.SimpleQueue[None](), list[bool]()
    control = AccessControl(AccessRules(("nn",)), look_up=look_up, clock=lambda: 100.0)
    control._renewing = NoticedLock()  # type: ignore[assignment]
    second = threading.Thread(target=call, args=("10.0.0.2",))
    call("10.0.0.1")
    second.join()
    assert verdicts == [True, True]


def test_hanging_name_server_delays_only_one_unknown_caller() -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def look_up(name: str) -> list[str]:
        if clock.now > 100:
            hangs.set()
            assert goes_on.wait(600)
        return ["10.0.0.1"]

    clock = Names()
    control = AccessControl(AccessRules(("nn",)), look_up=look_up, clock=lambda: clock.now)
    assert control.check(Caller("10.0.0.1"), Right.READ, "x").allowed
    clock.now += 60
    first = threading.Thread(target=control.check, args=(Caller("192.0.2.1"), Right.READ, "x"))
    first.start()
    assert hangs.wait(600)
    assert not control.check(Caller("192.0.2.2"), Right.READ, "x").allowed
    assert control.check(Caller("10.0.0.1"), Right.READ, "x").allowed
    assert control.replace_rules(AccessRules(("nn",))) == []
    goes_on.set()
    first.join()


def test_users_are_checked_only_for_changes() -> None:
    control = Names().control(ANYBODY)
    assert control.check(Caller("192.0.2.1", ("stranger",)), Right.READ, "x").allowed
    assert not control.check(Caller("192.0.2.1", ("stranger",)), Right.CHANGE, "x").allowed


def test_refusals_are_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    names = Names()
    control = names.control("10.0.0.1")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            control.check(Caller("192.0.2.1"), Right.READ, "GET /x")
        names.now += 1
        control.check(Caller("192.0.2.1"), Right.READ, "GET /x")
    assert caplog.messages == ["refused: GET /x is not allowed from 192.0.2.1"] * 2
    assert names.refusals.counts() == {"may not read": 6}


def test_host_may_be_asked_only_if_all_its_addresses_may_call() -> None:
    names = Names(jn1=["10.0.0.1"], both=["10.0.0.1", "192.0.2.1"], alias=["10.0.0.1"])
    control = names.control("jn1")
    assert control.may_be_asked("alias")
    assert control.may_be_asked("10.0.0.1")
    assert not control.may_be_asked("both")
    assert not control.may_be_asked("unknown")
    assert not control.may_be_asked("")
    assert Names().control(ANYBODY).may_be_asked("192.0.2.1")


# ---- by name: callers prove who they are ----

ADDRESSES = {"here": ["10.0.0.9"], "there": ["10.0.0.8"]}
GROUPS = {"carl": frozenset({"ops"})}


def by_name(admission: AccessPolicy, principal: str, user: str, host: str = "10.0.0.9") -> AccessDecision:
    def look_up(name: str) -> list[str]:
        if name not in ADDRESSES:
            raise OSError(name)
        return ADDRESSES[name]

    access = AccessControl(
        AccessRules(policies={"door": admission}, own_user="nn"),
        look_up=look_up,
        groups_of=lambda name: GROUPS.get(name, frozenset()),
    )
    return access.check(Caller(host, (user,), principal), Right.READ, "GET /x", "door")


@pytest.mark.parametrize(
    ("admission", "principal", "user", "allowed"),
    [
        (AccessPolicy(), "a@R", "a", True),
        (AccessPolicy({"nn/h@R": "k"}), "nn/h@R", "hdfs", True),
        (AccessPolicy({"nn/h@R": "k"}), "nn/g@R", "hdfs", False),
        (AccessPolicy({"nn/h@R": "k"}), "nn/h@S", "hdfs", False),
        (AccessPolicy({"nn/_HOST@R": "k"}), "nn/here@R", "hdfs", True),
        (AccessPolicy({"nn/_HOST@R": "k"}), "nn/there@R", "hdfs", False),
        (AccessPolicy({"nn/_HOST@R": "k"}), "nn/unknown@R", "hdfs", False),
        (AccessPolicy({"nn/_HOST@R": "k"}), "nn@R", "hdfs", False),
        (AccessPolicy({"nn/_HOST@R": "k"}), "sn/here@R", "hdfs", False),
        (AccessPolicy({"nn/_HOST@R": "k"}), "nn/here@S", "hdfs", False),
        (AccessPolicy(own=True), "x@R", "nn", True),
        (AccessPolicy(own=True), "x@R", "x", False),
        (AccessPolicy(own=True), "x@R", "", False),
        (AccessPolicy(lists=(AccessControlList.parse("k", "a,b"),)), "b@R", "b", True),
        (AccessPolicy(lists=(AccessControlList.parse("k", " ops"),)), "carl@R", "carl", True),
        (AccessPolicy(lists=(AccessControlList.parse("k", "ops"),)), "carl@R", "carl", False),
        (AccessPolicy(lists=(AccessControlList.parse("k", ""),)), "b@R", "b", False),
        (AccessPolicy(lists=(AccessControlList.parse("k", " * "),)), "b@R", "b", True),
        (AccessPolicy(lists=(AccessControlList.parse("k", "* hadoop"),)), "b@R", "b", True),
        (AccessPolicy(lists=(AccessControlList.parse("k", "alice *"),)), "b@R", "b", True),
        (AccessPolicy(lists=(AccessControlList.parse("k", "alice,*"),)), "b@R", "b", False),
        (AccessPolicy(needed=(AccessControlList.parse("k", "a"),)), "b@R", "b", False),
        (AccessPolicy({"b@R": "k"}, needed=(AccessControlList.parse("k", "b"),)), "b@R", "b", True),
        (AccessPolicy({"a@R": "k"}, needed=(AccessControlList.parse("k", "b"),)), "b@R", "b", False),
        (AccessPolicy(blocked=(AccessControlList.parse("k", "b"),)), "b@R", "b", False),
        (AccessPolicy(needed=(MachineList.parse("k", "10.0.0.0/24"),)), "b@R", "b", True),
        (AccessPolicy(needed=(MachineList.parse("k", "there"),)), "b@R", "b", False),
        (AccessPolicy(needed=(MachineList.parse("k", "here"),)), "b@R", "b", True),
        (AccessPolicy(blocked=(MachineList.parse("k", "10.0.0.9"),)), "b@R", "b", False),
    ],
)
def test_access_by_policy_and_principal(admission: AccessPolicy, principal: str, user: str, allowed: bool) -> None:
    verdict = by_name(admission, principal, user)
    assert verdict.allowed == allowed
    assert allowed or (principal in verdict.reason and ("k" in verdict.reason or "user nn" in verdict.reason))


def test_unknown_protocol_is_refused() -> None:
    access = AccessControl(AccessRules(policies={}))
    assert access.by_name
    verdict = access.check(Caller("10.0.0.9", ("hdfs",), "hdfs@R"), Right.READ, "org.example.Unknown")
    assert (verdict.allowed, verdict.reason) == (False, "Unknown protocol: org.example.Unknown")


def test_changed_access_lists_are_applied_and_reported() -> None:
    admins, nobody = AccessControlList.parse("admins", "alice"), AccessControlList.parse("admins", "")
    policy = MachineList.parse("policy.hosts", "10.0.0.1")
    before = {
        "images": AccessPolicy({"nn/a@R": "nn.key"}, lists=(admins,)),
        "state": AccessPolicy(),
        "calls": AccessPolicy(),
    }
    access = AccessControl(AccessRules(policies=before, own_user="nn"))
    alice = Caller("10.0.0.9", ("alice",), "alice@R")
    assert access.check(alice, Right.READ, "x", "images").allowed
    after = {
        "images": AccessPolicy({"nn/b@R": "nn.key"}, lists=(nobody,)),
        "state": AccessPolicy(),
        "calls": AccessPolicy(needed=(policy,)),
    }
    assert access.replace_rules(AccessRules(policies=after, own_user="nn")) == [
        "admins (alice) → (nobody)",
        "nn.key (nn/a@R) → (nn/b@R)",
        "policy.hosts (unset) → (10.0.0.1)",
    ]
    assert not access.check(alice, Right.READ, "x", "images").allowed
    assert not access.check(alice, Right.READ, "x", "calls").allowed
    # a list that already applied to other resources
    limited = {**after, "state": AccessPolicy(lists=(nobody,))}
    assert access.replace_rules(AccessRules(policies=limited, own_user="nn")) == ["the lists that apply to state"]
    assert access.replace_rules(AccessRules(policies=limited, own_user="nn")) == []
    assert not access.check(alice, Right.READ, "x", "state").allowed


def test_changed_hosts_are_looked_up_at_once() -> None:
    asked = []

    def look_up(name: str) -> list[str]:
        asked.append(name)
        return ["10.0.0.9"]

    access = AccessControl(AccessRules(("first",)), look_up=look_up, clock=lambda: 0.0)
    assert access.check(Caller("10.0.0.9"), Right.READ, "x").allowed
    access.replace_rules(AccessRules(("second",)))
    assert access.check(Caller("10.0.0.9"), Right.READ, "x").allowed
    assert asked == ["first", "second"]
    assert access.replace_rules(AccessRules(("10.0.0.1",))) == ["the hosts that may call (second) → (10.0.0.1)"]
    assert not access.check(Caller("10.0.0.9"), Right.READ, "x").allowed
