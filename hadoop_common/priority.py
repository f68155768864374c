"""Priority of threads when there are fewer cores than threads."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_NICE = 10


def let_others_go_first() -> None:
    """Lower the priority of the calling thread for good: it gets idle cores, otherwise about a tenth of one.

    Only on Linux, since elsewhere niceness belongs to the process (nice(2)). If that is forbidden, the priority stays.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.nice(_NICE)
