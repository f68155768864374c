"""The state of a node at one moment as a typed value, the source of /status, /metrics and the beans of /jmx.

In JSON, each field has its name in camel case (`image_txid` becomes `imageTxid`), so names are defined only here.
docs/schemas/status.json is generated from these fields. Readers of /status convert the response back with `from_json`.
Every field is always present. Times are the ends of events in seconds since the epoch; None means never or unknown, and
is null in JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from engine.healing import HealedFault
from node_state.alarm_marks import AlarmAcknowledgement, AlarmSilence

T = TypeVar("T")

IN_USE = "in use"
"""State of a storage directory that was not dropped."""
METRIC = "metric"
"""Key of a field's metadata with its `MetricField`."""


@dataclass(frozen=True, slots=True)
class MetricField:
    """The metric of a state's field; `name` does not include the prefix."""

    name: str
    documentation: str
    is_counter: bool = False


def gauge(name: str, documentation: str, default: T) -> T:
    """Declare a field that is also a gauge. None, and -1 for a transaction id, result in a metric without a sample."""
    made: Any = field(default=default, metadata={METRIC: MetricField(name, documentation)})
    value: T = made
    return value


def counter(name: str, documentation: str) -> int:
    """Declare a field that is also a counter."""
    made: Any = field(default=0, metadata={METRIC: MetricField(name, documentation, is_counter=True)})
    value: int = made
    return value


# types that JSON represents directly
_PLAIN = {str, int, float, bool, type(None)}

