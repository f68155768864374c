"""The state of a node at one moment, as one typed value: /status, /metrics and the beans of /jmx are made of it.

JSON has each field under its name in camel case (`image_txid` is `imageTxid`), so names stand here and nowhere else;
docs/schemas/status.json is made of them, and who reads /status gets the value back by `from_json`. No field is ever
missing.
Times are seconds since the epoch and mark an event's end; None is never, or not known, and null in JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from engine.healing import HealedFault

T = TypeVar("T")

# of a part: JSON has its fields beside those of the whole
_FLAT = {"flat": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """A NameNode that gets images, and how the last offer ended.

    Attributes:
        txid: newest image that it has or needs no more, -1 before the first; `rollback_txid`: of rollback images.
        result: SUCCESS, OLD_TRANSACTION_ID_FAILURE, NOT_ACTIVE_NAMENODE_FAILURE, failed, standby or never.
        error: why it does not have that image, "" where it has.
        at: when that was.
        failures: transfers that failed in a row.
        primary: whether it took our last image.
        namenode_id: of the nameservice, "" without HA.
        state: active, standby or observer as it said last, "" where it does not say.
        sent_bytes, total_bytes: of the image that is on its way there, None while none is.
        takes_from: when it takes an image again that brings few transactions, None where it may take one now.
    """

    address: str
    txid: int = -1
    rollback_txid: int = -1
    result: str = "never"
    error: str = ""
    at: float | None = None
    failures: int = 0
    primary: bool = True
    takes_from: float | None = None
    namenode_id: str = ""
    state: str = ""
    sent_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNodeState:
    """A JournalNode that edits are read from.

    Attributes:
        answers: whether it answered last, None before it was asked; `fault` says why not.
        last_txid: newest transaction that it told of, -1 for none.
        lag_transactions: how far that is behind the other nodes, None where it told of none.
    """

    address: str
    answers: bool | None = None
    fault: str = ""
    last_txid: int = -1
    lag_transactions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeState:
    """Appends to a lake since the start; `error` of the last one, "" where it succeeded."""

    directory: str = ""
    running: bool = False
    appended_at: float | None = None
    appends: int = 0
    failures: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """Which of several daemons for one cluster makes the checkpoints.

    Attributes:
        lock: what keeps the lock that one of them has.
        claim: how this daemon stands to it: leading, following, uncertain (there is no answer that still holds) or
            away (there was none for so long that nothing follows from the lock).
        leader: who had it when it was last seen, "" where that is not known.
        problem: why its keeper does not answer, "" where it does.
        terms: how often the lock came to this daemon.
    """

    lock: str
    claim: str
    leader: str
    problem: str = ""
    terms: int = 0

    def __str__(self) -> str:
        match self.claim:
            case "leading":
                return "leads"
            case "following":
                return f"stands by, {self.leader or 'another'} leads"
            case _:
                return f"who leads is not known{f': {self.problem}' if self.problem else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Why no checkpoint may begin now, and for how long."""

    reason: str
    seconds_left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a node remembers of its checkpoints and uploads since its start.

    Attributes:
        phase: idle, fetch, load, replay, save, upload, or what else the role does.
        looked_at: when it was last found out how far image and edits are.
        saved_at: when an image was last complete on disk; `saved_txid`, `image_bytes` and `last_reason` (urgent, txns,
            period or forced) are of that one.
        last_outcome: how the image that was offered last fared: taken, too recent (`TargetState.takes_from` says from
            when on the next is taken), refused, failed, nobody (none is active), kept (no NameNode is configured), ""
            before the first.
        last_seconds: duration of fetch (if any), load, replay and save of the last checkpoint, and of the last upload
            that was taken.
        latency_seconds: from the trigger of the last checkpoint until its image had its name.
        healed: what the last checkpoint healed; `healed_total`: how often something was.
        ignored: how many operations of the last checkpoint changed nothing, as on a NameNode; `ignored_total`: of all.
        uploaded_at: when a NameNode last took an image; `uploads`, `upload_failures`, `uploaded_bytes` are over all.
        last_error: newest fault of a checkpoint or an upload; it stays when the next succeeds.
    """

    phase: str = "idle"
    looked_at: float | None = None
    checkpoints: int = 0
    failures: int = 0
    saved_at: float | None = None
    saved_txid: int | None = None
    image_bytes: int | None = None
    last_reason: str = ""
    last_outcome: str = ""
    last_seconds: Mapping[str, float] | None = None
    latency_seconds: float | None = None
    healed: tuple[HealedFault, ...] = ()
    healed_total: int = 0
    ignored: int = 0
    ignored_total: int = 0
    uploaded_at: float | None = None
    uploads: int = 0
    upload_failures: int = 0
    uploaded_bytes: int = 0
    last_error: str = ""
    last_error_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleDetails:
    """How a node follows the edits; a role adds its own fields. What does not apply to a role is None.

    Attributes:
        applied_txid: newest transaction in memory; `source_txid`: that the journal was seen to hold; `active_txid`: of
            the NameNodes when they were last asked. Each is -1 before the first time.
        tailing_lag_seconds: since edits were last read.
        tailing_lag_transactions: how many transactions memory is behind.
        transactions_since_roll: in the open segment.
    """

    applied_txid: int | None = None
    source_txid: int | None = None
    active_txid: int | None = None
    tailing_lag_seconds: float | None = None
    tailing_lag_transactions: int | None = None
    transactions_since_roll: int | None = None
    journal_nodes: tuple[JournalNodeState, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A daemon, or a NameNode as far as it is the same.

    Attributes:
        ready: whether checkpoints are made as they fall due; `message`: how it stands, or why not.
        image_txid: newest image here, -1 for none; `journal_txid`: newest edit; `transactions_behind`: in no image.
        error: why the first two are only those last known, and the third is None, where storage or journal cannot be
            read now.
        alarms: what an operator has to see to, a sentence each; not each of them keeps checkpoints from being made.
        next_steps: what to do about an alarm, by its sentence; not each of them has one.
        cluster_id: of the namespace, None while the storage does not tell.
        storage: each storage directory by its path: "in use", or why it was dropped.
        enabled: whether checkpoints are to be made at all; `cancelled`: None, or why none may begin now.
        checkpoint_at: when the newest image was made: as the NameNode tells it, else when ours was written; None where
            there is none yet. `seconds_since_checkpoint` is its age.
        failures_in_row: attempts that failed since the last that did not; `retry_at`: when the next may be made.
        lake: None where none is configured.
        leader: how this daemon stands to others for the same cluster, None where it does not know of any.
    """

    role: str
    ready: bool = True
    message: str = ""
    image_txid: int | None = None
    journal_txid: int | None = None
    transactions_behind: int | None = None
    error: str | None = None
    alarms: tuple[str, ...] = ()
    next_steps: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    enabled: bool = True
    cancelled: Cancelled | None = None
    checkpoint_at: float | None = None
    seconds_since_checkpoint: float | None = None
    failures_in_row: int = 0
    retry_at: float | None = None
    targets: tuple[TargetState, ...] = ()
    lake: LakeState | None = None
    leader: LeaderState | None = None
    record: Record = field(default_factory=Record, metadata=_FLAT)
    details: RoleDetails = field(default_factory=RoleDetails, metadata=_FLAT)


