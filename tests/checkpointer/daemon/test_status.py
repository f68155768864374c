"""Operators' scripts rely on the names in /status: each role always reports the keys in the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkpointer.roles.backup.role import BackupDetails
from checkpointer.roles.backup.states import BackupState
from checkpointer.roles.secondary.role import SecondaryDetails
from checkpointer.roles.standby.follower import StandbyDetails
from checkpointer.set_back.start_over import LostPast
from engine.healing import HealedFault
from node_state.state import (
    ArchiveState,
    CheckpointBlock,
    CheckpointRecord,
    JournalNodeState,
    LakeState,
    NodeState,
    ReportState,
    RoleDetails,
    TargetState,
    as_json,
    from_json,
)
from tests.tools.status_schema import FILE

SCHEMA = json.loads(FILE.read_text())
"""The schema, which test_schemas.py compares with the classes; docs/interface.txt records its keys for all releases."""
COMMON = set(SCHEMA["required"])
LOST = LostPast.of("it was set back", [Path("/b"), Path("/a"), Path("/b")])
LOST_JSON = {"at": LOST.at, "reason": "it was set back", "setAside": ["/a", "/b"]}


def names(details: RoleDetails) -> set[str]:
    return set(as_json(NodeState(role="x", details=details))) - COMMON


def names_of_role(role: str) -> set[str]:
    (found,) = (each["then"] for each in SCHEMA["allOf"] if each["if"]["properties"]["role"]["const"] == role)
    return set(found["required"])


def test_keys_of_every_role() -> None:
    """Every key exists in every state, so a script need not check."""
    for state in (NodeState(role="x"), NodeState(role="x", image_txid=1, error="not mounted")):
        assert set(as_json(state)) == COMMON


def test_keys_of_nested_objects() -> None:
    state = NodeState(
        role="x",
        storage={"/s": "in use"},
        cancelled=CheckpointBlock(reason="why", seconds_left=1.5),
        targets=(TargetState(address="nn1"),),
        archive=ArchiveState(directory="/archive"),
        lake=LakeState(directory="/lake"),
        report=ReportState(directory="/reports"),
        record=CheckpointRecord(healed=(HealedFault("code", "INODE", 7, "/p", "kept"),), last_seconds={"load": 1.0}),
    )
    reported = as_json(state)
    assert from_json(NodeState, reported) == state
    assert reported["cancelled"] == {"reason": "why", "secondsLeft": 1.5}
    assert reported["targets"][0].items() >= {"address": "nn1", "result": "never", "sentBytes": None}.items()
    assert reported["archive"].items() >= {"directory": "/archive", "error": ""}.items()
    assert reported["healed"] == [{"code": "code", "section": "INODE", "inode": 7, "path": "/p", "message": "kept"}]
    assert reported["lastSeconds"] == {"load": 1.0}


@pytest.mark.parametrize(
    "reported",
    [
        None,
        {},
        {"role": 1},
        {"role": "x", "failures": True},
        {"role": "x", "targets": {}},
        {"role": "x", "targets": [1]},
    ],
)
def test_invalid_state_is_rejected(reported: Any) -> None:
    with pytest.raises(ValueError, match="is"):
        from_json(NodeState, reported)


def test_unknown_keys_of_another_release_are_ignored() -> None:
    assert from_json(NodeState, {"role": "x", "failures": 2, "new": []}) == NodeState(
        role="x", record=CheckpointRecord(failures=2)
    )


def test_additional_keys_of_a_secondary() -> None:
    details = SecondaryDetails(namenode="nn1:8020", merge_errors=0, max_retries=3, lost_past=LOST)
    assert names(details) == names_of_role("secondary")
    assert as_json(details)["lostPast"] == LOST_JSON


def test_additional_keys_of_a_backup() -> None:
    details = BackupDetails(
        transactions_since_roll=1,
        tailing_lag_transactions=0,
        state=BackupState.JOURNAL_ONLY,
        stream_txid=1,
        namenode_txid=1,
        streamed=1,
        registered=True,
        lost_past=None,
    )
    assert names(details) == names_of_role("backup")
    assert as_json(details)["state"] == BackupState.JOURNAL_ONLY.value


def test_additional_keys_of_a_standby() -> None:
    values = {
        "applied_txid": -1,
        "source_txid": -1,
        "active_txid": -1,
        "tailing_lag_transactions": 0,
        "rolling_upgrade": False,
        "rollback_image_due": False,
        "open_segment_fault": "",
        "journal": "/shared",
        "lost_past": None,
    }
    assert names(StandbyDetails(tailed_at=None, **values)) == names_of_role("standby")
    nodes = (JournalNodeState(address="jn1"),)
    details = StandbyDetails(tailed_at=5.0, tailing_lag_seconds=0.5, journal_nodes=nodes, **values)
    assert names(details) == names_of_role("standby")
