"""Alarms about failed or late checkpoints and uploads, missing space, and healed images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkpointer.roles.role import CheckpointRole, Progress
from checkpointer.storage.disk_space import SPACE_HINT
from checkpointer.transfer.image_acceptance import longer_period, upload_hint
from hadoop_common.names import ImageKind
from hadoop_common.quantities import counted, duration
from hadoop_common.recurring_fault import Alarm
from node_state.alarm_kinds import ROLE
from node_state.state import ALLOW_AGAIN_HINT, CheckpointBlock, CheckpointRecord, LeaderState

_MISSED_PERIODS = 3
LATE_HINT = "Check earlier failures; then `checkpointer checkpoint --force` requests a checkpoint now."
# a single failure may be transient
_REPEATED = 2
_SAVE = "save"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """Status of checkpoints at one moment. Times are in seconds since the epoch; `period`, `age` and `uptime` are in
    seconds.

    Attributes:
        progress: last known progress; None at first. `fault` is the reason why the progress is unknown now; None if the
            progress is known.
        checkpoint_at: time when the newest image was made, None if there is no image; `age` is the age of that image.
        uptime: time since the start of this process.
        switched_off: reason why the configuration allows no checkpoints, "" if it allows them.
        failures: number of consecutive failed attempts; attempts have been failing for `failing_for` seconds, and
            `failure` is the reason for the last failure.
        retry_at: earliest time of the next attempt, None if the next attempt does not have to wait.
        notices: alarms that do not concern checkpoints.
        reported_standby: whether another daemon makes and uploads the images.
        inactive: addresses of the NameNodes that are known to be standbys or observers.
    """

    period: float
    uptime: float
    progress: Progress | None
    fault: Alarm | None
    checkpoint_at: float | None
    age: float | None
    switched_off: str
    cancelled: CheckpointBlock | None
    failures: int
    failing_for: float
    failure: Alarm
    retry_at: float | None
    notices: Sequence[str]
    leader: LeaderState | None = None
    reported_standby: bool = False
    inactive: frozenset[str] = frozenset()

    @property
    def is_in_time(self) -> bool:
        """Whether the newest image is younger than the tolerated number of periods."""
        return self.age is not None and self.age <= _MISSED_PERIODS * self.period


def checkpoint_alarms(role: CheckpointRole, record: CheckpointRecord, status: CheckpointStatus) -> list[Alarm]:
    """Return the alarms about the role, its checkpoints and its uploads. If the configuration allows no checkpoints,
    return no alarms, because earlier faults would never end.
    """
    if status.switched_off:
        return []
    alarms = [] if status.fault is None else [status.fault]
    alarms += [*map(_of_role, role.alarms()), *_failing(status), *_not_uploaded(role, status)]
    # Less space than usual is free after a new image is complete and before old images are purged.
    if record.phase != _SAVE and (shortage := role.space_shortage()):
        alarms.append(Alarm(shortage, SPACE_HINT, "space"))
    if late := lateness(status):
        other = (longer_period(target.error, status.period) for target in role.targets)
        hint = next(filter(None, other), late_hint(status))
        alarms.append(Alarm(late, hint, "late"))
    return alarms


def late_hint(status: CheckpointStatus) -> str:
    """Return the next step for a late checkpoint; a cancellation also blocks requests with `--force`."""
    return LATE_HINT if status.cancelled is None else f"Checkpoints were cancelled. {ALLOW_AGAIN_HINT}"


def lateness(status: CheckpointStatus) -> str:
    """Return an alarm if new transactions have waited several periods for a checkpoint, otherwise ""."""
    behind = 0 if status.progress is None else status.progress.behind
    age = status.uptime if status.age is None else status.age
    if status.switched_off or not behind or age <= _MISSED_PERIODS * status.period:
        return ""
    which = "no checkpoint yet, after" if status.age is None else "no checkpoint for"
    waiting = f"{counted(behind, 'transaction')} without an image"
    return f"{which} {duration(age)}, {waiting}; a checkpoint is due every {duration(status.period)}"


def healed_alarms(record: CheckpointRecord) -> list[Alarm]:
    """Return an alarm if snapshots in the newest image were healed."""
    if not record.healed:
        return []
    text = Alarm(
        f"the snapshots of the image at txid {record.saved_txid} had {counted(len(record.healed), 'inconsistency')} "
        f"(the first is {record.healed[0]}), which the checkpoint healed: a NameNode may be unable to load its own "
        "image or edits of that time; make sure that the NameNode has this image before you restart it",
        "Check that a NameNode has the image (`checkpointer status`) before you restart the NameNode.",
        "healed",
    )
    return [text]


def _failing(status: CheckpointStatus) -> list[Alarm]:
    if status.failures < _REPEATED:
        return []
    text = f"{status.failure} ({counted(status.failures, 'attempt')} in a row, in {duration(status.failing_for)})"
    return [Alarm(text, status.failure.hint, "attempts")]


def _not_uploaded(role: CheckpointRole, status: CheckpointStatus) -> list[Alarm]:
    """Return an alarm for each NameNode to which uploads fail repeatedly; no alarms if a NameNode that may be
    active has the newest image, or another daemon uploads.
    """
    progress = status.progress
    if status.reported_standby or progress is None:
        return []
    holding = {target.address for target in role.targets if target.has(progress.image_txid, ImageKind.IMAGE)}
    if holding - status.inactive:
        return []
    return [
        Alarm(
            f"{target.address} does not receive the image at txid {progress.image_txid}: "
            f"failed transfers since the last success: {target.failures}; last error: {target.error}",
            upload_hint(target.error),
            "upload",
        )
        for target in role.targets
        if target.failures >= _REPEATED
    ]


def _of_role(alarm: str) -> Alarm:
    return Alarm(alarm, getattr(alarm, "hint", ""), getattr(alarm, "kind", "") or ROLE)
