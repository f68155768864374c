"""Faults in Hadoop configuration files, gathered so that one run reports all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from hadoop_common.errors import EXIT_USAGE, HdfsError

T = TypeVar("T")

HIDDEN = "(hidden)"
# as hadoop.security.sensitive-config-keys has them, and BookKeeper's digestPw
_SECRET = re.compile(
    r"password|secret|digestpw|zk\.auth|zookeeper\.auth|ssl\.keystore\.pass$|credential$|token$|account\.key",
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Whether the value of a key of this name is nobody's to read in a message or a list."""
    return _SECRET.search(key) is not None


@dataclass(frozen=True, slots=True)
class ConfigurationFault:
    """One thing wrong. `source` is the file that set `key`; `value` is None where none was given."""

    source: str
    problem: str
    key: str = ""
    value: str | None = None

    def __str__(self) -> str:
        setting = self.key if self.value is None else f"{self.key}={self.value!r}"
        return ": ".join(part for part in (self.source, setting, self.problem) if part)


class ConfigurationError(HdfsError):
    """The configuration cannot be used; `faults` lists everything that was found wrong."""

    exit_code: ClassVar[int] = EXIT_USAGE

    def __init__(self, faults: Iterable[ConfigurationFault]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "\n".join(str(fault) for fault in self.faults), hint="Correct the named settings and start again."
        )


class FaultCollector:
    """Runs getters and keeps their faults, so that the caller can report all at once."""

    def __init__(self) -> None:
        self.faults: list[ConfigurationFault] = []

    def add(self, fault: ConfigurationFault) -> None:
        """Note a fault the caller found itself."""
        self.faults.append(fault)

    def take(self, getter: Callable[[], T], fallback: T) -> T:
        """What `getter` returns, or `fallback` when it raises ConfigurationError, whose faults are kept."""
        try:
            return getter()
        except ConfigurationError as error:
            self.faults.extend(error.faults)
            return fallback

    def raise_if_any(self) -> None:
        """Raise what was gathered.

        Raises:
            ConfigurationError: at least one fault was kept.
        """
        if self.faults:
            raise ConfigurationError(dict.fromkeys(self.faults))
