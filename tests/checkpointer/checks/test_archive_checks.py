"""Decisions of the check of the archive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkpointer.checks.facts import Observation
from checkpointer.checks.verdict import State
from node_state.state import ArchiveState, NodeState
from tests.checkpointer.check_facts import DOWN, daemon, decide


def archived(**values: Any) -> Observation[NodeState]:
    known = {
        "directory": "/a",
        "branch": "main",
        "archived_txid": 90,
        "restorable_txid": 90,
        "lag_transactions": 3,
        "lag_seconds": 2.0,
    }
    state = NodeState(role="standby", archive=ArchiveState(**{**known, **values}))
    if error := state.archive and state.archive.error:
        state = replace(
            state, alarms=(f"not being filled: {error}",), next_steps={f"not being filled: {error}": "free space"}
        )
    if values.get("lag_seconds"):
        state = replace(state, alarm_kinds={"/a has been incomplete for 400 s": "archive"})
    return Observation(state)


@pytest.mark.parametrize(
    ("status", "state", "word"),
    [
        (Observation(NodeState(role="standby")), State.OK, "is not set"),
        (
            archived(),
            State.OK,
            "every moment of branch main up to transaction 90, 3 transactions behind, last complete 2 s ago",
        ),
        (archived(missing_transactions=4), State.OK, "a purge removed 4 transactions before they were archived"),
        (archived(missing_transactions=4, restorable_txid=80), State.WARNING, "a purge removed 4 transactions"),
        (archived(restorable_txid=-1), State.WARNING, "no image"),
        (archived(branch=""), State.WARNING, "not known yet whether /a contains the present history"),
        (archived(error="disk full"), State.WARNING, "/a is not being filled: disk full"),
        (archived(lag_seconds=400.0), State.WARNING, "has been incomplete"),
        (DOWN, State.UNKNOWN, "refused"),
    ],
)
def test_archive_check(status: Observation[NodeState], state: State, word: str) -> None:
    found = decide("archive", **daemon(status=status))
    assert found.state is state
    assert word in found.summary
    assert (found.hint == "free space") == ("disk full" in word)
