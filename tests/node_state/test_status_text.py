"""The state of a daemon as text on one screen."""

from __future__ import annotations

from typing import Any

import pytest

from node_state.state import CheckpointRecord, LeaderState, NodeState, ShadowState, TargetState, as_json
from node_state.text import status_lines

NOW = 1_000_000.0


def lines(**changes: Any) -> list[tuple[str, str]]:
    state = {**as_json(NodeState(role="secondary", **changes)), "url": "http://here:9868"}
    return [(line[:16].strip(), line[16:]) for line in list(status_lines(state, NOW, None))[1:]]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (TargetState(address="nn"), "nn: no image was offered yet"),
        (TargetState(address="nn", txid=301_012), "nn: has the image at txid 301012"),
        (
            TargetState(address="nn", txid=7, result="SUCCESS", at=NOW - 5, namenode_id="nn1", state="active"),
            "nn (nn1 active): accepted the image at txid 7, 5 s ago",
        ),
        (
            TargetState(address="nn", txid=7, result="OLD_TRANSACTION_ID_FAILURE", error="too recent"),
            "nn: refused the last image, too recent",
        ),
        (
            TargetState(address="nn", txid=7, result="OLD_TRANSACTION_ID_FAILURE"),
            "nn: does not need the image at txid 7",
        ),
        (
            TargetState(address="nn", txid=7, result="failed", failures=2, error="it was interrupted"),
            "nn: failed transfers since the last success: 2, it was interrupted",
        ),
        (
            TargetState(address="nn", result="standby", state="standby"),
            "nn (standby): is not active, so no image is offered to it",
        ),
        (
            TargetState(address="nn", txid=7, result="SUCCESS", sent_bytes=5_000_000, total_bytes=20_000_000),
            "nn: accepted the image at txid 7, 5.0 MB of 20.0 MB sent (25 %)",
        ),
    ],
)
def test_status_line_of_a_namenode(target: TargetState, message: str) -> None:
    (found,) = [text for label, text in lines(targets=(target,)) if label == "NameNode"]
    assert found == message


def test_status_names_the_leader_of_several_daemons() -> None:
    leader = LeaderState(lock="zk:2181", claim="following", leader="host2:9868")
    assert ("leadership", "is not the leader; host2:9868 is the leader") in lines(leader=leader)
    assert "leadership" not in dict(lines())


def test_status_of_shadow_mode() -> None:
    assert dict(lines(shadow=ShadowState()))["shadow mode"] == "0 of 0 equal in 7 days"
    compared = ShadowState(compared=2, equal=1, compared_at=NOW - 60, txid=9)
    assert dict(lines(shadow=compared))["shadow mode"].startswith("1 of 2 equal in 7 days, the last image at txid 9, ")


def test_status_without_any_known_transaction() -> None:
    assert dict(lines(image_txid=-1, journal_txid=-1, transactions_behind=0))["edits"] == (
        "0 transactions without an image"
    )


def test_alarm_is_followed_by_its_next_step() -> None:
    found = lines(alarms=("it is full", "it is late"), next_steps={"it is full": "Free space."}, cluster_id="CID-1")
    start = found.index(("alarm", "it is full"))
    assert found[start : start + 3] == [("alarm", "it is full"), ("", "next: Free space."), ("alarm", "it is late")]
    assert ("cluster", "CID-1") in found


def test_status_lines_of_the_last_checkpoint() -> None:
    seconds = {"fetch": 2.0, "load": 1.0, "replay": 3.0, "save": 4.0, "upload": 0.5}
    record = CheckpointRecord(saved_at=NOW - 60, saved_txid=9, last_reason="txns", last_seconds=seconds)
    found = dict(lines(image_txid=9, record=record))
    assert found["last took"] == "fetch 2.0 s, load 1.0 s, replay 3.0 s, save 4.0 s, upload 0.5 s"
    assert found["image"].endswith("(by the number of transactions)")


def test_time_of_another_image_is_not_shown() -> None:
    """The newest image was fetched after the last checkpoint, or the last checkpoint made a rollback image."""
    record = CheckpointRecord(saved_at=NOW - 60, saved_txid=389, last_reason="forced", image_bytes=8800)
    assert dict(lines(image_txid=237, record=record))["image"] == "txid 237"
