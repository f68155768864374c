"""Log formatter that prevents forged lines, and a limit on repeated lines."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hadoop_common.printable import escaped

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

_BURST = 10
_MAX_MESSAGES = 1000


def log_to_stderr(level: int) -> None:
    """Send this process's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter(_FORMAT))
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=level, handlers=[handler])


class _LineFormatter(logging.Formatter):
    """Formatter of one line per record; it indents traceback lines, so that they do not look like records."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (name defined by `logging`)
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 (name defined by `logging`)
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 (name defined by `logging`)
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join("  " + escaped(line) for line in text.split("\n"))


@dataclass(slots=True)
class _RepeatedMessage:
    """Repetitions of one log message: how many may still pass, when that number was computed, and how many were
    suppressed.
    """

    allowed: float
    at: float
    left_out: int = 0


class RepeatFilter(logging.Filter):
    """Filter for a handler that limits repeated warnings and errors.

    From the eleventh consecutive record on, records with the same format string pass once per second, with a count of
    the suppressed records.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, str], _RepeatedMessage] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now = self._clock()
        with self._lock:
            if len(self._kinds) >= _MAX_MESSAGES:
                self._kinds.clear()
            kind = self._kinds.setdefault((record.name, str(record.msg)), _RepeatedMessage(_BURST, now))
            kind.allowed = min(_BURST, kind.allowed + now - kind.at)
            kind.at = now
            if kind.allowed < 1:
                kind.left_out += 1
                return False
            kind.allowed -= 1
            left_out, kind.left_out = kind.left_out, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more like it)", None
        return True
