"""Log lines of checkpoints."""

from __future__ import annotations

import logging

from checkpointer.daemon.checkpoint_schedule import TriggerReason
from checkpointer.roles.role import Progress
from engine.merge import MergeResult
from hadoop_common.quantities import counted

_LOG = logging.getLogger(__name__)

_HEALED = "Make sure that the NameNode has this image before it is restarted."


def begin_message(progress: Progress, reason: TriggerReason) -> str:
    """Return the message at the beginning of a checkpoint."""
    begins = {
        TriggerReason.URGENT: f"immediate checkpoint: {progress.urgent}",
        TriggerReason.FORCED: "forced checkpoint",
        TriggerReason.TRANSACTIONS: "checkpoint at the transaction limit",
        TriggerReason.PERIOD: "periodic checkpoint",
    }[reason]
    return f"{begins}: {counted(progress.behind, 'transaction')} since the last image"


def log_checkpoint(result: MergeResult, reason: TriggerReason, latency: float) -> None:
    """Log a checkpoint, and each fault that it healed; `latency` is in seconds."""
    for healed in result.healed:
        fields = {"txid": result.txid, "code": healed.code}
        _LOG.error("fsimage_%019d: healed: %s; next: %s", result.txid, healed, _HEALED, extra=fields)
    timings = result.timings
    _LOG.info(
        "checkpoint at txid %d: %s, %s, load %.2f s, replay %.2f s, save %.2f s; "
        "%.2f s from the trigger to the final name of the image",
        result.txid,
        counted(result.transactions, "transaction"),
        counted(result.inodes, "inode"),
        timings.load,
        timings.replay,
        timings.save,
        latency,
        extra={
            "txid": result.txid,
            "phase": "save",
            "reason": reason.value,
            "transactions": result.transactions,
            "ignored": result.ignored,
            "inodes": result.inodes,
            "seconds": round(timings.load + timings.replay + timings.save, 3),
            "latency": round(latency, 3),
            "bytes": result.saved.size,
            "rollback": result.rollback,
        },
    )
