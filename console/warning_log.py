"""The latest warnings and errors of the log, kept in memory for the console."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

_KEPT: Final = 100
_MAX_LENGTH: Final = 2000


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log; `at` is in seconds since the epoch."""

    at: float
    level: str
    text: str


class WarningLog(logging.Handler):
    """Log handler that stores the latest lines of level WARNING or above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[LogLine] = deque(maxlen=_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """Store the record as text; report a record with wrong arguments as `logging` does."""
        try:
            self._lines.append(LogLine(record.created, record.levelname, record.getMessage()[:_MAX_LENGTH]))
        except Exception:
            self.handleError(record)

    def lines(self) -> list[LogLine]:
        """Return the lines, the newest first."""
        return list(self._lines)[::-1]
