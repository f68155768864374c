"""Triggers of checkpoints: the times when a checkpoint is due (period, transactions, request) and when it is retried.

`decide` makes the pure decision from clock readings that `CheckpointSchedule` stores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from checkpointer.roles.role import Progress
from hadoop_common.back_off import BackOff
from site_config.checkpoint_config import CheckpointConfig

# minimum number of retries per period after failures
_TRIES_PER_PERIOD = 4
# smaller differences are the time between the readings of the two clocks; a longer time makes a period shorter
_STEP_SECONDS = 1.0


class TriggerReason(Enum):
    """Reason why a checkpoint is due."""

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
    """Return the reason why a checkpoint is due, or None if it is not due
    (StandbyCheckpointer.CheckpointerThread.doWork).

    The caller decides whether to make an image without new transactions.

    Args:
        now, last_checkpoint: seconds on the same monotonic clock.
        transactions: number of transactions that are not in an image yet.
        urgent: whether the role needs an image immediately, such as the rollback image of a rolling upgrade.
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


class CheckpointSchedule:
    """Period and retries of one daemon; only the thread that attempts checkpoints changes them.

    The period begins with the newest image on disk, regardless of restarts and of the daemon that wrote the image.
    Without an image, a checkpoint is due immediately.

    Args:
        clock: monotonic seconds.
        wall: seconds since the epoch.

    Attributes:
        period_from: reading of `clock` at the start of the period.
        retry_at: reading of `clock` before which a poll does not retry.
    """

    def __init__(self, config: CheckpointConfig, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.config = config
        self._clock = clock
        self._wall = wall
        # until the newest image is known, the schedule reports no checkpoint as due
        self.period_from = clock()
        self.retry_at = clock()
        # the image that began the period
        self._image_txid: int | None = None
        # whether polls retry a failed forced attempt
        self._retries_forced = False
        # lead of `wall` over `clock`, which grows while the host sleeps
        self._lead = wall() - clock()

    @property
    def period_left(self) -> float:
        """Seconds until the end of the period; negative after it."""
        return self.period_from + self.config.period - self._clock()

    @property
    def retry_wait(self) -> float:
        """Seconds until a poll may retry; 0 or negative if it may retry now."""
        return self.retry_at - self._clock()

    def observe(self, progress: Progress, cluster_image_age: float | None) -> None:
        """Begin a new period if a new image exists; count the time for which the host slept, or by which its clock was
        set forward. The period never becomes longer than the age of the image, so the correction of a clock that was
        set back does not count.

        Args:
            cluster_image_age: age in seconds of the newest image of any daemon if several daemons share the work,
                otherwise None.
        """
        gained = self._wall() - self._clock() - self._lead
        age = math.inf if progress.image_at is None else max(0.0, self._wall() - progress.image_at)
        if abs(gained) > _STEP_SECONDS:
            self._lead += gained
            self.period_from = min(self.period_from, max(self.period_from - gained, self._clock() - age))
        if progress.image_txid != self._image_txid:
            self._image_txid = progress.image_txid
            self.period_from = self._clock() - age
        if cluster_image_age is not None:
            self.period_from = max(self.period_from, self._clock() - cluster_image_age)

    def reason(self, progress: Progress, *, force: bool) -> TriggerReason | None:
        """Return the reason why a checkpoint is due; None if it is not due or there are no new transactions."""
        reason = decide(
            now=self._clock(),
            last_checkpoint=self.period_from,
            transactions=progress.behind,
            config=self.config,
            forced=force or self._retries_forced,
            urgent=bool(progress.urgent),
        )
        return reason if progress.behind or progress.urgent else None

    def saved(self, txid: int | None) -> None:
        """Begin a period with a checkpoint; `txid` is None for a rollback image."""
        self.period_from = self._clock()
        # a sleep during the checkpoint does not belong to this period
        self._lead = self._wall() - self._clock()
        if txid is not None:
            self._image_txid = txid

    def reset_retries(self) -> None:
        """Record that there is nothing to retry."""
        self._retries_forced = False
        self.retry_at = self._clock()

    def drop_forced(self) -> None:
        """Stop retrying a forced attempt."""
        self._retries_forced = False

    def failed(self, failures: int, *, force: bool) -> None:
        """Delay the next poll after `failures` consecutive failures; forced attempts do not shorten the delay."""
        self._retries_forced |= force
        first = self.config.poll_interval
        back_off = BackOff(first, max(first, self.config.period / _TRIES_PER_PERIOD))
        self.retry_at = self._clock() + back_off.wait(failures)

    def keep_due(self, period_from: float, again_at: float | None) -> None:
        """Schedule the next checkpoint as if a forced checkpoint, refused as too recent, had not been made.

        Args:
            period_from: start of the period before the forced checkpoint.
            again_at: time when a NameNode accepts an image again, in seconds since the epoch; None if unknown.
        """
        now, period = self._clock(), self.config.period
        due_at = period_from + period if again_at is None else now + max(0.0, again_at - self._wall())
        # Without this check, different clocks or settings at the NameNode could cause endless immediate checkpoints.
        if due_at > now:
            self.period_from = min(now, due_at - period)
