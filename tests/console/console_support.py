"""A console with a constructed status, and its responses."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask.testing import FlaskClient

from console.blueprint import console_blueprint
from console.sources import ConsoleSources
from hadoop_common.access import AccessControl
from node_state.state import (
    CheckpointRecord,
    JournalNodeState,
    NodeState,
    RoleDetails,
    StorageSpace,
    TargetState,
    as_json,
)
from servlets.application import create_application

FAR = {"REMOTE_ADDR": "192.0.2.7"}

FULL = "storage directory /data/2 is not used: No space left on device"


def daemon_state(now: float | None = None, **changes: Any) -> NodeState:
    """Return a standby that saves an image and has a failed directory, a stuck upload and a lost JournalNode."""
    now = time.time() if now is None else now
    state = NodeState(
        role="standby",
        image_txid=100,
        journal_txid=6_000_130,
        transactions_behind=6_000_030,
        message="6000030 transactions behind, last checkpoint 16 min 40 s ago",
        alarms=(FULL,),
        alarm_kinds={FULL: "directory"},
        next_steps={FULL: "Free space on that disk."},
        cluster_id="CID-1",
        storage={"/data/1": "in use", "/data/2": "No space left on device"},
        storage_space={"/data/1": StorageSpace(free_bytes=10**11, total_bytes=10**12)},
        checkpoint_at=now - 1000,
        targets=(
            TargetState(
                address="http://nn1:9870",
                namenode_id="nn1",
                state="active",
                txid=100,
                held_txid=100,
                result="SUCCESS",
                at=now - 990,
                reported_at=now - 990,
            ),
            TargetState(address="http://nn2:9870", namenode_id="nn2", failures=4, result="failed", error="HTTP 413"),
        ),
        record=CheckpointRecord(
            phase="save",
            phase_since=now - 40,
            phase_done=400_000_000,
            phase_total=1_000_000_000,
            checkpoints=3,
            failures=1,
            saved_at=now - 1000,
            saved_txid=100,
            image_bytes=12345,
            last_seconds={"load": 1.0, "replay": 2.0, "save": 3.0, "upload": 0.5},
            last_error="disk full",
            last_error_at=now - 2000,
        ),
        details=RoleDetails(
            applied_txid=130,
            journal_nodes=(
                JournalNodeState(address="jn1:8485", answers=True, last_txid=130, lag_transactions=0),
                JournalNodeState(address="jn2:8485", answers=True, last_txid=130, lag_transactions=0),
                JournalNodeState(address="jn3:8485", answers=False, fault="cannot connect"),
            ),
        ),
    )
    return replace(state, **changes)


def client_of(status: Mapping[str, Any] | NodeState, **sources: Any) -> FlaskClient:
    """Return a client of a console that shows `status`."""
    reported = as_json(status) if isinstance(status, NodeState) else status
    console = console_blueprint(ConsoleSources(lambda: reported, **sources), AccessControl())
    return create_application(console).test_client()


def text_of(page: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", page).split()))
