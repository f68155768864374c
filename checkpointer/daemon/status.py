"""State of a daemon, derived from its role, its record, its archive, its lake and the NameNodes' last reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checkpointer.daemon.archive_process import ArchiveProcess
from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.storage_alarms import storage_alarms, storage_space
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.roles.role import CheckpointRole, Progress, UploadTarget
from checkpointer.storage.disk_space import SPACE_HINT
from hadoop_common.errors import HdfsError
from hadoop_common.names import ImageKind
from hadoop_common.quantities import counted, duration
from hadoop_common.recurring_fault import Alarm
from node_state.alarm_kinds import ROLE, alarm_key, alarm_keys, kind_named
from node_state.alarm_marks import AlarmAcknowledgement, AlarmSilence
from node_state.state import CheckpointBlock, CheckpointRecord, LeaderState, NodeState, ShadowState, TargetState

_MISSED_PERIODS = 3
LATE_HINT = "Check what failed before; then `checkpointer checkpoint --force` requests a checkpoint now."
UPLOAD_HINT = "Check that NameNode; the daemon retries the upload after a while."
# a single failure may be transient
_REPEATED = 2
_SAVE = "save"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """Status of checkpoints at one moment; times are seconds since the epoch, `period` is in seconds.

    Attributes:
        progress: last known progress, None at first; `fault`: reason why the progress is unknown now, None if it is
            known.
        checkpoint_at: time when the newest image was made, None if there is no image.
        started_at: start of this process.
        switched_off: reason why the configuration allows no checkpoints, "" if it allows them.
        failures: number of consecutive failed attempts, within `failing_for` seconds; `failure` is the reason of the
            last one.
        retry_at: time of the earliest next attempt, None if the attempt need not wait.
        notices: alarms that do not concern checkpoints.
    """

    now: float
    period: float
    started_at: float
    progress: Progress | None
    fault: Alarm | None
    checkpoint_at: float | None
    switched_off: str
    cancelled: CheckpointBlock | None
    failures: int
    failing_for: float
    failure: Alarm
    retry_at: float | None
    notices: Sequence[str]
    leader: LeaderState | None = None

    @property
    def age(self) -> float | None:
        """Age of the newest image in seconds, None if there is no image."""
        return None if self.checkpoint_at is None else max(0.0, self.now - self.checkpoint_at)

    @property
    def is_in_time(self) -> bool:
        """Whether the newest image is younger than the tolerated number of periods."""
        return self.age is not None and self.age <= _MISSED_PERIODS * self.period


def lateness(status: CheckpointStatus) -> str:
    """Return an alarm if new transactions have waited several periods for a checkpoint, else ""."""
    behind = 0 if status.progress is None else status.progress.behind
    age = status.now - status.started_at if status.age is None else status.age
    if status.switched_off or not behind or age <= _MISSED_PERIODS * status.period:
        return ""
    which = "no checkpoint yet, after" if status.age is None else "no checkpoint for"
    waiting = f"{counted(behind, 'transaction')} without an image"
    return f"{which} {duration(age)}, {waiting}; one is due every {duration(status.period)}"


def daemon_state(
    role: CheckpointRole,
    record: CheckpointRecord,
    archive: ArchiveProcess,
    lake: LakeAppender,
    forecast: UploadForecast,
    status: CheckpointStatus,
    silences: Mapping[str, AlarmSilence],
    acknowledged: Mapping[str, AlarmAcknowledgement],
    shadow: ShadowState | None = None,
) -> NodeState:
    progress, storage = status.progress, role.storage()
    unread = [] if status.fault is None or status.switched_off else [status.fault]
    alarms = [*unread, *map(_of_role, role.alarms()), *_failing(status), *_not_uploaded(role, progress)]
    # After a new image is complete, less space is free than usual until old images are purged.
    if record.phase != _SAVE and (problem := role.space_shortage()):
        alarms.append(Alarm(problem, SPACE_HINT, "space"))
    if late := lateness(status):
        alarms.append(Alarm(late, LATE_HINT, "late"))
    problems = [] if status.switched_off else alarms
    silent = forecast.alarms([target.address for target in role.targets])
    others = (*silent, *storage_alarms(role), *_healed_alarm(record), *archive.alarms(), *lake.alarms())
    all_alarms = (*alarms, *others, *status.notices)
    kinds = {str(each): kind_named(getattr(each, "kind", "")) for each in all_alarms}
    names = {alarm: kind.name for alarm, kind in kinds.items()}
    return NodeState(
        role=role.name,
        ready=not problems,
        message=status.switched_off or "; ".join(problems) or _sentence(status),
        image_txid=None if progress is None else progress.image_txid,
        journal_txid=None if progress is None else progress.journal_txid,
        # An old count of pending transactions would be wrong.
        transactions_behind=None if progress is None or status.fault else progress.behind,
        error=None if status.fault is None else str(status.fault),
        alarms=tuple(map(str, all_alarms)),
        next_steps={str(each): getattr(each, "hint", "") or kinds[str(each)].next_step for each in all_alarms},
        alarm_kinds=names,
        silences={kind: each for kind, each in silences.items() if each.covers(alarm_keys(names, kind))},
        acknowledgements={
            alarm: acknowledged[kind]
            for alarm, kind in names.items()
            if kind in acknowledged and alarm_key(alarm) in acknowledged[kind].alarms
        },
        cluster_id=_cluster_id(role),
        storage=storage,
        storage_space=storage_space(storage),
        enabled=not status.switched_off,
        cancelled=status.cancelled,
        checkpoint_at=status.checkpoint_at,
        seconds_since_checkpoint=None if status.age is None else round(status.age, 3),
        failures_in_row=status.failures,
        retry_at=status.retry_at,
        targets=tuple(_target(target, forecast) for target in role.targets),
        archive=archive.state(None if progress is None else progress.journal_txid),
        lake=lake.state,
        record=record,
        details=role.details(),
        leader=status.leader,
        shadow=shadow,
    )


def _sentence(status: CheckpointStatus) -> str:
    """Describe a status without problems."""
    made = "no checkpoint yet" if status.age is None else f"last checkpoint {duration(status.age)} ago"
    behind = "" if status.progress is None else f"{counted(status.progress.behind, 'transaction')} behind, "
    if (held := status.cancelled) is not None:
        made += f"; none begins for {duration(held.seconds_left)}: {held.reason}"
    leader = "" if status.leader is None else f"; {status.leader}"
    return f"{behind}{made}{leader}"


def _failing(status: CheckpointStatus) -> list[str]:
    if status.failures < _REPEATED:
        return []
    text = f"{status.failure} ({counted(status.failures, 'attempt')} in a row, in {duration(status.failing_for)})"
    return [Alarm(text, status.failure.hint, "attempts")]


def _not_uploaded(role: CheckpointRole, progress: Progress | None) -> list[str]:
    """Return alarms for NameNodes to which transfers fail repeatedly, unless a NameNode has the newest image."""
    if progress is None or any(target.has(progress.image_txid, ImageKind.IMAGE) for target in role.targets):
        return []
    return [
        Alarm(
            f"{target.address} does not get the image at txid {progress.image_txid}: "
            f"{counted(target.failures, 'transfer')} in a row failed, the last: {target.error}",
            UPLOAD_HINT,
            "upload",
        )
        for target in role.targets
        if target.failures >= _REPEATED
    ]


def _of_role(alarm: str) -> Alarm:
    return Alarm(alarm, getattr(alarm, "hint", ""), getattr(alarm, "kind", "") or ROLE)


def _healed_alarm(record: CheckpointRecord) -> list[str]:
    if not record.healed:
        return []
    text = Alarm(
        f"{counted(len(record.healed), 'inconsistency')} of snapshots healed in the image at txid {record.saved_txid} "
        f"({record.healed[0]} first): a NameNode may not load its own image or edits of that time; make sure that "
        "it has this image before it is restarted",
        "Check that a NameNode has the image (`checkpointer status`) before one is restarted.",
        "healed",
    )
    return [text]


def _cluster_id(role: CheckpointRole) -> str | None:
    """Return the cluster id; None if the storage cannot be read or is not formatted yet."""
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
        held_txid=target.held,
        rollback_txid=target.settled.get(ImageKind.ROLLBACK, -1),
        result=target.result,
        error=target.error,
        at=target.at,
        failures=target.failures,
        primary=target.primary,
        takes_from=forecast.takes_from(target.address),
        reported_at=forecast.reported_at(target.address),
    )
