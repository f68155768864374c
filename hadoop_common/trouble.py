"""A trouble that lasts, as a log tells it: a line when it begins or becomes another one, and a line when it ends."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable

from hadoop_common.errors import HdfsError
from hadoop_common.quantities import duration

_NUMBERS = re.compile(r"\d+")


class Trouble:
    """One thing that may go wrong again and again; any thread may meet it, end it or read it.

    A text that differs in its numbers only (seconds, bytes free) is the same trouble, and gets no second line.

    Args:
        log: where the lines go.
        ended: what the line at the end begins with: "the NameNode answers again".
        unit: what is counted: "polls".
        clock: monotonic seconds.

    Attributes:
        text: what is wrong, as it was met last; "" while all is well.
        count: how often it was met in a row, whatever the text was.
    """

    def __init__(
        self, log: logging.Logger, ended: str, *, unit: str = "times", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._ended = ended
        self._unit = unit
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: tuple[int, str] | None = None
        self._since = 0.0
        self.text = ""
        self.count = 0

    @property
    def seconds(self) -> float:
        """How long it has lasted, 0 while all is well."""
        with self._lock:
            return self._clock() - self._since if self.count else 0.0

    def met(
        self,
        text: str,
        *,
        hint: str = "",
        level: int = logging.ERROR,
        bug: BaseException | None = None,
        **fields: object,
    ) -> None:
        """It is there.

        Args:
            hint: what to do next.
            bug: a fault of this program, told with its stack.
            fields: for a collector of logs.
        """
        with self._lock:
            if not self.count:
                self._since = self._clock()
            self.count += 1
            self.text = text
            told = (level, _NUMBERS.sub("#", text))
            if told == self._logged:
                return
            self._logged = told
        self._log.log(level, "%s", with_next(text, hint), exc_info=bug, extra=fields)

    def over(self) -> None:
        """All is well; told if it was not."""
        if ended := self._end():
            lasted, count = ended
            self._log.info("%s after %s, %d %s", self._ended, duration(lasted), count, self._unit)

    def forget(self) -> None:
        """It is no longer asked about, so that nobody knows whether it is over."""
        self._end()

    def _end(self) -> tuple[float, int] | None:
        with self._lock:
            count, self.count, self.text, self._logged = self.count, 0, "", None
            return (self._clock() - self._since, count) if count else None


def with_next(problem: str | HdfsError, hint: str = "") -> str:
    """A line of the log that ends with the next step, where there is one."""
    hint = hint or (problem.hint if isinstance(problem, HdfsError) else "")
    return f"{problem}; next: {hint}" if hint else str(problem)
