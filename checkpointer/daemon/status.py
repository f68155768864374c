"""The daemon's state, from what its role, its memory, its lake and the NameNodes' last answers say."""

from __future__ import annotations

from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.outlook import Outlook
from checkpointer.roles.role import CheckpointRole, Target
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import told
from servlets.node_state import Cancelled, NodeState, Record, TargetState
from servlets.parameters import ImageKind

__all__ = ["daemon_state"]


def daemon_state(
    role: CheckpointRole,
    record: Record,
    lake: LakeAppender,
    outlook: Outlook,
    *,
    enabled: bool,
    cancelled: Cancelled | None,
    seconds_since_checkpoint: float,
) -> NodeState:
    """The state at this moment; what of the role cannot be read is its `error`."""
    image = journal = behind = error = None
    try:
        progress = role.progress()
        image, journal, behind = progress.image_txid, progress.journal_txid, progress.behind
    except (HdfsError, OSError) as fault:
        error = told(fault)
    return NodeState(
        role=role.name,
        image_txid=image,
        journal_txid=journal,
        transactions_behind=behind,
        error=error,
        alarms=(*role.alarms(), *_healed_alarm(record), *lake.alarms()),
        storage=role.storage(),
        enabled=enabled,
        cancelled=cancelled,
        seconds_since_checkpoint=seconds_since_checkpoint,
        targets=tuple(_target(target, outlook) for target in role.targets),
        lake=lake.state,
        record=record,
        details=role.details(),
    )


def _healed_alarm(record: Record) -> list[str]:
    if not record.healed:
        return []
    text = (
        f"{len(record.healed)} inconsistencies of snapshots were healed in the image at txid {record.saved_txid} "
        f"({record.healed[0]} first): a NameNode may not load its own image or edits of that time; make sure that "
        "it has this image before it is restarted"
    )
    return [text]


def _target(target: Target, outlook: Outlook) -> TargetState:
    return TargetState(
        address=target.address,
        txid=target.txid,
        rollback_txid=target.settled.get(ImageKind.ROLLBACK, -1),
        result=target.result,
        error=target.error,
        at=target.at,
        failures=target.failures,
        primary=target.primary,
        takes_from=outlook.takes_from(target.address),
    )
