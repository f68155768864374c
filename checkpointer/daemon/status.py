"""What a daemon tells of itself at GET /status, as plain values."""

from __future__ import annotations

from typing import Any

from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.outlook import Outlook
from checkpointer.daemon.record import Record
from checkpointer.roles.role import CheckpointRole, Target
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import told
from servlets.parameters import ImageKind

__all__ = ["status_values"]


def status_values(role: CheckpointRole, record: Record, lake: LakeAppender, outlook: Outlook) -> dict[str, Any]:
    """Values of role, record and lake; times are seconds since the epoch, null for never, and mark an event's end.

    - `role`; `phase`: idle, fetch, load, replay, save or upload; `alarms`, a sentence each; and the role's own values.
    - `imageTxid` of the newest image here, `journalTxid` of the newest edit, `transactionsBehind`; or `error` where
      storage or journal cannot be read now.
    - `storage`: state of each storage directory by path, "in use" or why it was dropped.
    - `checkpoints` made and `failures` since the start.
    - `savedAt`, `savedTxid`, `imageBytes`, `lastReason` (urgent, txns, period or forced), `lastSeconds` (load, replay,
      save, and upload where a NameNode took an image) and `latencySeconds` (from the trigger until the image had its
      name) of the last checkpoint; `lookedAt`, the last poll that could.
    - `healed`: what the last checkpoint healed, each with `code`, `section`, `inode`, `path` and `message`;
      `healedTotal`, how often something was since the start.
    - `lastOutcome`: how the image that was offered last fared: taken, too recent (`takesFrom` of a target says from
      when on it takes the next), refused, failed, nobody (none is active), kept (no NameNode is configured), "" before
      the first.
    - `uploadedAt`, when a NameNode last took an image; `uploads` taken, `uploadFailures` and `uploadedBytes` since
      the start.
    - `lastError`, `lastErrorAt`: the newest fault of a checkpoint or an upload; it stays when the next succeeds.
    - `enabled`: whether checkpoints are to be made at all; `cancelled`: null, or why none may begin for `secondsLeft`;
      `secondsSinceCheckpoint` (these are the service's).
    - `targets`: for each NameNode `address`, `txid` of the newest image it needs no more, `rollbackTxid` of the
      newest rollback image, `result` of the last offer (SUCCESS, OLD_TRANSACTION_ID_FAILURE,
      NOT_ACTIVE_NAMENODE_FAILURE, failed, standby, never), `error`: why it does not have that image, `at`, `failures`
      in a row, `primary`: whether it took our last image, `takesFrom`: when it takes an image again that brings few
      transactions, null where it may take one now.
    - `lake`: null where none is configured, else its `directory`, whether an append is `running`, `appendedAt`, the
      `appends` made and `failures` since the start, and the `error` of the last one, "" where it succeeded.
    """
    return {
        "role": role.name,
        **_standing(role),
        "phase": record.phase,
        "alarms": [*role.alarms(), *_healed_alarm(record), *lake.alarms()],
        **role.details(),
        "storage": dict(role.storage()),
        "checkpoints": record.checkpoints,
        "failures": record.failures,
        "lookedAt": record.looked_at,
        "savedAt": record.saved_at,
        "savedTxid": record.saved_txid,
        "imageBytes": record.saved_bytes,
        "lastReason": record.last_reason,
        "lastOutcome": record.last_outcome,
        "lastSeconds": _seconds(record),
        "latencySeconds": record.latency_seconds,
        "healed": [healed.as_dict() for healed in record.healed],
        "healedTotal": record.healed_total,
        "uploadedAt": record.uploaded_at,
        "uploads": record.uploads,
        "uploadFailures": record.upload_failures,
        "uploadedBytes": record.uploaded_bytes,
        "lastError": record.last_error,
        "lastErrorAt": record.last_error_at,
        "targets": [{**_target(target), "takesFrom": outlook.takes_from(target.address)} for target in role.targets],
        "lake": lake.values(),
    }


def _healed_alarm(record: Record) -> list[str]:
    if not record.healed:
        return []
    text = (
        f"{len(record.healed)} inconsistencies of snapshots were healed in the image at txid {record.saved_txid} "
        f"({record.healed[0]} first): a NameNode may not load its own image or edits of that time; see to it that it "
        "has this image before it is restarted"
    )
    return [text]


def _seconds(record: Record) -> dict[str, float] | None:
    if record.last_seconds is None:
        return None
    upload = {} if record.upload_seconds is None else {"upload": record.upload_seconds}
    return {**record.last_seconds, **upload}


def _standing(role: CheckpointRole) -> dict[str, Any]:
    try:
        progress = role.progress()
    except (HdfsError, OSError) as error:
        return {"error": told(error)}
    return {
        "imageTxid": progress.image_txid,
        "journalTxid": progress.journal_txid,
        "transactionsBehind": progress.behind,
    }


def _target(target: Target) -> dict[str, Any]:
    return {
        "address": target.address,
        "txid": target.txid,
        "rollbackTxid": target.settled.get(ImageKind.ROLLBACK, -1),
        "result": target.result,
        "error": target.error,
        "at": target.at,
        "failures": target.failures,
        "primary": target.primary,
    }
