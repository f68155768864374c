"""The page of a daemon."""

from __future__ import annotations

import time
from typing import Any

import pytest

from console.daemon_page import restart_cost
from console.server_pages import page_of
from node_state.state import NodeState, TargetState, as_json
from tests.console.console_support import FULL, client_of, daemon_state, text_of


def test_page_of_a_daemon_shows_state_and_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("console.blueprint.page_of", lambda status, _: page_of(status, now))
    text = text_of(client_of(daemon_state(now)).get("/").text)
    for shown in (
        "Checkpointer, role standby · CID-1",
        "Active NameNode nn1",
        "save: 400.0 MB of 1.0 GB, about 1 min 0 s left",
        "would replay 6,000,030 transactions at http://nn1:9870, about 1 min 0 s",
        FULL,
        "Next: Free space on that disk.",
        "Failures since the last success: 4; last error: HTTP 413",
        "jn3:8485: cannot connect",
        "nn1 http://nn1:9870 active 100 6,000,030 16 min 30 s ago accepted 16 min 30 s ago",
        "/data/1 in use 100.0 GB 1.0 TB",
        "disk full (33 min 20 s ago)",
    ):
        assert shown in text.replace("Good: ", ""), shown


def target(address: str, **values: Any) -> TargetState:
    return TargetState(address=address, **values)


@pytest.mark.parametrize(
    ("targets", "shown"),
    [
        ((), None),
        # a refused image is not offered again, but the NameNode does not have it
        ((target("nn1", txid=90, result="OLD_TRANSACTION_ID_FAILURE", error="too recent"),), "unknown"),
        ((target("nn1", txid=90, held_txid=0, error="too recent"),), "would replay 100 transactions, "),
        ((target("nn1", held_txid=90), target("nn2", held_txid=40)), "would replay 60 transactions at nn2"),
        ((target("nn1", held_txid=90), target("nn2", result="standby")), "would replay 10 transactions at nn1"),
    ],
)
@pytest.mark.parameters(5)
def test_restart_cost_depends_on_the_oldest_image(targets: tuple[TargetState, ...], shown: str | None) -> None:
    state = NodeState(role="standby", image_txid=100, journal_txid=100, targets=targets)
    fact = restart_cost(as_json(state))
    assert (fact is None) is (shown is None)
    assert fact is None or fact.text.startswith(shown or "")
