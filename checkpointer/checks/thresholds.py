"""Thresholds of the checks that measure a value; the command line overrides the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import NamedTuple

from hadoop_common.quantities import parse_int, parse_size, parse_time


class MeasuredValue(NamedTuple):
    """The value that a check measures.

    Attributes:
        parse: parses a threshold; raises ValueError if the text is invalid.
        what: description of a threshold.
        falling: whether smaller values are worse.
    """

    parse: Callable[[str], float]
    what: str
    falling: bool = False


def _time(text: str) -> float:
    return parse_time(text, "s")


_SECONDS = "a time in seconds, or with a unit m, h or d"
MEASURED: Mapping[str, MeasuredValue] = {
    "age": MeasuredValue(_time, _SECONDS),
    "transactions": MeasuredValue(parse_int, "a number of transactions"),
    "journalnodes": MeasuredValue(parse_int, "a number of transactions"),
    "tls": MeasuredValue(_time, _SECONDS, falling=True),
    "space": MeasuredValue(parse_size, "a size in bytes, or with a unit k, m, g or t", falling=True),
}
"""The values of the checks that `--warning` and `--critical` accept, by the name of the check."""


@dataclass(frozen=True, slots=True)
class AlarmLimits:
    """Warning and critical threshold of one check; None disables a threshold."""

    warning: float | None
    critical: float | None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The operator's thresholds by check name."""

    warning: Mapping[str, float] = field(default_factory=dict)
    critical: Mapping[str, float] = field(default_factory=dict)

    def disorder(self) -> str:
        """Describe the first check for which --critical would apply before --warning; return "" if there is none."""
        given = ((name, AlarmLimits(self.warning.get(name), limit)) for name, limit in self.critical.items())
        return next(filter(None, starmap(_disorder, given)), "")

    def limits(self, name: str, warning: float | None, critical: float | None) -> AlarmLimits:
        """Return the thresholds of the `name` check; `warning` and `critical` are its defaults.

        An operator's threshold replaces a contradicting default. One exception: for space, the default of --critical
        replaces a lower --warning, because the next checkpoint needs this space.
        """
        found = AlarmLimits(self.warning.get(name, warning), self.critical.get(name, critical))
        if not _disorder(name, found):
            return found
        both = found.critical if name in self.critical or MEASURED[name].falling else found.warning
        return AlarmLimits(both, both)


def _disorder(name: str, limits: AlarmLimits) -> str:
    """Return an error if --critical would apply before --warning; otherwise, or if a threshold is missing, return
    "".
    """
    if limits.warning is None or limits.critical is None:
        return ""
    falling = MEASURED[name].falling
    if falling and limits.warning < limits.critical:
        return f"{name}: --warning must be at least --critical, because a smaller value is worse"
    if not falling and limits.warning > limits.critical:
        return f"{name}: --warning must be at most --critical, because a larger value is worse"
    return ""


def parse_thresholds(texts: Iterable[str]) -> dict[str, float]:
    """Parse `NAME=VALUE` strings.

    Raises:
        ValueError: a check has no thresholds or is named twice, or its value cannot be parsed or is negative.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or name not in MEASURED:
            raise ValueError(f"{text!r} is not a threshold: expected NAME=VALUE with one of {', '.join(MEASURED)}")
        if name in found:
            raise ValueError(f"{text!r}: {name} already has a threshold")
        measured = MEASURED[name]
        try:
            found[name] = measured.parse(value)
            if found[name] < 0:
                raise ValueError("is negative")
        except ValueError as fault:
            raise ValueError(f"{text!r}: {value!r} {fault}; {name} expects {measured.what}") from fault
    return found
