"""When an operator has to know that there are edits which are not applied."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hadoop_common.recurring_fault import RecurringFault

_LOG = logging.getLogger(__name__)
# A segment that has just begun holds one transaction that nobody waits for, its own START_LOG_SEGMENT.
_START_OF_SEGMENT = 1


class LagWatch:
    """Goes by what is noted after each look for edits, by one thread; any may read the alarm.

    Args:
        threshold: seconds that edits may wait without one being applied; 0 for ever.
        clock: monotonic seconds.
    """

    def __init__(self, threshold: float, *, clock: Callable[[], float]) -> None:
        self.threshold = threshold
        self._clock = clock
        self._applied = -1
        self._behind_since: float | None = None
        self._fault = RecurringFault(_LOG, "edits are applied again", unit="looks", clock=clock)

    @property
    def alarm(self) -> str:
        """How long edits have been waiting, and how many; "" where none wait too long."""
        return self._fault.alarm

    def note(self, applied: int, *, source: int, active: int) -> None:
        """`applied` is the newest transaction in the namespace, `source` that of the journal, `active` of the active
        NameNode, as far as they are known; what is behind `active` may be due to come with its next segment.
        """
        now = self._clock()
        behind = source > applied or active > applied + _START_OF_SEGMENT
        if applied > self._applied:
            self._fault.ended()
        if not behind or applied != self._applied:
            self._behind_since = None
        if behind and self._behind_since is None:
            self._behind_since = now
        self._applied = applied
        waited = 0.0 if self._behind_since is None else now - self._behind_since
        if not behind or self.threshold <= 0 or waited <= self.threshold:
            # Nothing waits any more, or nobody asks: that is not to say that edits were applied.
            self._fault.forget()
            return
        who = "the journal holds" if source >= active else "the active NameNode wrote"
        newest = max(source, active)
        text = f"no edit was applied for {waited:.0f} s: txid {applied} is the last one here, {who} {newest}"
        self._fault.occurred(text, hint="Check what holds the edits back; other alarms may say it.", txid=applied)
