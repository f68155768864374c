"""What a NameNode means by refusing an image: it has it, or its last one is too recent (ImageServlet of Hadoop 3.3)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

# ImageServlet.recentImageCheckTimePrecision
_SHARE_OF_PERIOD = 0.75

_TOO_RECENT = re.compile(
    r"since previous checkpoint is (-?\d+) expecting at least (\d+)\D+ is (-?\d+) expecting at least (\d+)"
)
_HAS_IMAGE = re.compile(r"already uploaded an? checkpoint for txid (\d+)|fsimage_0*(\d+) is stored here already")
# releases of each line from which on the rule holds (it came with the observers)
_RULE_SINCE = {(2,): (2, 10), (3, 0): (3, 1), (3, 1): (3, 1, 4), (3, 2): (3, 2, 2)}
_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class TooRecent:
    """A NameNode's last image is `age` seconds old and `transactions` back; it takes one from either least on."""

    age: int
    least_age: int
    transactions: int
    least_transactions: int

    @property
    def seconds_left(self) -> int:
        """Until it takes an image, however few transactions that brings."""
        return max(0, self.least_age - self.age)


def too_recent(said: str) -> TooRecent | None:
    """The numbers of a refusal because the last image is young and few transactions back; None for any other."""
    found = _TOO_RECENT.search(said)
    return None if found is None else TooRecent(*map(int, found.groups()))


def has_image(said: str, txid: int) -> bool:
    """Whether a refusal says that the image at `txid` is there already."""
    return any(str(txid) in found.groups() for found in _HAS_IMAGE.finditer(said))


def least_age(period: float) -> int:
    """Seconds from a NameNode's last image on that it refuses one, by its own `dfs.namenode.checkpoint.period`."""
    return math.floor(period * _SHARE_OF_PERIOD + 0.5)


def refuses_recent(version: str) -> bool:
    """Whether NameNodes of this release (as `3.4.1`) refuse an image soon after the last one."""
    found = _RELEASE.match(version)
    if found is None:
        return False
    release = tuple(int(part or 0) for part in found.groups())
    since = _RULE_SINCE.get(release[:1]) or _RULE_SINCE.get(release[:2]) or (3, 3)
    return release >= since
