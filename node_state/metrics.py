"""GET /metrics: the state of a daemon for Prometheus, based on one snapshot per scrape.

The fields of the state declare most metrics (`state.gauge`, `state.counter`); this module creates the other metrics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint
from prometheus_client.core import InfoMetricFamily, Metric

from hadoop_common.transfer_counter import TransferCounter
from node_state.alarm_kinds import ALARM_KINDS, OTHER
from node_state.state import (
    IN_USE,
    METRIC,
    ArchiveState,
    JournalNodeState,
    LakeState,
    LeaderState,
    MetricField,
    NodeState,
    ReportState,
    ShadowState,
    StorageSpace,
    TargetState,
)
from servlets.metrics import MetricFamilies, families_blueprint, server_families

_FAMILIES = MetricFamilies("hdfs_checkpointer")
_gauge, _counter = _FAMILIES.gauge, _FAMILIES.counter
# results of an offer; each result has a separate series, so that alert rules need not compare strings
_RESULTS = ("SUCCESS", "OLD_TRANSACTION_ID_FAILURE", "NOT_ACTIVE_NAMENODE_FAILURE", "failed", "standby", "never")
_PHASES = ("idle", "load", "replay", "save", "upload")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """A state, and facts about the process.

    `refused` counts refused requests; `now` and `started_at` are seconds since the epoch.
    """

    state: NodeState
    now: float
    version: str
    started_at: float
    counter: TransferCounter
    refused: Mapping[str, int] = field(default_factory=dict)


def metrics_blueprint(snapshot: Callable[[], MetricsSnapshot]) -> Blueprint:
    """Return the blueprint of /metrics; `snapshot` is called once per scrape, from any thread."""
    return families_blueprint(lambda: checkpointer_families(snapshot()))


def checkpointer_families(now: MetricsSnapshot) -> Iterator[Metric]:
    """Convert a snapshot to metric families; for an unknown value, emit HELP and TYPE without a sample."""
    state = now.state
    yield InfoMetricFamily(
        _FAMILIES.prefix, "Version and role of the checkpointer.", {"version": now.version, "role": state.role}
    )
    yield _gauge("up", "1 while the checkpointer answers.", 1.0)
    unreadable = float(state.error is not None)
    yield _gauge("unreadable", "1 while storage or journal cannot be read, 0 while both can be read.", unreadable)
    yield _gauge(
        "alarms", "Conditions that require an operator's attention now; /status lists them.", len(state.alarms)
    )
    raised = [state.alarm_kinds.get(each, OTHER) for each in state.alarms]
    kinds = dict.fromkeys((*ALARM_KINDS, *raised))
    yield _gauge("alarm", "Number of alarms by kind.", [((k,), raised.count(k)) for k in kinds], ("kind",))
    silenced = [((k,), float(k in state.silences)) for k in kinds]
    yield _gauge("alarm_silenced", "1 for a kind of alarm that an operator has silenced.", silenced, ("kind",))
    known = [state.alarm_kinds.get(each, OTHER) for each in state.alarms if each in state.acknowledgements]
    acknowledged = [((k,), float(0 < raised.count(k) == known.count(k))) for k in kinds]
    text = "1 for a kind of alarm if an operator has acknowledged all its present alarms."
    yield _gauge("alarm_acknowledged", text, acknowledged, ("kind",))
    yield _gauge("start_time_seconds", "Start of the process, in seconds since the epoch.", now.started_at)
    for part in (state, state.record, state.details):
        yield from _declared(type(part), [((), part)])
    yield from _phases(state)
    yield _counter(
        "transfer_bytes",
        "Bytes of images and edits transferred over HTTP since the start.",
        [(("sent",), now.counter.sent), (("received",), now.counter.received)],
        ("direction",),
    )
    nodes = state.details.journal_nodes or ()
    yield from _declared(JournalNodeState, [((each.address,), each) for each in nodes], ("node",))
    spaces = state.storage_space.items()
    yield from _declared(StorageSpace, [((path,), each) for path, each in spaces], ("directory",))
    yield from _targets(state.targets, now.now)
    yield _gauge(
        "archive_up",
        "1 while the archive is being filled, 0 while archiving fails.",
        None if state.archive is None else float(not state.archive.error),
    )
    yield from _declared(ArchiveState, [] if state.archive is None else [((), state.archive)])
    yield _gauge(
        "lake_up",
        "1 if the last append to the lake succeeded, 0 if it failed.",
        None if state.lake is None else float(not state.lake.error),
    )
    yield from _declared(LakeState, [((), state.lake or LakeState())])
    yield from _declared(ReportState, [] if state.report is None else [((), state.report)])
    if state.leader is not None:
        leads = float(state.leader.claim == "leading")
        yield _gauge("leading", "1 while this daemon is the leader among the daemons of its cluster.", leads)
        yield from _declared(LeaderState, [((), state.leader)])
    if state.shadow is not None:
        yield from _declared(ShadowState, [((), state.shadow)])
    yield from server_families(_FAMILIES.prefix, now.refused, now.now)


def _declared(
    kind: type, parts: Iterable[tuple[tuple[str, ...], Any]], labels: tuple[str, ...] = ()
) -> Iterator[Metric]:
    """Yield the metrics declared with the fields of `kind`; `parts` are instances of `kind` with their label values."""
    parts = list(parts)
    for each in dataclasses.fields(kind):
        declared: MetricField | None = each.metadata.get(METRIC)
        if declared is not None:
            make = _counter if declared.is_counter else _gauge
            samples = [(values, _number(each.name, getattr(part, each.name))) for values, part in parts]
            yield make(declared.name, declared.documentation, samples, labels)


def _number(name: str, value: Any) -> float | None:
    """Convert a field to a number; a negative transaction id becomes None."""
    if value is None or (name.endswith("txid") and value < 0):
        return None
    return float(value)


def _phases(state: NodeState) -> Iterator[Metric]:
    record = state.record
    phases = dict.fromkeys((*_PHASES, record.phase))
    yield _gauge(
        "phase",
        "1 for the current phase of the checkpointer.",
        [((p,), float(p == record.phase)) for p in phases],
        ("phase",),
    )
    durations = [((name,), float(seconds)) for name, seconds in (record.last_seconds or {}).items()]
    yield _gauge("last_checkpoint_duration_seconds", "Duration of the last checkpoint by phase.", durations, ("phase",))
    yield _gauge(
        "storage_directory_up",
        "1 for a storage directory in use, 0 for a dropped directory.",
        [((path,), float(condition == IN_USE)) for path, condition in state.storage.items()],
        ("directory",),
    )


def _targets(targets: Iterable[TargetState], now: float) -> Iterator[Metric]:
    """Yield one series per NameNode; targets with the same address share a series."""
    by_address = {target.address: target for target in targets}.items()
    yield _gauge(
        "upload_result",
        "1 for the result of the last offer of an image to a NameNode.",
        [((a, r), float(r == t.result)) for a, t in by_address for r in dict.fromkeys((*_RESULTS, t.result))],
        ("target", "result"),
    )
    yield _gauge(
        "upload_age_seconds",
        "Seconds since an image was last offered to a NameNode.",
        [((address,), None if each.at is None else max(0.0, now - each.at)) for address, each in by_address],
        ("target",),
    )
    yield from _declared(TargetState, [((address,), each) for address, each in by_address], ("target",))
