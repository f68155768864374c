"""Faults that may last: the log has a line when one begins or changes, and a line when it ends.

A fault belongs to one operation. It has ended when that operation has succeeded, whatever else succeeded before.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from itertools import count

from hadoop_common.errors import HdfsError
from hadoop_common.quantities import duration

_NUMBERS = re.compile(r"\d+")


class Alarm(str):
    """What an operator has to see to, in one sentence, and what to do about it.

    Attributes:
        hint: the next step, "" where none is known.
    """

    hint: str

    def __new__(cls, text: str, hint: str = "") -> Alarm:
        alarm = super().__new__(cls, text)
        alarm.hint = hint
        return alarm


class RecurringFault:
    """The fault of one operation that is repeated; any thread may note it, end it or read it.

    A text that differs in its numbers only (seconds, bytes free) is the same fault, and gets no second line.

    Args:
        log: where the lines go.
        success: begins the line at the end: "the NameNode answers again".
        unit: what is counted: "polls".
        clock: monotonic seconds.

    Attributes:
        text: what is wrong, as last noted; "" while the operation succeeds.
        hint: what to do next, "" where that is not known.
        count: how often in a row the operation failed, whatever the text was.
    """

    def __init__(
        self, log: logging.Logger, success: str, *, unit: str = "times", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._success = success
        self._unit = unit
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: tuple[int, str] | None = None
        self._since = 0.0
        self.text = ""
        self.hint = ""
        self.count = 0

    @property
    def alarm(self) -> Alarm:
        """What is wrong with its next step, empty while the operation succeeds."""
        with self._lock:
            return Alarm(self.text, self.hint)

    @property
    def seconds(self) -> float:
        """How long it has lasted, 0 while the operation succeeds."""
        with self._lock:
            return self._clock() - self._since if self.count else 0.0

    def occurred(
        self,
        text: str,
        *,
        hint: str = "",
        level: int = logging.ERROR,
        bug: BaseException | None = None,
        **fields: object,
    ) -> None:
        """Note that the operation failed.

        Args:
            hint: what to do next.
            bug: a fault of this program, logged with its stack.
            fields: for a collector of logs.
        """
        with self._lock:
            if not self.count:
                self._since = self._clock()
            self.count += 1
            self.text, self.hint = text, hint
            line = (level, same_but_numbers(text))
            if line == self._logged:
                return
            self._logged = line
        self._log.log(level, "%s", with_next(text, hint), exc_info=bug, extra=fields)

    def ended(self) -> None:
        """Note that the operation succeeded; logged if it failed before."""
        if lasted := self._clear():
            seconds, times = lasted
            self._log.info("%s after %s, %d %s", self._success, duration(seconds), times, self._unit)

    def forget(self) -> None:
        """Note that the operation is no longer tried, so that nobody knows whether it would succeed."""
        self._clear()

    def _clear(self) -> tuple[float, int] | None:
        with self._lock:
            times, self.count, self.text, self.hint, self._logged = self.count, 0, "", "", None
            return (self._clock() - self._since, times) if times else None


class PeerFaults:
    """The faults of the questions that one peer is asked; each ends when the same question was answered.

    A cause that several questions meet, as a peer that is down, is logged for the first of them only.

    Args:
        peer: "NameNode nn1:8020".
    """

    def __init__(self, log: logging.Logger, peer: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._peer = peer
        self._clock = clock
        self._lock = threading.Lock()
        self._events = count()
        self._faults: dict[str, RecurringFault] = {}
        # by question: what went wrong last, and the numbers of the events
        self._causes: dict[str, str] = {}
        self._failed: dict[str, int] = {}
        self._answered: dict[str, int] = {}

    def occurred(self, question: str, cause: str, *, hint: str = "", level: int = logging.WARNING) -> None:
        """Note that there was no answer to `question`, such as "state", because of `cause`."""
        with self._lock:
            fault = self._faults.get(question)
            if fault is None:
                success = f"{self._peer} reports its {question} again"
                fault = self._faults[question] = RecurringFault(self._log, success, clock=self._clock)
            known = not fault.count and self._is_known(question, cause)
            self._causes[question], self._failed[question] = same_but_numbers(cause), next(self._events)
        if not known:
            fault.occurred(f"{self._peer} does not report its {question}: {cause}", hint=hint, level=level)

    def answered(self, question: str) -> None:
        """Note that `question` was answered."""
        with self._lock:
            self._answered[question] = next(self._events)
            self._causes.pop(question, None)
            fault = self._faults.get(question)
        if fault is not None:
            fault.ended()

    def _is_known(self, question: str, cause: str) -> bool:
        """Whether another question met the cause since this one was answered, and it was logged then."""
        since = self._answered.get(question, -1)
        return any(
            self._faults[each].count and known == same_but_numbers(cause) and self._failed[each] > since
            for each, known in self._causes.items()
        )


def same_but_numbers(text: str) -> str:
    """`text` as it is compared: with `#` for each number."""
    return _NUMBERS.sub("#", text)


def with_next(problem: str | HdfsError, hint: str = "") -> str:
    """A line of the log that ends with the next step, where there is one."""
    hint = hint or (problem.hint if isinstance(problem, HdfsError) else "")
    return f"{problem}; next: {hint}" if hint else str(problem)
