"""When a backup node looks at its NameNode again, and whether the stream has dried up: decisions over readings."""

from __future__ import annotations

from collections.abc import Callable

from hadoop_common.back_off import BackOff


class Pace:
    """What was seen when; one thread at a time.

    Args:
        back_off: waits after failures.
        clock: monotonic seconds.
    """

    def __init__(self, back_off: BackOff, clock: Callable[[], float]) -> None:
        self._back_off = back_off
        self._clock = clock
        self._failures = 0
        self._not_before = clock()
        self._last_txid = -1

    def due(self) -> bool:
        """Whether the wait after the last failure is over."""
        return self._clock() >= self._not_before

    def succeeded(self) -> None:
        """All was well."""
        self._failures = 0

    def failed(self, *, at_once: bool) -> None:
        """It was not: wait longer each time, unless looking again `at_once` costs nobody anything."""
        if at_once:
            return
        self._failures += 1
        self._not_before = self._clock() + self._back_off.wait(self._failures)

    def stalled(self, last_txid: int, namenode_txid: int) -> bool:
        """Whether the stream brought nothing since the last look, though the NameNode had written more by then.

        Args:
            last_txid: newest transaction that came.
            namenode_txid: newest one that the NameNode had written at the last look.
        """
        unmoved, self._last_txid = last_txid == self._last_txid, last_txid
        return unmoved and last_txid < namenode_txid
