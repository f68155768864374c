"""Whether a checkpoint is due: a pure decision over clock readings and transaction counts."""

from __future__ import annotations

from enum import Enum

from site_config.checkpoint_config import CheckpointConfig


class TriggerReason(Enum):
    """What made a checkpoint due."""

    FORCED = "forced"
    URGENT = "urgent"
    TRANSACTIONS = "txns"
    PERIOD = "period"


def decide(
    *,
    now: float,
    last_checkpoint: float,
    transactions: int,
    config: CheckpointConfig,
    forced: bool = False,
    urgent: bool = False,
) -> TriggerReason | None:
    """Why a checkpoint is due, or None (StandbyCheckpointer.CheckpointerThread.doWork).

    `now` and `last_checkpoint` are seconds of one monotonic clock; `transactions` are those no image has yet.
    `urgent` is what the role says of itself, as where a rolling upgrade waits for its rollback image.
    Whether zero transactions are worth an image is for the caller to say.
    """
    if urgent:
        return TriggerReason.URGENT
    if forced:
        return TriggerReason.FORCED
    if transactions >= config.transactions:
        return TriggerReason.TRANSACTIONS
    if now - last_checkpoint >= config.period:
        return TriggerReason.PERIOD
    return None
