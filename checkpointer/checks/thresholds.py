"""Thresholds of the checks that measure: defaults from the configuration, others from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hadoop_common.quantities import parse_int, parse_size, parse_time

# what can be given for each check: how a value reads, and what it is in
MEASURED: Mapping[str, tuple[Callable[[str], float], str]] = {
    "age": (lambda text: parse_time(text, "s"), "a time: seconds, or with m, h or d"),
    "transactions": (parse_int, "a number of transactions"),
    "journalnodes": (parse_int, "a number of transactions"),
    "tls": (lambda text: parse_time(text, "s"), "a time: seconds, or with m, h or d"),
    "space": (parse_size, "bytes, or with k, m, g or t"),
}

# those of which less is worse
FALLING = frozenset({"space", "tls"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Warning and critical threshold of one check; None for none."""

    warning: float | None
    critical: float | None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the operator gave, by name of the check."""

    warning: Mapping[str, float] = field(default_factory=dict)
    critical: Mapping[str, float] = field(default_factory=dict)

    def disorder(self) -> str:
        """What says that a check would be critical before it is a warning, "" where nothing does."""
        for name in self.warning.keys() & self.critical.keys():
            warning, critical = self.warning[name], self.critical[name]
            if name in FALLING and warning < critical:
                return f"{name}: --warning has to be at least --critical, as less is worse"
            if name not in FALLING and warning > critical:
                return f"{name}: --warning has to be at most --critical, as more is worse"
        return ""

    def limits(self, name: str, warning: float | None, critical: float | None) -> Limits:
        """Those of check `name`; `warning` and `critical` are its defaults."""
        return Limits(self.warning.get(name, warning), self.critical.get(name, critical))


def parse_thresholds(texts: Iterable[str]) -> dict[str, float]:
    """Values of `NAME=VALUE` texts.

    Raises:
        ValueError: a name measures nothing, or a value does not read as what it measures.
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
