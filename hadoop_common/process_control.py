"""Commands to a running daemon, by signals or from a program that embeds it."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from enum import Enum
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Self


class Command(Enum):
    RELOAD = "reload"
    STOP = "stop"


class Control:
    """A queue of commands to a daemon; any thread or signal handler may call `stop` and `reload`.

    As a context manager around the work of the main thread, the queue also receives signals. It guarantees that the
    process ends within `stop_within` seconds after a stop command or the end of the work, even if threads hang.
    """

    def __init__(self, stop_within: float) -> None:
        self._stop_within = stop_within
        # unlike Queue and Event, usable in a signal handler that interrupts a call of the same object
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._stopping = False

    def take_signals(self) -> None:
        """Handle SIGTERM and SIGINT as stop, and SIGHUP as reload; call this method in the main thread.

        As in Java, SIGQUIT prints the stacks of all threads on stderr, and the process continues. The main thread
        prints them when it next executes Python code.
        """

        def stop(number: int, frame: FrameType | None) -> None:
            exit_within(self._stop_within)
            self.stop()

        def reload(number: int, frame: FrameType | None) -> None:
            self.reload()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGHUP, reload)
        signal.signal(signal.SIGQUIT, _print_stacks)

    def __enter__(self) -> Self:
        self.take_signals()
        return self

    def __exit__(self, *_: object) -> None:
        exit_within(self._stop_within)

    def stop(self) -> None:
        self._stopping = True
        self._commands.put(Command.STOP)

    def reload(self) -> None:
        self._commands.put(Command.RELOAD)

    def stopping(self) -> bool:
        """Return whether the daemon should end."""
        return self._stopping

    def wait(self, seconds: float) -> Command | None:
        """Return the next command; None if none arrives within `seconds`.

        A signal that arrives just before the system call does not interrupt this call, so the handler runs only after
        it. Short calls limit this delay.
        """
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            with suppress(Empty):
                return self._commands.get(timeout=min(left, _MAX_SIGNAL_DELAY))
            if left <= _MAX_SIGNAL_DELAY:
                return None

    def wait_for_stop(self) -> None:
        """Wait until the daemon should end, and ignore reloads."""
        while not self.stopping():
            self.wait(_POLL_SECONDS)


_STDERR = 2
_POLL_SECONDS = 60.0
_MAX_SIGNAL_DELAY = 1.0


def _print_stacks(number: int, frame: FrameType | None) -> None:
    """Write the stacks of all threads to stderr.

    `faulthandler.register` would read the frames of running threads without the interpreter's lock, which can crash the
    process (python/cpython#116008). Locks and buffered files may belong to the interrupted code, so this function uses
    neither.
    """
    lines = []
    for thread, top in sys._current_frames().items():
        lines += [f"Thread {thread:#x}:\n", *traceback.format_stack(top), "\n"]
    left = "".join(lines).encode(errors="backslashreplace")
    # the reader of stderr may have ended
    with suppress(OSError):
        while left:
            left = left[os.write(_STDERR, left) :]


def exit_within(seconds: float) -> None:
    """End this process after at most `seconds`, with exit code 1 and the stacks of its threads on stderr.

    The end does not depend on the main thread or the interpreter, because any thread may hang. If no thread can be
    created, SIGALRM ends the process.
    """
    try:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
    except RuntimeError:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(max(1, math.ceil(seconds)))
