"""State of a daemon, derived from its role, its record, its archive, its lake and the NameNodes' last reports."""

from __future__ import annotations

from collections.abc import Mapping

from checkpointer.daemon.archive_process import ArchiveProcess
from checkpointer.daemon.checkpoint_alarms import CheckpointStatus, checkpoint_alarms, healed_alarms
from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.storage_alarms import storage_alarms, storage_space
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.roles.role import CheckpointRole
from checkpointer.transfer.upload_target import UploadTarget
from hadoop_common.errors import HdfsError
from hadoop_common.names import ImageKind
from hadoop_common.quantities import counted, duration
from node_state.alarm_kinds import alarm_key, alarm_keys, kind_named
from node_state.alarm_marks import AlarmAcknowledgement, AlarmSilence
from node_state.state import CheckpointRecord, NodeState, ShadowState, TargetState


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
    alarms = checkpoint_alarms(role, record, status)
    is_starting = progress is None and status.fault is None
    silent = forecast.alarms([target.address for target in role.targets])
    # the leader's image is newer, and the leader reports its healed inconsistencies
    healed = [] if status.reported_standby and forecast.others_image() else healed_alarms(record)
    others = (*silent, *storage_alarms(role), *healed, *archive.alarms(), *lake.alarms())
    all_alarms = (*alarms, *others, *status.notices)
    kinds = {str(each): kind_named(getattr(each, "kind", "")) for each in all_alarms}
    names = {alarm: kind.name for alarm, kind in kinds.items()}
    return NodeState(
        role=role.name,
        ready=not alarms and not is_starting,
        message=status.switched_off or "; ".join(alarms) or _sentence(status),
        image_txid=None if progress is None else progress.image_txid,
        journal_txid=None if progress is None else progress.journal_txid,
        # The last count of pending transactions is out of date.
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
        targets=tuple(_target(target, forecast, reported_standby=status.reported_standby) for target in role.targets),
        archive=archive.state(None if progress is None else progress.journal_txid),
        lake=lake.state,
        record=record,
        details=role.details(),
        leader=status.leader,
        shadow=shadow,
    )


def _sentence(status: CheckpointStatus) -> str:
    """Describe a status that has no problems."""
    if status.progress is None and status.cancelled is None:
        return "starting: the first poll waits for the NameNode"
    made = "no checkpoint yet" if status.age is None else f"last checkpoint {duration(status.age)} ago"
    behind = "" if status.progress is None else f"{counted(status.progress.behind, 'transaction')} behind, "
    if (held := status.cancelled) is not None:
        made += f"; checkpoints are blocked for {duration(held.seconds_left)}: {held.reason}"
    leader = "" if status.leader is None else f"; {status.leader}"
    return f"{behind}{made}{leader}"


def _cluster_id(role: CheckpointRole) -> str | None:
    """Return the cluster id, or None if the storage cannot be read or is not formatted yet."""
    try:
        return role.storage_info().cluster_id
    except (HdfsError, OSError):
        return None


def _target(target: UploadTarget, forecast: UploadForecast, *, reported_standby: bool) -> TargetState:
    return TargetState(
        address=target.address,
        namenode_id=forecast.namenode_id(target.address),
        state=forecast.state_of(target.address),
        sent_bytes=target.sent,
        total_bytes=target.total,
        txid=target.txid,
        held_txid=-1 if forecast.has_newer(target.address, target.held) else target.held,
        rollback_txid=target.settled.get(ImageKind.ROLLBACK, -1),
        result=target.result,
        error=target.error,
        at=target.at,
        failures=0 if reported_standby else target.failures,
        primary=target.primary,
        takes_from=forecast.takes_from(target.address),
        reported_at=forecast.reported_at(target.address),
    )
