"""Decisions of the checks of NameNodes and of the leader, based on constructed facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checkpointer.checks.ask_kerberos import ask_kerberos
from checkpointer.checks.facts import JournalFacts, LockFacts, NameDirectories, NameNodeFacts, Observation
from checkpointer.checks.registry import CHECKS, perform, state_of
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict, Metric, State, worst
from checkpointer.leadership.leadership_state import Leader
from checkpointer.leadership.lock_backend import LockHolder
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import PROCESS
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.principals import ServerPrincipal
from hadoop_rpc.tickets import TicketCaches
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.check_facts import BY_NAME, DOWN, INFO, NOW, decide, down, facts, namenode


def test_all_checks_are_ok() -> None:
    outcomes = perform(CHECKS, facts(), Thresholds())
    assert [(each.name, each.verdict.state) for each in outcomes] == [(check.name, State.OK) for check in CHECKS]
    assert state_of(outcomes) is State.OK
    assert not any(each.hint for each in outcomes)


@pytest.mark.parametrize("name", ["transactions", "edits", "version"])
def test_hint_of_an_unknown_result_advises_against_changes(name: str) -> None:
    (outcome,) = perform([BY_NAME[name]], facts(namenodes=(down(1), down(2))), Thresholds())
    assert outcome.verdict.state is State.UNKNOWN
    assert "do not change anything" in outcome.hint


# ---- namenode, ha, version ----


def test_hint_for_a_web_server_that_refuses_access() -> None:
    refused: Observation[Any] = Observation(error="HTTP 401", hint="Set the key.")
    assert decide("namenode", namenodes=(namenode(beans=refused),)).hint == "Set the key."
    assert decide("namenode", namenodes=(namenode(1), namenode(2, beans=refused))).hint == "Set the key."
    assert decide("namenode", namenodes=(replace(down(), beans=refused),)).hint == ""


@pytest.mark.parametrize(
    ("nodes", "state"),
    [
        ((namenode(1), namenode(2)), State.OK),
        ((namenode(1), down(2)), State.WARNING),
        ((namenode(1), namenode(2, beans=DOWN)), State.WARNING),
        ((down(1), down(2)), State.CRITICAL),
        ((namenode(1, last_txid=DOWN),), State.CRITICAL),
    ],
)
def test_namenode_check(nodes: tuple[NameNodeFacts, ...], state: State) -> None:
    found = decide("namenode", namenodes=nodes)
    assert found.state is state
    assert len(found.details) == 2 * len(nodes)


def stored(used: int, *failed: str, images: bool = True) -> Observation[NameDirectories]:
    return Observation(NameDirectories(used=used, failed=failed, images=images))


@pytest.mark.parametrize(
    ("nodes", "state", "words"),
    [
        ((namenode(directories=stored(2)),), State.OK, "1 of 1 reachable by RPC and HTTP"),
        ((namenode(directories=DOWN),), State.OK, "1 of 1 reachable by RPC and HTTP"),
        ((namenode(directories=stored(1, "/n/2")),), State.WARNING, "uses 1 of its 2 storage directories: /n/2"),
        ((namenode(directories=stored(0, "/n/1", images=False)),), State.CRITICAL, "1 of its 1 storage directory"),
        ((namenode(1), namenode(2, directories=stored(1, "/n/2"))), State.WARNING, "http://nn2:9870 no longer uses"),
        (
            (namenode(1), namenode(2, state=Observation("STANDBY"), directories=stored(0, "/n/1", images=False))),
            State.WARNING,
            "/n/1",
        ),
        ((namenode(1, directories=stored(1, "/n/2")), down(2)), State.WARNING, "1 of 2 reachable"),
    ],
)
def test_directories_that_a_namenode_no_longer_uses_are_reported(
    nodes: tuple[NameNodeFacts, ...], state: State, words: str
) -> None:
    found = decide("namenode", namenodes=nodes)
    assert found.state is state
    assert words in found.summary
    if len(nodes) == 1:
        assert ("-restoreFailedStorage true" in found.hint) is (state is not State.OK)


def test_namenode_that_does_not_show_its_metrics_is_reachable() -> None:
    found = decide("namenode", namenodes=(namenode(beans=Observation({})),))
    assert found.state is State.OK
    assert found.details[1].endswith("answers, but does not show its metrics")


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("ACTIVE", "STANDBY"), State.OK),
        (("ACTIVE", "STANDBY", "OBSERVER"), State.OK),
        (("ACTIVE", None), State.OK),
        (("STANDBY", None), State.UNKNOWN),
        (("STANDBY", "STANDBY"), State.CRITICAL),
        (("ACTIVE", "ACTIVE"), State.CRITICAL),
    ],
)
def test_ha_check(states: tuple[str | None, ...], state: State) -> None:
    nodes = tuple(namenode(n, state=DOWN if each is None else Observation(each)) for n, each in enumerate(states))
    found = decide("ha", is_ha=True, namenodes=nodes)
    assert found.state is state
    if states == ("ACTIVE", "ACTIVE"):
        assert found.hint.startswith("First find the NameNode that writes")
        # after `haadmin -transitionToActive --forcemanual` of one NameNode, the other NameNode may still hold the lock
        assert found.hint.index("newest epoch") < found.hint.index("Without JournalNodes, the writer is the holder")


def test_ha_check_without_ha() -> None:
    assert decide("ha", namenodes=(namenode(state=DOWN),)).state is State.OK


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"cluster_id": "CID-2"}, State.CRITICAL, "cluster_id is CID-2"),
        ({"namespace_id": 8}, State.CRITICAL, "namespace_id"),
        ({"blockpool_id": "BP-2"}, State.CRITICAL, "blockpool_id"),
        ({"blockpool_id": ""}, State.OK, "layout -63"),
        ({"c_time": 5}, State.WARNING, "upgrade"),
        ({"layout_version": -64}, State.WARNING, "upgrade"),
        ({"layout_version": -90}, State.CRITICAL, "-90"),
        ({"layout_version": -40}, State.CRITICAL, "-40"),
    ],
)
def test_version_check(change: dict[str, Any], state: State, word: str) -> None:
    found = decide("version", namenodes=(namenode(storage_info=Observation(replace(INFO, **change))),))
    assert found.state is state
    assert word in found.summary


def test_another_cluster_is_not_reported_as_an_upgrade() -> None:
    other = replace(INFO, cluster_id="CID-2", namespace_id=8, c_time=5)
    found = decide("version", namenodes=(namenode(storage_info=Observation(other)),))
    assert "cluster_id" in found.summary
    assert "upgrade" not in found.summary


def test_version_check_of_the_journal_and_without_versions() -> None:
    other = JournalFacts(place="/shared/current", storage_info=Observation(replace(INFO, cluster_id="CID-9")))
    assert decide("version", journal=other).state is State.CRITICAL
    lost = JournalFacts(place="/shared/current", storage_info=DOWN)
    assert decide("version", journal=lost).state is State.UNKNOWN
    unknown = decide("version", namenodes=(down(),))
    assert (unknown.state, unknown.summary) == (State.UNKNOWN, "the namespace of nn1:8020 cannot be read")
    assert decide("version", namenodes=(down(),), directories=()).state is State.UNKNOWN


# ---- the leader ----


LEADER = Leader(host="b", pid=7, role="secondary", address="0.0.0.0:9868", since=NOW - 900)


def lock(holding: Observation[LockHolder | None], *, host: str = "a", required: bool = False) -> CheckVerdict:
    found = LockFacts(
        lock="ZooKeeper /hadoop-checkpointer/ns1/leader",
        required=required,
        host=host,
        address="0.0.0.0:9868",
        holding=holding,
    )
    return decide("leader", lock=found)


def test_leader_check_names_the_leader_and_the_lock() -> None:
    found = lock(Observation(LockHolder(LEADER, NOW - 600)))
    assert found.state is State.OK
    assert found.summary == (
        "secondary on b (process 7, HTTP 0.0.0.0:9868) has led for 10 min 0 s; the daemon of this configuration is not "
        "the leader (best effort, lock: ZooKeeper /hadoop-checkpointer/ns1/leader)"
    )
    assert found.details[0] == "since 1970-01-12T13:36:40+00:00"
    ours = lock(Observation(LockHolder(LEADER, NOW - 600)), host="b", required=True)
    assert "this is the daemon of this configuration (required, lock:" in ours.summary
    assert "a daemon whose entry cannot be read has led for" in lock(Observation(LockHolder(None, NOW))).summary


def test_leader_check_without_a_leader_or_an_answer() -> None:
    assert decide("leader").summary.startswith("this daemon works alone")
    nobody = lock(Observation())
    assert (nobody.state, nobody.summary.partition(" (")[0]) == (State.WARNING, "no daemon leads")
    assert lock(DOWN).state is State.WARNING
    assert "checkpoints continue without it: connection refused" in lock(DOWN).summary
    required = lock(DOWN, required=True)
    assert required.state is State.CRITICAL
    assert "checkpoints stop without it" in required.summary


# ---- thresholds and the combined result ----


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ([], State.OK),
        ([State.OK, State.UNKNOWN], State.UNKNOWN),
        ([State.UNKNOWN, State.WARNING], State.WARNING),
        ([State.CRITICAL, State.UNKNOWN, State.WARNING], State.CRITICAL),
    ],
)
def test_worst_state(states: list[State], state: State) -> None:
    assert worst(states) is state


def test_metrics_in_the_plugin_format() -> None:
    assert str(Metric("age", 12, "s")) == "age=12s"
    assert str(Metric("age", 12, "s", critical=5)) == "age=12s;;5"
    assert str(Metric("bytes", 123_456_789_012, "B")) == "bytes=123456789012B"


# ---- kerberos ----


def test_checks_keep_the_login_of_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console runs the checks in the daemon's process, while the keytab in the configuration is missing."""
    server = ServerPrincipal("dfs.namenode.kerberos.principal", "nn/_HOST@R")
    ours = KerberosLogin("sn/h@R", tmp_path / "ours", server, server)
    tried: list[KerberosLogin] = []

    def acquire(_: TicketCaches, login: KerberosLogin) -> None:
        tried.append(login)
        raise KerberosError("no ticket")

    monkeypatch.setattr(KerberosLogin, "check", lambda _: None)
    monkeypatch.setattr(TicketCaches, "acquire", acquire)
    monkeypatch.setattr(PROCESS, "login", ours)
    in_files = SimpleNamespace(login=replace(ours, keytab=tmp_path / "missing"))
    steps = ask_kerberos(cast(CheckpointConfig, SimpleNamespace(kerberos=in_files)), timeout=1.0)
    assert [each.error for each in steps] == ["", "no ticket"]
    assert tried == [ours]
    assert PROCESS.login is ours
