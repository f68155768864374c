"""Record of starting over after a lost past, and a limit on its frequency."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hadoop_common.back_off import BackOff
from hadoop_common.errors import StorageError

_BACK_OFF = BackOff(60.0, 3600.0)


@dataclass(frozen=True, slots=True)
class LostPast:
    """Record of the last time that a node set its state aside.

    `set_aside` names the folders with this state, and `at` is the time in seconds since the epoch.
    """

    reason: str
    set_aside: Sequence[Path]
    at: float = field(default_factory=lambda: round(time.time(), 3))

    @classmethod
    def of(cls, reason: str, folders: Iterable[Path]) -> LostPast:
        return cls(reason, sorted(set(folders)))

    def sentence(self) -> str:
        where = ", ".join(map(str, self.set_aside)) or "no folder"
        return f"this node starts over from the NameNode's image; the previous contents are in {where}"


class StartOverLimiter:
    """Limit on how often a node starts over. The node starts over immediately with another image of its NameNode, but
    only after increasing delays with the same image.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._txid = -1
        self._next, self._failures = clock(), 0

    def check(self, txid: int, reason: str) -> None:
        """Check whether the node may start over with the image at `txid`, for `reason`.

        Raises:
            StorageError: the node recently started over with this image without success.
        """
        left = self._next - self._clock()
        if left > 0 and txid == self._txid:
            raise StorageError(
                f"{reason}; this node recently started over, and will do so again in {left:.0f} s",
                hint="Check that the NameNode writes the edits that this node reads.",
            )

    def started_over(self, txid: int) -> None:
        """Record that the node has started over with the image at `txid`."""
        self._txid = txid
        self._failures += 1
        self._next = self._clock() + _BACK_OFF.wait(self._failures)

    def reset(self) -> None:
        """Record that the node's state belongs to the NameNode's past."""
        self._failures = 0
