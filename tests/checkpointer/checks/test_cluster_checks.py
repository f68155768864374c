"""Decisions of the checks of NameNodes and of the leader, based on constructed facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkpointer.checks.facts import JournalFacts, NameDirectories, NameNodeFacts, Observation
from checkpointer.checks.registry import perform
from checkpointer.checks.thresholds import Thresholds, parse_thresholds
from checkpointer.checks.verdict import State
from journal.quorum.node_answers import NodeAnswer
from tests.checkpointer.check_facts import (
    BY_NAME,
    DOWN,
    FROM_61,
    INFO,
    UNTIL_60,
    decide,
    down,
    facts,
    journal,
    namenode,
    node,
    silent,
)

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


def test_namenode_that_refuses_this_user_is_not_down() -> None:
    refused: Observation[int] = Observation(error="Access denied", hint="Run it as the daemon's user.", refused=True)
    found = decide("namenode", namenodes=(namenode(1, last_txid=refused),))
    assert (found.state, found.hint) == (State.UNKNOWN, "Run it as the daemon's user.")
    assert found.summary == "0 of 1 reachable by RPC and HTTP; 1 of 1 refuse the queries of this user"
    assert decide("namenode", namenodes=(namenode(1, last_txid=refused, beans=DOWN),)).state is State.CRITICAL


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
    # VERSION and the configuration are right during an upgrade
    assert found.hint.startswith("During an upgrade, no action is needed") == (state is State.WARNING)


@pytest.mark.parametrize("change", [{"c_time": 5}, {"layout_version": -64}])
def test_upgrade_needs_no_action_only_if_the_cluster_agrees(change: dict[str, Any]) -> None:
    upgraded = Observation(replace(INFO, **change))
    pair = (namenode(1, storage_info=upgraded), namenode(2))
    journal = JournalFacts(place="/shared/current", storage_info=Observation(INFO))
    for found in (
        decide("version", namenodes=pair),
        decide("version", namenodes=pair, directories=()),
        decide("version", namenodes=pair[:1], journal=journal),
    ):
        assert found.state is State.WARNING
        assert "each standby NameNode must be bootstrapped again" in found.hint
    both = (pair[0], namenode(2, storage_info=upgraded))
    found = decide("version", namenodes=both, journal=replace(journal, storage_info=upgraded))
    assert found.hint.startswith("During an upgrade, no action is needed")


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


# Response of a Hadoop 3.5.0 JournalNode after its syncer fetched a segment whose end it had missed.
OVERLAP = (
    "IllegalStateException: Invalid log manifest (log [4-? (in-progress)] overlaps [7-? (in-progress)]) [[1,3], [4,6], "
    "[7-? (in-progress)], [4-? (in-progress)]] CommittedTxId: -12345"
)


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        (OVERLAP, "move the file out of `current`"),
        ("IllegalStateException: Invalid log manifest (log [5,9] overlaps [4,6])", "docs/runbook.md"),
        ("no answer", "docs/runbook.md"),
    ],
)
def test_hint_for_a_failing_journal_node_does_not_say_reformat(fault: str, hint: str) -> None:
    nodes = (NodeAnswer("jn1:8485", fault=fault), NodeAnswer("jn2:8485"), NodeAnswer("jn3:8485"))
    journal = JournalFacts(place="qjournal://…", nodes=nodes)
    (outcome,) = perform([BY_NAME["journalnodes"]], facts(journal=journal), Thresholds())
    assert outcome.verdict.state is State.WARNING
    assert hint in outcome.hint
    assert ("edits_inprogress_0000000000000000004" in outcome.hint) == (fault is OVERLAP)
    assert "reformatted" not in outcome.hint


def test_a_journal_node_that_refuses_our_login_is_not_repaired() -> None:
    refusing = NodeAnswer("jn1:8485", fault="AuthorizationException: …", hint="Call as nn/h@R.")
    journal = JournalFacts(place="qjournal://…", nodes=(refusing, node(2), node(3)))
    (outcome,) = perform([BY_NAME["journalnodes"]], facts(journal=journal), Thresholds())
    assert (outcome.verdict.state, outcome.hint) == (State.WARNING, "Call as nn/h@R.")


@pytest.mark.parametrize(
    ("nodes", "state", "summary"),
    [
        ((), State.OK, "not on JournalNodes"),
        ((node(1), node(2), node(3)), State.OK, "3 of 3 answer by RPC and HTTP; the node furthest behind lacks 0"),
        ((node(1), node(2, 50), node(3)), State.OK, "lacks 50"),
        ((node(1), node(2, 49), node(3)), State.WARNING, "lacks 51"),
        ((node(1), silent(2), node(3)), State.WARNING, "2 of 3"),
        ((node(1), silent(2), silent(3)), State.CRITICAL, "1 of 3"),
        ((node(1), node(2, http_fault="no answer"), node(3)), State.WARNING, "2 of 3"),
        (
            (node(1), node(2, same_namespace=False), node(3, same_namespace=False)),
            State.CRITICAL,
            "; 2 of 3 store the journal of another namespace",
        ),
        ((node(1, same_namespace=None), node(2), node(3)), State.OK, "3 of 3"),
        (
            (node(1, logs=FROM_61), node(2, logs=FROM_61), node(3, logs=UNTIL_60)),
            State.WARNING,
            "written to jn3:8485 until",
        ),
        ((node(1, logs=UNTIL_60), node(2, 60), node(3, logs=UNTIL_60)), State.OK, "3 of 3"),
        # the NameNode died before it began the segment on the other JournalNodes
        ((node(1, logs=FROM_61), node(2, logs=UNTIL_60), node(3, logs=UNTIL_60)), State.OK, "lacks 40"),
    ],
)
def test_journal_nodes_check(nodes: tuple[NodeAnswer, ...], state: State, summary: str) -> None:
    found = decide("journalnodes", journal=replace(journal(), nodes=nodes))
    assert found.state is state
    assert summary in found.summary
    assert len(found.details) == len(nodes)


def test_journals_of_another_namespace_are_not_called_lost() -> None:
    """The repair of a JournalNode that lost its disk would format the journal of the other cluster."""
    foreign = node(3, 5_000_000, same_namespace=False)
    found = decide("journalnodes", journal=replace(journal(), nodes=(node(1), node(2), foreign)))
    assert found.state is State.WARNING
    assert [str(metric) for metric in found.metrics] == ["journalnodes=2", "lag=0;50"]
    assert "the node furthest behind lacks 0 transactions" in found.summary
    assert found.details[0].startswith("jn1:8485: last txid 100, 0 behind")
    assert found.details[2] == "jn3:8485: its journal belongs to another namespace"
    assert "Do not format a JournalNode" in found.hint


def test_journal_nodes_check_details() -> None:
    nodes = (node(1), node(2, 98), silent(3))
    found = decide("journalnodes", journal=replace(journal(), nodes=nodes))
    assert found.details == (
        "jn1:8485: last txid 100, 0 behind, committed txid 95, epoch 3",
        "jn2:8485: last txid 98, 2 behind, committed txid 95, epoch 3",
        "jn3:8485: connection refused",
    )
    assert [str(metric) for metric in found.metrics] == ["journalnodes=2", "lag=2;50"]
    strict = Thresholds(warning=parse_thresholds(["journalnodes=0"]), critical=parse_thresholds(["journalnodes=1"]))
    assert decide("journalnodes", strict, journal=replace(journal(), nodes=nodes[:2])).state is State.CRITICAL
    assert decide("journalnodes").state is State.OK
