"""The daemon's state, from what its role, its memory, its lake and the NameNodes' last answers say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.roles.role import IN_USE, CheckpointRole, Progress, UploadTarget
from checkpointer.storage.room import ROOM_HINT
from hadoop_common.errors import HdfsError
from hadoop_common.quantities import duration
from hadoop_common.recurring_fault import Alarm
from servlets.node_state import Cancelled, LeaderState, NodeState, Record, TargetState
from servlets.parameters import ImageKind

_MISSED_PERIODS = 3
LATE_HINT = "Check what failed before; `checkpointer checkpoint --force` tries now."
UPLOAD_HINT = "Check that NameNode; the image is offered again after a while."
# one failure may pass by itself
_REPEATED = 2
_SAVE = "save"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """How it stands with the checkpoints at one moment; times are seconds since the epoch, `period` seconds.

    Attributes:
        progress: as it was last known, None before; `fault`: why it is not known now, None where it is.
        checkpoint_at: when the newest image was made, None where there is none.
        started_at: of this process.
        switched_off: why no checkpoints are to be made at all, "" where they are.
        failures: attempts that failed in a row, `failing_for` seconds, the last for the reason `failure`.
        retry_at: when the next attempt may be made, None where it need not wait.
        notices: what an operator has to see to although checkpoints are made.
    """

    now: float
    period: float
    started_at: float
    progress: Progress | None
    fault: str | None
    checkpoint_at: float | None
    switched_off: str
    cancelled: Cancelled | None
    failures: int
    failing_for: float
    failure: Alarm
    retry_at: float | None
    notices: Sequence[str]
    leader: LeaderState | None = None

    @property
    def age(self) -> float | None:
        """Of the newest image, None where there is none."""
        return None if self.checkpoint_at is None else max(0.0, self.now - self.checkpoint_at)

    @property
    def is_in_time(self) -> bool:
        """Whether the newest image is younger than the periods that may be missed."""
        return self.age is not None and self.age <= _MISSED_PERIODS * self.period


def lateness(standing: CheckpointStatus) -> str:
    """What to say where several periods brought no checkpoint but work, "" elsewhere."""
    behind = 0 if standing.progress is None else standing.progress.behind
    age = standing.now - standing.started_at if standing.age is None else standing.age
    if standing.switched_off or not behind or age <= _MISSED_PERIODS * standing.period:
        return ""
    which = "no checkpoint yet, after" if standing.age is None else "no checkpoint for"
    return (
        f"{which} {duration(age)}, and {behind} transactions are in none; one is due every {duration(standing.period)}"
    )


def daemon_state(
    role: CheckpointRole, record: Record, lake: LakeAppender, forecast: UploadForecast, standing: CheckpointStatus
) -> NodeState:
    """The state at this moment."""
    progress = standing.progress
    alarms = [*role.alarms(), *_failing(standing), *_not_taken(role, progress)]
    # Between the end of an image and retention, too, there may be less room than there will be.
    if record.phase != _SAVE and (problem := role.lacks_room()):
        alarms.append(Alarm(problem, ROOM_HINT))
    if late := lateness(standing):
        alarms.append(Alarm(late, LATE_HINT))
    problems = [standing.fault, *alarms] if standing.fault else alarms
    if standing.switched_off:
        problems = []
    all_alarms = (*alarms, *_unused(role), *_healed_alarm(record), *lake.alarms(), *standing.notices)
    return NodeState(
        role=role.name,
        ready=not problems,
        message=standing.switched_off or "; ".join(problems) or _sentence(standing),
        image_txid=None if progress is None else progress.image_txid,
        journal_txid=None if progress is None else progress.journal_txid,
        # What was behind when it was last known is wrong by now.
        transactions_behind=None if progress is None or standing.fault else progress.behind,
        error=standing.fault,
        alarms=tuple(map(str, all_alarms)),
        next_steps={str(each): each.hint for each in all_alarms if isinstance(each, Alarm) and each.hint},
        cluster_id=_cluster_id(role),
        storage=role.storage(),
        enabled=not standing.switched_off,
        cancelled=standing.cancelled,
        checkpoint_at=standing.checkpoint_at,
        seconds_since_checkpoint=None if standing.age is None else round(standing.age, 3),
        failures_in_row=standing.failures,
        retry_at=standing.retry_at,
        targets=tuple(_target(target, forecast) for target in role.targets),
        lake=lake.state,
        record=record,
        details=role.details(),
        leader=standing.leader,
    )


def _sentence(standing: CheckpointStatus) -> str:
    """How it stands where nothing is wrong."""
    made = "no checkpoint yet" if standing.age is None else f"last checkpoint {duration(standing.age)} ago"
    behind = "" if standing.progress is None else f"{standing.progress.behind} transactions behind, "
    if (held := standing.cancelled) is not None:
        made += f"; none begins for {duration(held.seconds_left)}: {held.reason}"
    leader = "" if standing.leader is None else f"; {standing.leader}"
    return f"{behind}{made}{leader}"


def _failing(standing: CheckpointStatus) -> list[str]:
    if standing.failures < _REPEATED:
        return []
    text = f"{standing.failure} ({standing.failures} attempts in a row, in {duration(standing.failing_for)})"
    return [Alarm(text, standing.failure.hint)]


def _not_taken(role: CheckpointRole, progress: Progress | None) -> list[str]:
    """Where transfers fail again and again, and nobody has the newest image."""
    if progress is None or any(target.has(progress.image_txid, ImageKind.IMAGE) for target in role.targets):
        return []
    return [
        Alarm(
            f"{target.address} does not get the image at txid {progress.image_txid}: {target.failures} transfers in a "
            f"row failed, the last: {target.error}",
            UPLOAD_HINT,
        )
        for target in role.targets
        if target.failures >= _REPEATED
    ]


def _unused(role: CheckpointRole) -> list[str]:
    """Storage directories that are left out, while others are used."""
    return [
        Alarm(f"storage directory {path} is not used: {state}", getattr(state, "hint", ""))
        for path, state in role.storage().items()
        if state != IN_USE
    ]


def _healed_alarm(record: Record) -> list[str]:
    if not record.healed:
        return []
    text = Alarm(
        f"{len(record.healed)} inconsistencies of snapshots were healed in the image at txid {record.saved_txid} "
        f"({record.healed[0]} first): a NameNode may not load its own image or edits of that time; make sure that "
        "it has this image before it is restarted",
        "See that a NameNode took the image (`checkpointer status`) before one is restarted.",
    )
    return [text]


def _cluster_id(role: CheckpointRole) -> str | None:
    """None where the storage cannot tell, or is not formatted yet."""
    try:
        return role.storage_info().cluster_id
    except (HdfsError, OSError):
        return None


def _target(target: UploadTarget, forecast: UploadForecast) -> TargetState:
    return TargetState(
        address=target.address,
        namenode_id=forecast.namenode_id(target.address),
        state=forecast.state_of(target.address),
        sent_bytes=target.sent,
        total_bytes=target.total,
        txid=target.txid,
        rollback_txid=target.settled.get(ImageKind.ROLLBACK, -1),
        result=target.result,
        error=target.error,
        at=target.at,
        failures=target.failures,
        primary=target.primary,
        takes_from=forecast.takes_from(target.address),
    )
