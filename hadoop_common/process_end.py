"""The end of a process, whatever its threads do."""

from __future__ import annotations

import faulthandler
import math
import signal

_STDERR = 2


def end_within(seconds: float) -> None:
    """Have this process end after `seconds` at the latest, with exit code 1 and the stacks of its threads on stderr.

    It needs neither the main thread nor the interpreter for that: a thread may hang in any way. Where there can be no
    more threads, SIGALRM ends it.
    """
    try:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
    except RuntimeError:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(max(1, math.ceil(seconds)))