def as_json(value: Any) -> Any:
    """JSON values of a state or a part of it."""
    if dataclasses.is_dataclass(value):
        told: dict[str, Any] = {}
        for each in dataclasses.fields(value):
            content = getattr(value, each.name)
            if each.metadata == _FLAT:
                told |= as_json(content)
            else:
                told[_camel(each.name)] = as_json(content)
        return told
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def from_json(kind: type[T], told: Any) -> T:
    """The state of `kind` that `as_json` made `told` of; what an older release does not tell has its default.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(told, Mapping):
        raise ValueError(f"{told!r:.80} is no {kind.__name__}")  # noqa: TRY004 - JSON of another kind is a bad value
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        if each.metadata == _FLAT:
            values[each.name] = from_json(hints[each.name], told)
        elif (name := _camel(each.name)) in told:
            values[each.name] = _value(hints[each.name], told[name], name)
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise ValueError(f"{name} is missing")
    return kind(**values)


def _value(hint: Any, told: Any, name: str) -> Any:
    if isinstance(hint, UnionType):
        if told is None:
            return None
        hint = next(each for each in get_args(hint) if each is not type(None))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_json(hint, told)
    kind = get_origin(hint) or hint
    if kind is tuple and isinstance(told, list):
        return tuple(_value(get_args(hint)[0], each, name) for each in told)
    if kind is Mapping and isinstance(told, Mapping):
        return {key: _value(get_args(hint)[1], each, name) for key, each in told.items()}
    if type(told) is kind or (kind is float and type(told) is int):
        return told
    raise ValueError(f"{name} is {told!r:.80}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
