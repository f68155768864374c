"""Faults that may last, with one log line when a fault begins or changes, and one when the fault ends.

A fault belongs to one operation and ends when this operation succeeds, regardless of other operations.
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
    """One sentence about a problem that needs an operator's attention.

    Attributes:
        hint: the next step, "" if unknown.
        kind: name of the alarm's kind in `node_state.alarm_kinds`, "" if the alarm has no kind.
    """

    hint: str
    kind: str

    def __new__(cls, text: str, hint: str = "", kind: str = "") -> Alarm:
        alarm = super().__new__(cls, text)
        alarm.hint, alarm.kind = hint, kind
        return alarm


class RecurringFault:
    """The fault of one repeated operation; thread-safe.

    Messages that differ only in their numbers (seconds, free bytes) are the same fault and produce one log line.

    Args:
        log: receives the lines.
        success: beginning of the last line, such as "the NameNode answers again".
        unit: name of the counted events, such as "polls".
        clock: monotonic seconds.

    Attributes:
        text: the latest problem; "" while the operation succeeds.
        hint: next step, "" if unknown.
        count: consecutive failures of the operation, regardless of their messages.
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
        """The current problem with its next step; empty while the operation succeeds."""
        with self._lock:
            return Alarm(self.text, self.hint)

    @property
    def seconds(self) -> float:
        """Duration of the fault, or 0 while the operation succeeds."""
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
        """Record a failure of the operation.

        Args:
            hint: next step.
            bug: the exception if the fault is a bug in this program; logged with its stack.
            fields: extra fields for log collectors.
        """
        with self._lock:
            if not self.count:
                self._since = self._clock()
            self.count += 1
            self.text, self.hint = text, hint
            line = (level, without_numbers(text))
            if line == self._logged:
                return
            self._logged = line
        self._log.log(level, "%s", with_next(text, hint), exc_info=bug, extra=fields)

    def ended(self) -> str:
        """Record a success of the operation; return the logged sentence, or "" if the operation had not failed."""
        lasted = self._clear()
        if lasted is None:
            return ""
        seconds, times = lasted
        sentence = f"{self._success} after {duration(seconds)}, {times} {self._unit}"
        self._log.info("%s", sentence)
        return sentence

    def forget(self) -> None:
        """Record that the caller no longer attempts the operation; whether it would succeed is unknown."""
        self._clear()

    def _clear(self) -> tuple[float, int] | None:
        with self._lock:
            times, self.count, self.text, self.hint, self._logged = self.count, 0, "", "", None
            return (self._clock() - self._since, times) if times else None


class PeerFaults:
    """The faults of the queries sent to one peer; each fault ends when the peer answers the same query.

    If several queries fail for the same cause, such as a peer that is down, only the first failure is logged.

    Args:
        peer: name of the peer, such as "NameNode nn1:8020".
    """

    def __init__(self, log: logging.Logger, peer: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._peer = peer
        self._clock = clock
        self._lock = threading.Lock()
        self._events = count()
        self._faults: dict[str, RecurringFault] = {}
        # by query: the latest cause, and the sequence numbers of the latest events
        self._causes: dict[str, str] = {}
        self._failed: dict[str, int] = {}
        self._answered: dict[str, int] = {}

    def occurred(self, question: str, cause: str, *, hint: str = "") -> None:
        """Record that `question`, such as "state", was not answered because of `cause`."""
        with self._lock:
            fault = self._faults.get(question)
            if fault is None:
                success = f"{self._peer} reports its {question} again"
                fault = self._faults[question] = RecurringFault(self._log, success, clock=self._clock)
            known = not fault.count and self._is_known(question, cause)
            self._causes[question], self._failed[question] = without_numbers(cause), next(self._events)
        if not known:
            fault.occurred(f"{self._peer} does not report its {question}: {cause}", hint=hint, level=logging.WARNING)

    def answered(self, question: str) -> None:
        with self._lock:
            self._answered[question] = next(self._events)
            self._causes.pop(question, None)
            fault = self._faults.get(question)
        if fault is not None:
            fault.ended()

    def _is_known(self, question: str, cause: str) -> bool:
        """Return whether a failure of another query with this cause was logged after `question` was last answered."""
        since = self._answered.get(question, -1)
        return any(
            self._faults[each].count and known == without_numbers(cause) and self._failed[each] > since
            for each, known in self._causes.items()
        )


def without_numbers(text: str) -> str:
    """Return `text` with `#` for each number, for comparison."""
    return _NUMBERS.sub("#", text)


def with_next(problem: str | HdfsError, hint: str = "") -> str:
    """Return a log line that ends with the next step, if there is one."""
    hint = hint or (problem.hint if isinstance(problem, HdfsError) else "")
    return f"{problem}; next: {hint}" if hint else str(problem)
