"""That a node started over, for its status page and its log, and when it may do so again."""

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
    """Why a node set aside what it had, the folders where that is now, and when it was, in seconds since the epoch."""

    reason: str
    set_aside: Sequence[Path]
    at: float = field(default_factory=lambda: round(time.time(), 3))

    @classmethod
    def of(cls, reason: str, folders: Iterable[Path]) -> LostPast:
        return cls(reason, sorted(set(folders)))

    def sentence(self) -> str:
        where = ", ".join(map(str, self.set_aside)) or "no folder"
        return f"this node starts over from its image; the previous contents are in {where}"


class StartOverLimiter:
    """When a node may start over: with another image of its NameNode at once, with the same one after growing waits.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._txid = -1
        self._next, self._in_vain = clock(), 0

    def check(self, txid: int, reason: str) -> None:
        """Whether to begin with the image at `txid`, for `reason`.

        Raises:
            StorageError: it was tried a short while ago, and did not help.
        """
        left = self._next - self._clock()
        if left > 0 and txid == self._txid:
            raise StorageError(
                f"{reason}: this node started over recently and will do so again in {left:.0f} s",
                hint="Check that the NameNode writes the edits that this node reads.",
            )

    def started_over(self, txid: int) -> None:
        """Note that the node has the image at `txid` and nothing else."""
        self._txid = txid
        self._in_vain += 1
        self._next = self._clock() + _BACK_OFF.wait(self._in_vain)

    def reset(self) -> None:
        """What it holds is of the NameNode's past."""
        self._in_vain = 0
