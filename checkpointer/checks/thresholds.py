"""Thresholds of the checks that measure a value: from the command line, else from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hadoop_common.quantities import parse_int, parse_size, parse_time

# by check: the parser of a value, and its description
MEASURED: Mapping[str, tuple[Callable[[str], float], str]] = {
    "age": (lambda text: parse_time(text, "s"), "a time: seconds, or with m, h or d"),
    "transactions": (parse_int, "a number of transactions"),
    "journalnodes": (parse_int, "a number of transactions"),
    "tls": (lambda text: parse_time(text, "s"), "a time: seconds, or with m, h or d"),
    "space": (parse_size, "bytes, or with k, m, g or t"),
}

# checks whose smaller values are worse
FALLING = frozenset({"space", "tls"})


@dataclass(frozen=True, slots=True)
class AlarmLimits:
    """Warning and critical threshold of one check; None disables one."""

    warning: float | None
    critical: float | None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The operator's thresholds, by name of the check."""

    warning: Mapping[str, float] = field(default_factory=dict)
    critical: Mapping[str, float] = field(default_factory=dict)

    def disorder(self) -> str:
        """Describe the first check whose --critical would apply before its --warning; "" without one."""
        for name in self.warning.keys() & self.critical.keys():
            warning, critical = self.warning[name], self.critical[name]
            if name in FALLING and warning < critical:
                return f"{name}: --warning has to be at least --critical, because a smaller value is worse"
            if name not in FALLING and warning > critical:
                return f"{name}: --warning has to be at most --critical, because a larger value is worse"
        return ""

    def limits(self, name: str, warning: float | None, critical: float | None) -> AlarmLimits:
        """Return the thresholds of check `name`; `warning` and `critical` are its defaults."""
        return AlarmLimits(self.warning.get(name, warning), self.critical.get(name, critical))


def parse_thresholds(texts: Iterable[str]) -> dict[str, float]:
    """Parse `NAME=VALUE` texts.

    Raises:
        ValueError: a check has no thresholds, or its value cannot be parsed.
    """
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or name not in MEASURED:
            raise ValueError(f"{text!r} is not a threshold: expected NAME=VALUE with one of {', '.join(MEASURED)}")
        parse, what = MEASURED[name]
        try:
            found[name] = parse(value)
        except ValueError as fault:
            raise ValueError(f"{text!r}: {value!r} {fault}; {name} takes {what}") from fault
    return found
