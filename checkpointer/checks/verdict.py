"""The result of a check, in the form of Monitoring Plugins: state, one sentence, details and measured values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """State of a check; the value is the exit status of a Nagios plugin."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


# UNKNOWN outranks OK and never hides a known fault
_WEIGHT = {State.OK: 0, State.UNKNOWN: 1, State.WARNING: 2, State.CRITICAL: 3}


def worst(states: Iterable[State]) -> State:
    """Return the worst state, OK for an empty sequence."""
    return max(states, key=_WEIGHT.__getitem__, default=State.OK)


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured value with its thresholds; `unit` is "s", "B" or "". With `below`, a value below a threshold causes an
    alarm.
    """

    name: str
    value: float
    unit: str = ""
    warning: float | None = None
    critical: float | None = None
    below: bool = False

    def __str__(self) -> str:
        limits = [_limit(self.warning, self.below), _limit(self.critical, self.below)]
        return ";".join([f"{self.name}={_number(self.value)}{self.unit}", *limits]).rstrip(";")

    def state(self) -> State:
        """Return the state of this value according to the thresholds."""
        if self.critical is not None and self._passed(self.critical):
            return State.CRITICAL
        if self.warning is not None and self._passed(self.warning):
            return State.WARNING
        return State.OK

    def _passed(self, limit: float) -> bool:
        return self.value < limit if self.below else self.value > limit


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The verdict of one check; a `hint` replaces the check's hint."""

    state: State
    summary: str
    details: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    hint: str = ""


def _limit(value: float | None, below: bool) -> str:
    if value is None:
        return ""
    return f"{_number(value)}:" if below else _number(value)


def _number(value: float) -> str:
    """Format a number without an exponent, which monitoring systems cannot parse."""
    return str(int(value)) if value == int(value) else f"{value:.6f}"
