"""What /metrics tells, as one immutable value, and how it is read from a status mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from servlets.transfer_counter import TransferCounter

__all__ = ["JournalNodeMetrics", "MetricsSnapshot", "TargetMetrics", "snapshot_of_status"]


@dataclass(frozen=True, slots=True)
class TargetMetrics:
    """A NameNode that gets images: how the last offer ended (`UploadResult` name, "failed" or "never").

    Attributes:
        txid: newest image it has or does not need, None before the first.
        age_seconds: since the last offer, None before the first.
        failures: transfers that failed in a row.
        primary: whether it took our last image, None where that makes no difference.
    """

    address: str
    result: str
    txid: int | None = None
    age_seconds: float | None = None
    failures: int = 0
    primary: bool | None = None


@dataclass(frozen=True, slots=True)
class JournalNodeMetrics:
    """A JournalNode that edits are read from.

    Attributes:
        up: whether it answered last, None before it was asked.
        lag: transactions of the other nodes that it did not tell of, None where it told of none at all.
    """

    address: str
    up: bool | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The state of a daemon at one moment; None is not known or never, times are seconds since the epoch.

    Attributes:
        phase: idle, load, replay, save, upload, or what else the role does.
        checkpoint_age_seconds: since the last checkpoint, or since the start when there was none.
        phase_seconds: duration of each phase of the last checkpoint.
        latency_seconds: from the trigger of the last checkpoint until its image had its name.
        image_bytes: size of the newest image.
        healed: inconsistencies of snapshots that were healed in images since the start.
        uploads: images that NameNodes took since the start.
        alarms: conditions that need an operator now.
        lake_up: whether the last append to the lake succeeded; None where there is no lake.
        lag_seconds: since edits were last read from the journal.
        lag_transactions: how many transactions the replayed state lies behind the journal.
        source_txid: newest transaction that the journal was seen to hold.
        applied_txid: newest transaction in the replayed state.
        active_txid: newest transaction of any NameNode when they were last asked.
        storage: whether each storage directory is in use, by its path.
    """

    role: str
    version: str
    ready: bool
    started_at: float | None = None
    phase: str = "idle"
    checkpoint_age_seconds: float | None = None
    checkpoint_at: float | None = None
    checkpoint_txid: int | None = None
    journal_txid: int | None = None
    transactions_since_checkpoint: int | None = None
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    latency_seconds: float | None = None
    image_bytes: int | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    checkpoints: int = 0
    failures: int = 0
    uploads: int = 0
    healed: int = 0
    upload_failures: int = 0
    alarms: int = 0
    last_error_at: float | None = None
    lag_seconds: float | None = None
    lag_transactions: int | None = None
    source_txid: int | None = None
    applied_txid: int | None = None
    active_txid: int | None = None
    journal_nodes: tuple[JournalNodeMetrics, ...] = ()
    targets: tuple[TargetMetrics, ...] = ()
    storage: Mapping[str, bool] = field(default_factory=dict)
    lake_up: bool | None = None
    lake_appended_at: float | None = None
    lake_appends: int = 0
    lake_failures: int = 0


def snapshot_of_status(
    status: Mapping[str, Any],
    *,
    now: float,
    ready: bool,
    version: str,
    started_at: float | None = None,
    counter: TransferCounter | None = None,
) -> MetricsSnapshot:
    """The snapshot of a daemon's status mapping at `now` (seconds since the epoch).

    Reads the keys of GET /status: role, phase, alarms, imageTxid, journalTxid, transactionsBehind, savedAt,
    imageBytes, secondsSinceCheckpoint, lastSeconds, latencySeconds, checkpoints, failures, healedTotal, uploads,
    uploadFailures, lastErrorAt, storage, targets, lake; where a role has them sourceTxid, appliedTxid, activeTxid and
    journalNodes, and, there or in its `details`, tailingLagSeconds and tailingLagTransactions. Missing keys are not
    known; without
    a `counter`, uploadedBytes were sent.
    """
    details = status.get("details", {})
    if counter is not None:
        sent, received = counter.sent, counter.received
    else:
        sent, received = int(status.get("uploadedBytes", 0)), 0
    return MetricsSnapshot(
        role=str(status.get("role", "")),
        version=version,
        ready=ready,
        started_at=started_at,
        phase=str(status.get("phase", "idle")),
        checkpoint_age_seconds=status.get("secondsSinceCheckpoint"),
        checkpoint_at=status.get("savedAt"),
        checkpoint_txid=_txid(status.get("imageTxid")),
        journal_txid=status.get("journalTxid"),
        transactions_since_checkpoint=status.get("transactionsBehind"),
        phase_seconds=dict(status.get("lastSeconds") or {}),
        latency_seconds=status.get("latencySeconds"),
        image_bytes=status.get("imageBytes"),
        bytes_sent=sent,
        bytes_received=received,
        checkpoints=int(status.get("checkpoints", 0)),
        failures=int(status.get("failures", 0)),
        healed=int(status.get("healedTotal", 0)),
        uploads=int(status.get("uploads", 0)),
        upload_failures=int(status.get("uploadFailures", 0)),
        alarms=len(status.get("alarms", ())),
        last_error_at=status.get("lastErrorAt"),
        lag_seconds=status.get("tailingLagSeconds", details.get("tailingLagSeconds")),
        lag_transactions=status.get("tailingLagTransactions", details.get("tailingLagTransactions")),
        source_txid=_txid(status.get("sourceTxid")),
        applied_txid=_txid(status.get("appliedTxid")),
        active_txid=_txid(status.get("activeTxid")),
        journal_nodes=tuple(
            JournalNodeMetrics(each["address"], each["answers"], each["lagTransactions"])
            for each in status.get("journalNodes", ())
        ),
        targets=tuple(_target(each, now) for each in status.get("targets", ())),
        storage={path: state == "in use" for path, state in status.get("storage", {}).items()},
        **_lake(status.get("lake")),
    )


def _lake(lake: Mapping[str, Any] | None) -> dict[str, Any]:
    if lake is None:
        return {}
    return {
        "lake_up": not lake["error"],
        "lake_appended_at": lake["appendedAt"],
        "lake_appends": lake["appends"],
        "lake_failures": lake["failures"],
    }


def _target(target: Mapping[str, Any], now: float) -> TargetMetrics:
    at = target.get("at")
    return TargetMetrics(
        address=str(target["address"]),
        result=str(target.get("result", "never")),
        txid=_txid(target.get("txid")),
        age_seconds=None if at is None else max(0.0, now - at),
        failures=int(target.get("failures", 0)),
        primary=target.get("primary"),
    )


def _txid(txid: int | None) -> int | None:
    """A status tells -1 of an image that there is not."""
    return None if txid is None or txid < 0 else txid
