"""Guaranteed end of a process, whatever its threads do."""

from __future__ import annotations

import faulthandler
import math
import signal

_STDERR = 2


def end_within(seconds: float) -> None:
    """End this process after at most `seconds`, with exit code 1 and the stacks of its threads on stderr.

    This works without the main thread and the interpreter, since a thread may hang in any way. If no thread can be
    created, SIGALRM ends the process.
    """
    try:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
    except RuntimeError:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(max(1, math.ceil(seconds)))
