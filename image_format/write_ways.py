"""Which way to a disk is quicker is found out while a file is written; this decides, and does no I/O.

A file is written in stretches. Each goes one way: past the page cache, with several writes in flight, or through the
page cache, written back while it fills. Neither is quicker on all disks.

    unknown   stretches go past the cache, which is of use to others. As long as the disk keeps up with what comes it
              stays so: quicker would be no use.
    trial     the disk was waited for in two stretches, of which the second counts, for the first one also starts what
              writes. One stretch goes through the cache.
    settled   both are known: so many stretches go the quicker way. Then it is `unknown`, with nothing known: a disk
              changes its mind, as one does whose own cache is full.

What is measured is on the disk before the clock is read: a stretch that only filled the cache would tell nothing.
"""

from __future__ import annotations

_BOUND = 0.25
"""The disk is waited for if that takes so much of the time."""
_BETTER = 1.1
_SETTLED = 64


class WriteWays:
    """The way of the next stretch.

    Args:
        direct: whether there is a way past the cache; without one there is nothing to decide.

    Attributes:
        direct: whether the stretch goes past the cache.
    """

    def __init__(self, direct: bool) -> None:
        self.direct = direct
        self._both = direct
        self._waited = False
        self._rate = 0.0
        self._settled = 0

    @property
    def measures(self) -> bool:
        """Whether the stretch has to be on the disk at its end, for `ended` to be told its time."""
        return self._both and not self._settled

    def no_direct(self) -> None:
        """There is no way past the cache after all."""
        self.direct = self._both = False

    def ended(self, size: int, seconds: float, waited: float) -> None:
        """A stretch of `size` bytes took so long, `waited` seconds of that for the disk; the next one begins."""
        if not self._both or seconds <= 0:
            return
        if self._settled:
            self._settled -= 1
            if not self._settled:
                self.direct = True
        elif self.direct:
            before, self._waited = self._waited, waited >= _BOUND * seconds
            if before and self._waited:
                self._rate = size / seconds
                self.direct = self._waited = False
        else:
            self.direct = size / seconds < _BETTER * self._rate
            self._settled = _SETTLED
