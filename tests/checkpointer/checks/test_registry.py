"""Checks in general: their states, metrics and hints."""

from __future__ import annotations

import pytest

from checkpointer.checks.registry import CHECKS, perform, state_of
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import Metric, State, worst
from tests.checkpointer.check_facts import BY_NAME, down, facts


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
