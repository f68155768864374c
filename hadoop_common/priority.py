"""Which of a process's threads go first where there are fewer cores than threads."""

from __future__ import annotations

import os
import sys

__all__ = ["let_others_go_first"]

_NICE = 10


def let_others_go_first() -> None:
    """The calling thread gets a core that no other thread wants, and a tenth of one otherwise; for its whole life.

    On Linux alone: elsewhere niceness is the process's (nice(2)).
    """
    if sys.platform == "linux":
        os.nice(_NICE)
