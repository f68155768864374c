"""Which of a process's threads go first where there are fewer cores than threads."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_NICE = 10


def let_others_go_first() -> None:
    """The calling thread gets a core that no other thread wants, and a tenth of one otherwise; for its whole life.

    On Linux alone: elsewhere niceness is the process's (nice(2)). Where that is forbidden it stays as it is.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.nice(_NICE)
