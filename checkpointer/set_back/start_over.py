"""Starting over after a lost past: its record, a limit on its frequency, and the hint until it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED
from hadoop_common.back_off import BackOff
from hadoop_common.errors import StorageError

_BACK_OFF = BackOff(60.0, 3600.0)
_HINTS = {
    LOST_PAST: "Never copy these images to the NameNode, because they would replace its present state.",
    NOT_COMPARED: "Keep these images, because they may be the last copy, but do not copy them to a NameNode that has "
    "an intact image.",
}


def unused_images_hint(parent: str) -> str:
    """Return the next step while images wait to be set aside in the folder `parent`."""
    return (
        f"No action is needed while the NameNode's image can be fetched. {_HINTS[parent]} If the NameNode's own image "
        'is damaged, save the namespace: docs/runbook.md, "The newest image cannot be read".'
    )


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
                f"{reason}; this node recently started over, and will start over again in {left:.0f} s",
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
