"""Responses of JournalNodes, as a standby reports them."""

from __future__ import annotations

import logging

import pytest

from checkpointer.roles.standby.journal_node_monitor import JournalNodeMonitor
from hadoop_rpc.errors import JavaIOError, NewerTxidError, RpcConnectionError
from node_state.state import JournalNodeState
from tests.checkpointer.service_support import Clock


def test_journal_node_monitor_states() -> None:
    clock = Clock()
    book = JournalNodeMonitor(["a", "b", "c"], clock=clock)
    with book.asking("a") as answered:
        answered(10)
    with pytest.raises(RpcConnectionError), book.asking("b"):
        raise RpcConnectionError("no route")
    assert book.states() == (
        JournalNodeState(address="a", answers=True, last_txid=10, lag_transactions=0),
        JournalNodeState(address="b", answers=False, fault="no route"),
        JournalNodeState(address="c"),
    )
    with book.asking("b") as answered:
        answered(4)
    assert [node.lag_transactions for node in book.states()] == [0, 6, None]
    # earlier reports are kept
    with book.asking("a") as answered:
        answered(-1)
    assert book.states()[0].last_txid == 10


def test_expected_refusal_counts_as_an_answer() -> None:
    book = JournalNodeMonitor(["a"])
    with pytest.raises(NewerTxidError), book.asking("a", may_refuse=True):
        raise NewerTxidError("not yet")
    assert book.states()[0].answers is True
    with pytest.raises(JavaIOError), book.asking("a"):
        raise JavaIOError("not formatted")
    assert book.states()[0].answers is False


def test_slow_answer_counts_as_missing() -> None:
    clock = Clock()
    book = JournalNodeMonitor(["a"], clock=clock)
    with book.asking("a") as answered:
        clock.now += 5.0
        assert book.states()[0].answers is None
        clock.now += 1.0
        assert book.states() == (JournalNodeState(address="a", answers=False, fault="no answer for 6 s"),)
        answered(3)
    assert book.states()[0].answers is True


def test_failures_of_one_node_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    book = JournalNodeMonitor(["a", "b"], clock=clock)
    for question in ("segments", "newest edits", "segments"):
        with pytest.raises(RpcConnectionError), book.asking("b", question):
            raise RpcConnectionError("no route", hint="Repair it.")
        with book.asking("a", question):
            clock.now += 2.0
    with book.asking("b", "newest edits"):
        pass
    with book.asking("b", "segments"):
        pass
    with pytest.raises(RpcConnectionError), book.asking("b", closing=lambda: True):
        raise RpcConnectionError("the client is closed")
    assert [record.getMessage() for record in caplog.records] == [
        "JournalNode b does not report its segments: no route; next: Repair it.",
        "JournalNode b reports its segments again after 6 s, 2 times",
    ]
