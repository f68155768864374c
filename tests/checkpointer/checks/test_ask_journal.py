"""Facts that `check` collects about journals."""

from __future__ import annotations

import pytest

from checkpointer.checks import ask_journal
from checkpointer.checks.ask_journal import _asked_again, _held
from hadoop_common.names import SegmentName
from hadoop_rpc.namenode_values import RemoteEditLog
from journal.quorum.address import QuorumAddress
from journal.quorum.node_answers import NodeAnswer, NodeQuery
from tests.checkpointer.check_facts import FROM_61, UNTIL_60, node, silent


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
