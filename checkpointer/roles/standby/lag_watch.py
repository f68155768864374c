"""Alarm about edits that wait too long to be applied (checkpointer.standby.lag-alarm)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hadoop_common.recurring_fault import RecurringFault

_LOG = logging.getLogger(__name__)
START_OF_SEGMENT = 1
"""Number of transactions by which a NameNode may be ahead: START_LOG_SEGMENT of a new segment does not count as
waiting.
"""


class LagWatch:
    """Alarm about edits that wait too long. Only one thread may record tails; any thread may read the alarm.

    Args:
        threshold: seconds that edits may wait while no edit is applied; 0 if unlimited.
        clock: monotonic seconds.
    """

    def __init__(self, threshold: float, *, clock: Callable[[], float]) -> None:
        self.threshold = threshold
        self._clock = clock
        self._applied = -1
        self._behind_since: float | None = None
        self._fault = RecurringFault(_LOG, "edits are applied again", unit="checks", clock=clock)

    @property
    def alarm(self) -> str:
        """Message with the waiting time and the newest transaction; "" while edits do not wait too long."""
        return self._fault.alarm

    def note(self, applied: int, *, source: int, active: int) -> None:
        """Record the newest known transactions after a tail.

        Args:
            applied: newest transaction in the namespace.
            source: newest transaction in the journal.
            active: newest transaction of the active NameNode; later edits may arrive with its next segment.
        """
        now = self._clock()
        behind = source > applied or active > applied + START_OF_SEGMENT
        if applied > self._applied:
            self._fault.ended()
        if not behind or applied != self._applied:
            self._behind_since = None
        if behind and self._behind_since is None:
            self._behind_since = now
        self._applied = applied
        waited = 0.0 if self._behind_since is None else now - self._behind_since
        if not behind or self.threshold <= 0 or waited <= self.threshold:
            # No edits wait too long, or the time is unlimited. This does not mean that edits were applied.
            self._fault.forget()
            return
        who = "the journal contains" if source >= active else "the active NameNode wrote"
        newest = max(source, active)
        text = (
            f"no edit was applied for {waited:.0f} s: the last applied transaction is {applied}, but {who} "
            f"transaction {newest}"
        )
        self._fault.occurred(text, hint="Check what delays the edits; other alarms may show the cause.", txid=applied)
