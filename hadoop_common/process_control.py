"""What reaches a running daemon from outside: signals, or a program that embeds it."""

from __future__ import annotations

import signal
from enum import Enum
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Self

from hadoop_common.process_end import end_within


class Command(Enum):
    """What a daemon is asked for."""

    RELOAD = "reload"
    STOP = "stop"


class Control:
    """Commands to a daemon in their order; `stop` and `reload` may be called from any thread or signal handler.

    As a context manager, around the work of a process and in its main thread, it takes signals, and sees to it that the
    process ends `stop_within` seconds after it was told to, or after its work has ended or failed, whatever hangs then.
    """

    def __init__(self, stop_within: float) -> None:
        self._stop_within = stop_within
        # Unlike Queue and Event it may be used by a handler that interrupts its own caller.
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._stopping = False

    def take_signals(self) -> None:
        """SIGTERM and SIGINT stop, SIGHUP reloads; for the main thread."""

        def stop(number: int, frame: FrameType | None) -> None:
            end_within(self._stop_within)
            self.stop()

        def reload(number: int, frame: FrameType | None) -> None:
            self.reload()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGHUP, reload)

    def __enter__(self) -> Self:
        self.take_signals()
        return self

    def __exit__(self, *_: object) -> None:
        end_within(self._stop_within)

    def stop(self) -> None:
        self._stopping = True
        self._commands.put(Command.STOP)

    def reload(self) -> None:
        self._commands.put(Command.RELOAD)

    def stopping(self) -> bool:
        """Whether the daemon is to end."""
        return self._stopping

    def wait(self, seconds: float) -> Command | None:
        """The next command; None when there was none for so long."""
        try:
            return self._commands.get(timeout=seconds)
        except Empty:
            return None
