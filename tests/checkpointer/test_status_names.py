"""Operators' scripts rely on the names in /status. The names change only together with this list."""

from __future__ import annotations

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


def words(text: str) -> set[str]:
    return set(text.split())


COMMON = words(
    "role phase phaseSince phaseDone phaseTotal alarms alarmKinds silences acknowledgements nextSteps clusterId "
    "storage storageSpace checkpoints failures lookedAt savedAt savedTxid imageBytes "
    "lastReason "
    "lastOutcome lastSeconds latencySeconds healed healedTotal uploadedAt uploads uploadFailures "
    "ignored ignoredTotal "
    "uploadedBytes lastError lastErrorAt recoveredAt targets archive lake report shadow enabled cancelled leader "
    "secondsSinceCheckpoint "
    "imageTxid journalTxid transactionsBehind error ready message checkpointAt failuresInRow retryAt "
    "appliedTxid sourceTxid activeTxid tailingLagSeconds tailingLagTransactions transactionsSinceRoll journalNodes"
)
LOST = LostPast.of("it was set back", [Path("/b"), Path("/a"), Path("/b")])
LOST_JSON = {"at": LOST.at, "reason": "it was set back", "setAside": ["/a", "/b"]}


def names(details: RoleDetails) -> set[str]:
    return set(as_json(NodeState(role="x", details=details))) - COMMON


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
    target = (
        "address namenodeId state txid rollbackTxid heldTxid result error at failures primary takesFrom reportedAt "
        "sentBytes totalBytes"
    )
    assert set(reported["targets"][0]) == words(target)
    archive = "directory running branch archivedTxid restorableTxid lagTransactions lagSeconds missingTransactions"
    assert set(reported["archive"]) == words(f"{archive} completeAt failures error")
    assert set(reported["lake"]) == words("directory running appendedAt appends failures error")
    assert set(reported["report"]) == words("directory running reportedAt failures error")
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
    assert names(details) == {"namenode", "mergeErrors", "maxRetries", "lostPast"}
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
    assert names(details) == words("state streamTxid namenodeTxid streamed registered lostPast")
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
    own = words("tailedAt rollingUpgrade rollbackImageDue openSegmentFault journal lostPast")
    assert names(StandbyDetails(tailed_at=None, **values)) == own
    nodes = (JournalNodeState(address="jn1"),)
    details = StandbyDetails(tailed_at=5.0, tailing_lag_seconds=0.5, journal_nodes=nodes, **values)
    assert names(details) == own
    assert set(as_json(nodes)[0]) == {"address", "answers", "fault", "lastTxid", "lagTransactions"}
