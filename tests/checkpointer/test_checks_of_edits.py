"""Decisions of the checks of edits and of the nodes that store them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.checks import ask_journal
from checkpointer.checks.ask_journal import _asked_again, _held
from checkpointer.checks.checkpoint_checks import coverage
from checkpointer.checks.facts import DaemonFacts, JournalFacts, Observation
from checkpointer.checks.registry import perform
from checkpointer.checks.thresholds import Thresholds, parse_thresholds
from checkpointer.checks.verdict import State
from hadoop_common.names import SegmentName
from hadoop_rpc.namenode_values import RemoteEditLog
from journal.quorum.address import QuorumAddress
from journal.quorum.node_answers import NodeAnswer, NodeQuery
from node_state.state import NodeState, RoleDetails
from tests.checkpointer.check_facts import (
    BY_NAME,
    DOWN,
    FROM_61,
    UNTIL_60,
    decide,
    down,
    facts,
    image,
    journal,
    namenode,
    node,
    silent,
)

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


@pytest.mark.parametrize(
    ("ours", "segments", "message"),
    [
        (101, (SegmentName(91, 100),), "image at txid 101 is ahead of the NameNode"),
        (95, (SegmentName(91, 100),), "image at txid 95 does not belong to the NameNode's past"),
    ],
)
def test_edits_check_of_an_image_of_another_history(ours: int, segments: tuple[SegmentName, ...], message: str) -> None:
    nodes = (namenode(segments=Observation(segments)),)
    found = decide("edits", namenodes=nodes, image=image(txid=ours))
    assert found.state is State.CRITICAL
    assert message in found.summary
    whole = (namenode(segments=Observation((SegmentName(91, ours), SegmentName(ours + 1, ours + 9)))),)
    assert decide("edits", namenodes=whole, image=image(txid=ours)).state is (
        State.OK if ours <= 100 else State.CRITICAL
    )


@pytest.mark.parametrize(("applied", "state"), [(99, State.WARNING), (70, State.CRITICAL), (None, State.CRITICAL)])
def test_edits_check_of_a_standby_whose_image_is_older_than_the_edits(applied: int | None, state: State) -> None:
    """While another daemon leads, the standby keeps its old image, and the NameNode purges the edits after it."""
    status = Observation(NodeState(role="standby", details=RoleDetails(applied_txid=applied)))
    following = {"daemon": replace(facts().daemon or DaemonFacts(url=""), status=status), "image": image(txid=40)}
    shared = journal(SegmentName(81, 90), SegmentName(91, None))
    (outcome,) = perform([BY_NAME["edits"]], facts(journal=shared, **following), Thresholds())
    assert outcome.verdict.state is state
    assert "our image at txid 40 is too old, because transactions 41-80 are missing" in outcome.verdict.summary
    assert outcome.hint.startswith("The NameNode does not need these edits")
    # these edits follow the NameNode's image, which the daemon fetches immediately or after a restart
    following["rebootstrap"] = True
    (outcome,) = perform([BY_NAME["edits"]], facts(journal=shared, **following), Thresholds())
    assert outcome.verdict.state is (State.OK if state is State.WARNING else State.WARNING)
    assert "fetches the NameNode's image" in outcome.verdict.summary
    assert "Do not restart" not in outcome.hint
    (lost,) = perform([BY_NAME["edits"]], facts(journal=journal(SegmentName(95, None)), **following), Thresholds())
    assert lost.verdict.state is State.CRITICAL
    assert "Do not restart the NameNode" in lost.hint


@pytest.mark.parametrize(
    ("segments", "gaps", "tail"),
    [
        ([(91, 100)], (), None),
        ([(91, 95), (96, None)], (), None),
        ([(91, 95)], (), (96, 100)),
        ([(96, 100)], ((91, 95),), None),
        ([(1, 92), (90, 95), (98, None)], ((96, 97),), None),
        ([(1, 50)], (), (91, 100)),
        ([], (), (91, 100)),
        ([(91, 120)], (), None),
        ([(101, None)], ((91, 100),), None),
        ([(91, 92), (95, 96), (99, 100)], ((93, 94), (97, 98)), None),
    ],
)
def test_coverage_by_segments(
    segments: list[tuple[int, int | None]], gaps: tuple[tuple[int, int], ...], tail: tuple[int, int] | None
) -> None:
    found = coverage(90, [SegmentName(first, last) for first, last in segments], 100)
    assert (found.gaps, found.tail) == (gaps, tail)


@given(
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(1, 30), st.one_of(st.none(), st.integers(0, 8))), max_size=8),
    st.integers(0, 30),
)
def test_coverage_agrees_with_a_count_of_transactions(
    base: int, drawn: list[tuple[int, int | None]], last: int
) -> None:
    segments = [SegmentName(first, None if size is None else first + size) for first, size in drawn]
    held = {txid for each in segments for txid in range(each.first, (last if each.last is None else each.last) + 1)}
    lacking = set(range(base + 1, last + 1)) - held
    found = coverage(base, segments, last)
    reported = {
        txid for first, end in [*found.gaps, *([found.tail] if found.tail else [])] for txid in range(first, end + 1)
    }
    assert reported == lacking
    if found.tail:
        assert not held & set(range(found.tail[0], last + 1))


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


def test_segments_of_all_journal_nodes_are_combined() -> None:
    behind = NodeAnswer("jn3:8485", logs=(RemoteEditLog(1, 40, in_progress=True),))
    assert _held([node(1), node(2), behind]).value == (SegmentName(1, 40), SegmentName(41, None))
    assert "1 of 3 JournalNodes answer" in _held([node(1), silent(2), silent(3)]).error
    foreign = NodeAnswer("jn3:8485", logs=(RemoteEditLog(1, 900),), same_namespace=False)
    assert _held([node(1), node(2), foreign]).value == (SegmentName(1, 40), SegmentName(41, None))
    assert "1 of 3 JournalNodes list the edits of this namespace" in _held([node(1), silent(2), foreign]).error


@pytest.mark.parametrize("newer", [node(3, logs=FROM_61), silent(3)])
def test_only_nodes_without_the_open_segment_are_queried_again(
    newer: NodeAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (node(1, logs=FROM_61), node(2, logs=FROM_61), node(3, logs=UNTIL_60))
    question = NodeQuery(quorum=QuorumAddress.parse("qjournal://jn1;jn2;jn3/j"), user="hdfs", timeout=20)
    asked: list[NodeQuery] = []
    monkeypatch.setattr(ask_journal, "ask_nodes", lambda query: asked.append(query) or [newer])
    assert _asked_again(question, first, 0) == first
    assert asked == []
    assert _asked_again(question, first, 30) == (*first[:2], first[2] if newer.fault else newer)
    assert [(len(query.quorum.nodes), query.timeout) for query in asked] == [(1, 10)]


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"journal": journal(SegmentName(91, 95), SegmentName(96, None))}, State.OK, "no edits are missing"),
        ({"journal": journal(SegmentName(91, 95))}, State.WARNING, "96-100 are not"),
        ({"journal": journal(SegmentName(94, 100))}, State.CRITICAL, "91-93"),
        ({"journal": journal(), "image": image(txid=200)}, State.CRITICAL, "ahead"),
        ({"journal": journal(), "image": Observation(error="no image")}, State.UNKNOWN, "no image"),
        ({"journal": replace(journal(), segments=DOWN)}, State.UNKNOWN, "refused"),
        # the NameNode's open segment is not in any manifest
        ({"namenodes": (namenode(segments=Observation((SegmentName(91, 95),))),)}, State.OK, "no edits are missing"),
        ({"namenodes": (namenode(segments=Observation((SegmentName(93, 95),))),)}, State.CRITICAL, "91-92"),
        ({"namenodes": (namenode(segments=DOWN),)}, State.UNKNOWN, "refused"),
        ({"namenodes": (down(),)}, State.UNKNOWN, "no NameNode"),
    ],
)
def test_edits_check(change: dict[str, Any], state: State, word: str) -> None:
    found = decide("edits", **change)
    assert found.state is state
    assert word in found.summary


def test_long_list_of_gaps_is_shortened() -> None:
    found = decide(
        "edits", journal=journal(*[SegmentName(txid, txid) for txid in range(92, 100, 2)], SegmentName(100, None))
    )
    assert "91-91" in found.summary
    many = decide("edits", image=image(txid=0), journal=journal(*[SegmentName(txid, txid) for txid in range(2, 60, 2)]))
    assert "more" in many.summary
