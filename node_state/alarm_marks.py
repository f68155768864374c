"""An operator's marks on alarms: silences and acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmMark:
    """An operator's mark on the alarms of a kind: the user, start, latest end (None: when the alarms end) and reason.

    Attributes:
        alarms: keys (`alarm_key`) of the alarms at the start.
    """

    by: str
    since: float
    until: float | None
    reason: str
    alarms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSilence(AlarmMark):
    """A silence of the marked alarms, or of the whole kind if there are no keys."""

    until: float

    def covers(self, raised: Collection[str]) -> bool:
        """Return whether all alarms with these keys are silenced."""
        return not self.alarms or all(each in self.alarms for each in raised)

    def __str__(self) -> str:
        return f"silenced by {self.by} until {_minute(self.until)}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmAcknowledgement(AlarmMark):
    """An acknowledgement of the marked alarms."""

    def __str__(self) -> str:
        until = "it ends" if self.until is None else _minute(self.until)
        return f"acknowledged by {self.by} until {until}: {self.reason}"


def _minute(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