# metadata of a part whose fields are merged into the whole in JSON
_FLAT = {"flat": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """A NameNode that receives images, and the result of the last offer.

    Attributes:
        txid: newest image that the NameNode has or does not need; -1 before the first image. `rollback_txid` is the
            newest such rollback image.
        held_txid: newest image that the NameNode is known to have; -1 if unknown, or if another daemon sent a newer
            image.
        result: SUCCESS, OLD_TRANSACTION_ID_FAILURE, NOT_ACTIVE_NAMENODE_FAILURE, failed, standby or never.
        error: reason why the NameNode did not accept the last image, "" if it has that image.
        at: time of the last offer.
        failures: number of consecutive failed transfers; 0 while another daemon uploads.
        primary: whether the NameNode accepted our last image.
        namenode_id: id of the NameNode in the nameservice, "" if the nameservice has no HA.
        state: last reported state of the NameNode (active, standby or observer), "" if it does not report its state.
        sent_bytes, total_bytes: progress of the image that is being sent; None if no image is being sent.
        takes_from: time from which the NameNode accepts an image with few transactions; None if it may accept an image
            now.
        reported_at: time when the NameNode last received an image from any checkpointer, according to its report; None
            if unknown.
    """

    address: str
    txid: int = gauge("upload_txid", "Newest image that a NameNode accepted or does not need.", -1)
    rollback_txid: int = -1
    held_txid: int = -1
    result: str = "never"
    error: str = ""
    at: float | None = None
    failures: int = gauge("upload_consecutive_failures", "Consecutive failed uploads to a NameNode.", 0)
    primary: bool = gauge(
        "upload_primary", "1 while a NameNode accepts our images, 0 while another checkpointer is ahead.", True
    )
    takes_from: float | None = None
    reported_at: float | None = None
    namenode_id: str = ""
    state: str = ""
    sent_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNodeState:
    """A JournalNode from which edits are read.

    Attributes:
        answers: whether the node answered the last query; None before the first query. `fault` is the reason if it did
            not answer.
        last_txid: newest transaction that the node reported; -1 if it reported none.
        lag_transactions: number of transactions that this node lacks and other nodes have; None if this node reported
            none.
    """

    address: str
    answers: bool | None = gauge("journal_node_up", "1 if a JournalNode answers, 0 if it does not.", None)
    fault: str = ""
    last_txid: int = -1
    lag_transactions: int | None = gauge(
        "journal_node_lag_transactions",
        "Transactions that other JournalNodes reported, but not this JournalNode.",
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeState:
    """Appends to a lake since the start; `error` is the error of the last append, or "" if it succeeded."""

    directory: str = ""
    running: bool = False
    appended_at: float | None = gauge(
        "lake_last_append_timestamp_seconds",
        "Time of the last append of images and edits to the lake, in seconds since the epoch.",
        None,
    )
    appends: int = counter("lake_appends", "Appends to the lake since the start.")
    failures: int = counter("lake_append_failures", "Failed appends to the lake.")
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportState:
    """Daily reports since the start; `error` is the error of the last report, or "" if it succeeded."""

    directory: str = ""
    running: bool = False
    reported_at: float | None = gauge(
        "report_last_timestamp_seconds", "Time of the last daily report, in seconds since the epoch.", None
    )
    failures: int = counter("report_failures", "Failed daily reports.")
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveState:
    """The archive that this daemon fills.

    Attributes:
        running: whether the archive process is running.
        branch: branch of the archive to which the present history is archived, "" before the first round.
        complete_at: last time when every transaction that this daemon can read was archived and could be restored.
        error: reason why the daemon cannot fill the archive, or "".
    """

    directory: str = ""
    running: bool = False
    branch: str = ""
    archived_txid: int = gauge("archive_txid", "Newest archived transaction.", -1)
    restorable_txid: int = gauge("archive_restorable_txid", "Newest transaction that the archive can restore.", -1)
    lag_transactions: int | None = gauge(
        "archive_lag_transactions", "Known transactions that the archive cannot restore yet.", None
    )
    lag_seconds: float | None = gauge(
        "archive_lag_seconds",
        "Seconds since everything that the daemon can read was last archived, or since the start.",
        None,
    )
    missing_transactions: int = gauge(
        "archive_missing_transactions", "Transactions that were purged before they were archived.", 0
    )
    complete_at: float | None = None
    failures: int = counter("archive_failures", "Failed attempts to fill the archive since the start.")
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowState:
    """Comparisons of the NameNodes' images with ours in shadow mode, in the last 7 days.

    Attributes:
        txid: transaction id of the last compared image; -1 before the first comparison. `difference` is the newest
            difference, or "" if there is none.
    """

    compared: int = gauge("shadow_compared", "Images of NameNodes that were compared with ours in the last 7 days.", 0)
    equal: int = gauge("shadow_equal", "Images of the last 7 days that are equal to ours.", 0)
    compared_at: float | None = gauge(
        "shadow_last_comparison_timestamp_seconds", "Time of the last comparison, in seconds since the epoch.", None
    )
    txid: int = -1
    difference: str = ""

    def __str__(self) -> str:
        return f"{self.equal} of {self.compared} equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """The leader election among several daemons of one cluster.

    Attributes:
        lock: location of the leader's lock.
        claim: relation of this daemon to the lock: leading, following, uncertain (no valid response now) or away (no
            response for so long that checkpoints no longer depend on the lock).
        leader: last known holder, "" if unknown.
        problem: reason why the lock's backend does not answer, or "".
        terms: number of times that this daemon became the leader.
    """

    lock: str
    claim: str
    leader: str
    problem: str = ""
    terms: int = counter("leader_terms", "Number of times that this daemon became the leader.")

    def __str__(self) -> str:
        match self.claim:
            case "leading":
                return "is the leader"
            case "following":
                return f"is not the leader; {self.leader or 'another daemon'} is the leader"
            case _:
                return f"the leader is unknown{f': {self.problem}' if self.problem else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpace:
    """Space of a storage directory's disk for this process's user."""

    free_bytes: int = gauge("storage_free_bytes", "Free space of a storage directory's disk.", 0)
    total_bytes: int = gauge("storage_total_bytes", "Size of a storage directory's disk.", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBlock:
    """Reason why no checkpoint may begin now, and the remaining time for which it applies."""

    reason: str
    seconds_left: float


ALLOW_AGAIN_HINT = "`checkpointer checkpoint --cancel --minutes 0` allows checkpoints again immediately."
"""Next step for a CheckpointBlock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A node's history of checkpoints and uploads since its start.

    Attributes:
        phase: idle, fetch, load, replay, save, upload, or another phase of the role. The phase began at `phase_since`,
            and has processed `phase_done` of `phase_total` transactions (in replay) or bytes; the total is None if
            unknown.
        looked_at: last time when the positions of the image and the edits were determined.
        saved_at: time when the last image was complete on disk. `saved_txid`, `image_bytes` and `last_reason` (urgent,
            txns, period or forced) describe that image.
        last_outcome: result of the last offered image, "" before the first offer: taken, too recent (until
            `TargetState.takes_from`), refused, failed, nobody (no NameNode is active) or kept (no NameNode is
            configured).
        last_seconds: durations of the last checkpoint's fetch (if any), load, replay and save, and of the last accepted
            upload.
        latency_seconds: time from the last checkpoint's trigger until its image had its final name.
        healed: inconsistencies that the last checkpoint healed. `healed_total` is the number in all checkpoints.
        ignored: number of operations of the last checkpoint that have no effect, neither in this merge nor on a
            NameNode. `ignored_total` is the number in all checkpoints.
        uploaded_at: time of the last upload that a NameNode accepted. `uploads`, `upload_failures` and `uploaded_bytes`
            are totals.
        last_error: last fault of a checkpoint, an upload or a job; a success does not clear it.
        recovered_at: last time when an operation succeeded again after a fault, or another daemon took over the
            operation.
    """

    phase: str = "idle"
    phase_since: float | None = None
    phase_done: int = 0
    phase_total: int | None = None
    looked_at: float | None = None
    checkpoints: int = counter("checkpoints", "Checkpoints made since the start.")
    failures: int = counter("checkpoint_failures", "Failed checkpoints since the start.")
    saved_at: float | None = None
    saved_txid: int | None = None
    image_bytes: int | None = gauge("image_size_bytes", "Size of the newest image.", None)
    last_reason: str = ""
    last_outcome: str = ""
    last_seconds: Mapping[str, float] | None = None
    latency_seconds: float | None = gauge(
        "last_checkpoint_latency_seconds",
        "Seconds from the trigger of the last checkpoint until its image was complete.",
        None,
    )
    healed: tuple[HealedFault, ...] = ()
    healed_total: int = counter("healed", "Snapshot inconsistencies that were healed in images.")
    ignored: int = 0
    ignored_total: int = counter("ignored", "Operations that have no effect, neither here nor on a NameNode.")
    uploaded_at: float | None = None
    uploads: int = counter("uploads", "Images that NameNodes accepted since the start.")
    upload_failures: int = counter("upload_failures", "Failed uploads since the start.")
    uploaded_bytes: int = 0
    last_error: str = ""
    last_error_at: float | None = gauge(
        "last_error_timestamp_seconds",
        "Time of the last failure of a checkpoint or an upload, in seconds since the epoch.",
        None,
    )
    recovered_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleDetails:
    """State of a node's edit tail; roles add further fields. Fields that do not apply to a role are None.

    Attributes:
        applied_txid: newest transaction in memory. `source_txid` is the newest transaction that was found in the
            journal, and `active_txid` the newest transaction of the NameNodes at the last query. Each is -1 while
            unknown.
        tailing_lag_seconds: time since edits were last read.
        tailing_lag_transactions: number of known transactions that are not in memory.
        transactions_since_roll: number of transactions in the open segment.
    """

    applied_txid: int | None = gauge("applied_txid", "Newest transaction in the replayed state.", None)
    source_txid: int | None = gauge("source_txid", "Newest transaction found in the journal.", None)
    active_txid: int | None = gauge("active_txid", "Newest transaction of the NameNodes at the last query.", None)
    tailing_lag_seconds: float | None = gauge(
        "tailing_lag_seconds", "Seconds since edits were last read from the journal.", None
    )
    tailing_lag_transactions: int | None = gauge(
        "tailing_lag_transactions", "Transactions in the journal that have not been replayed yet.", None
    )
    transactions_since_roll: int | None = None
    journal_nodes: tuple[JournalNodeState, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """State of a daemon, or the common part of a NameNode's state.

    Attributes:
        ready: whether this node makes checkpoints on schedule. `message` describes the situation, or the reason for a
            delay.
        image_txid: newest image of this node; -1 if there is none. `journal_txid` is the newest edit, and
            `transactions_behind` the number of transactions that no image contains.
        error: reason why the storage or the journal cannot be read now, which is also an alarm. In that case,
            `image_txid` and `journal_txid` are the last known values, and `transactions_behind` is None.
        alarms: one sentence for each problem that requires an operator's attention; some problems do not prevent
            checkpoints.
        next_steps: next step for each alarm, by the alarm's sentence.
        alarm_kinds: kind of each alarm (`ALARM_KINDS`), by the alarm's sentence.
        silences: silences in effect, by kind of alarm. `acknowledgements` contains the acknowledgements in effect, by
            the alarm's sentence.
        cluster_id: cluster id of the namespace, None while unknown.
        storage: state of each storage directory by path: "in use", or the reason why it was dropped.
        storage_space: space of each directory in use, by path.
        enabled: whether this node makes checkpoints at all. `cancelled` is the reason why no checkpoint may begin now,
            or None if a checkpoint may begin.
        checkpoint_at: time when the newest image was made, as reported by the NameNode, or else time when our image was
            written; None if there is no image. `seconds_since_checkpoint` is the image's age.
        failures_in_row: number of failed attempts since the last success. `retry_at` is the earliest time of the next
            attempt.
        archive, lake, report: states of these functions; None if not configured.
        leader: the leader election; None if it is not configured.
        shadow: the comparisons of shadow mode; None in other modes.
    """

    role: str
    ready: bool = gauge("ready", "1 while checkpoints are made on schedule.", True)
    message: str = ""
    image_txid: int | None = gauge("checkpoint_txid", "Transaction id of the newest image.", None)
    journal_txid: int | None = gauge("journal_txid", "Newest known transaction id of the edit log.", None)
    transactions_behind: int | None = gauge(
        "transactions_since_checkpoint", "Transactions that are not in the newest image.", None
    )
    error: str | None = None
    alarms: tuple[str, ...] = ()
    next_steps: Mapping[str, str] = field(default_factory=dict)
    alarm_kinds: Mapping[str, str] = field(default_factory=dict)
    silences: Mapping[str, AlarmSilence] = field(default_factory=dict)
    acknowledgements: Mapping[str, AlarmAcknowledgement] = field(default_factory=dict)
    cluster_id: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    storage_space: Mapping[str, StorageSpace] = field(default_factory=dict)
    enabled: bool = True
    cancelled: CheckpointBlock | None = None
    checkpoint_at: float | None = gauge(
        "last_checkpoint_timestamp_seconds", "Time when the newest image was made, in seconds since the epoch.", None
    )
    seconds_since_checkpoint: float | None = gauge(
        "checkpoint_age_seconds",
        "Seconds since the newest image was made, as reported by a NameNode or found on disk.",
        None,
    )
    failures_in_row: int = gauge("consecutive_failures", "Failed attempts since the last success.", 0)
    retry_at: float | None = None
    targets: tuple[TargetState, ...] = ()
    archive: ArchiveState | None = None
    lake: LakeState | None = None
    report: ReportState | None = None
    leader: LeaderState | None = None
    shadow: ShadowState | None = None
    record: CheckpointRecord = field(default_factory=CheckpointRecord, metadata=_FLAT)
    details: RoleDetails = field(default_factory=RoleDetails, metadata=_FLAT)


def as_json(value: Any) -> Any:
    """Convert a state or a part of it to JSON values."""
    if dataclasses.is_dataclass(value):
        data: dict[str, Any] = {}
        for each in _json_fields(type(value)):  # type: ignore[arg-type]
            content = getattr(value, each.name)
            if each.is_flat:
                data |= as_json(content)
            else:
                data[each.key] = content if type(content) in _PLAIN else as_json(content)
        return data
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def from_json(kind: type[T], data: Any) -> T:
    """Convert JSON made by `as_json` back to a state of `kind`; fields that an older release did not write have their
    defaults.

    Raises:
        ValueError: `data` is not a state of `kind`.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{data!r:.80} is not a {kind.__name__}")  # noqa: TRY004 - a wrong JSON type is an invalid value
    values: dict[str, Any] = {}
    for each in _json_fields(kind):  # type: ignore[arg-type]
        if each.is_flat:
            values[each.name] = from_json(each.hint, data)
        elif each.key in data:
            values[each.name] = _value(each.hint, data[each.key], each.key)
        elif each.is_required:
            raise ValueError(f"{each.key} is missing")
    return kind(**values)


@dataclass(frozen=True, slots=True)
class _JsonField:
    """A field of a state, with its JSON key and its type; the fields of a flat part are merged into the whole."""

    name: str
    key: str
    hint: Any
    is_flat: bool
    is_required: bool


@cache
def _json_fields(kind: type) -> tuple[_JsonField, ...]:
    hints, missing = get_type_hints(kind), dataclasses.MISSING
    return tuple(
        _JsonField(
            each.name,
            _camel(each.name),
            hints[each.name],
            each.metadata == _FLAT,
            each.default is missing and each.default_factory is missing,
        )
        for each in dataclasses.fields(kind)
    )


def _value(hint: Any, data: Any, name: str) -> Any:
    if isinstance(hint, UnionType):
        if data is None:
            return None
        hint = next(each for each in get_args(hint) if each is not type(None))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_json(hint, data)
    kind = get_origin(hint) or hint
    if kind is tuple and isinstance(data, list):
        return tuple(_value(get_args(hint)[0], each, name) for each in data)
    if kind is Mapping and isinstance(data, Mapping):
        return {key: _value(get_args(hint)[1], each, name) for key, each in data.items()}
    if type(data) is kind or (kind is float and type(data) is int):
        return data
    raise ValueError(f"{name} is {data!r:.80}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
