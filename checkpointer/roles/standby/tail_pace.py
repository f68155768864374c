"""When a standby looks for edits: at its period while edits come, and less often while there are none; no I/O.

The pause doubles after each look that brings nothing, as in Hadoop's EditLogTailer, up to
`dfs.ha.tail-edits.period.backoff-max`; 0, or less than the period, is no back-off. The guide for observers sets the
period to 0 for their sake. A checkpointer does not need that pace: it looks at most four times a second, and with a
period below a second it always backs off, until an idle quorum answers about one call a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_MIN_SECONDS = 0.25
_SHORT_PERIOD = 1.0
# An idle look asks each JournalNode up to three times: for its newest edits, its segments, and those of the past.
_IDLE_SECONDS_PER_NODE = 3.5


class TailPace:
    """The pace of looks for edits; one thread looks.

    Args:
        period, longest: dfs.ha.tail-edits.period and its backoff-max, in seconds.
        nodes: how many JournalNodes each look asks, 0 for other journals.
        clock: monotonic seconds.
    """

    def __init__(
        self, period: float, longest: float, *, nodes: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.period = max(period, _MIN_SECONDS)
        self._clock = clock
        self._longest = max(longest, self.period)
        if period < _SHORT_PERIOD:
            self._longest = max(self._longest, _IDLE_SECONDS_PER_NODE * max(nodes, 1))
        self._pause = self.period
        self._began = clock() - self.period

    def begin(self) -> bool:
        """Return whether a look is due, which begins now.

        Callers ask once a period. A call may be late; the next one is not early for that, so half a period is allowed.
        """
        now = self._clock()
        if now < self._began + self._pause - self.period / 2:
            return False
        self._began = now
        return True

    def end(self, *, found: bool) -> None:
        """Note whether the look brought edits."""
        self._pause = self.period if found else min(self._longest, self._pause * 2)
