"""Faults in Hadoop's configuration files, collected so that one run reports all faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode

T = TypeVar("T")

NO_FILE = "(default)"
"""Source of a key that no file sets."""


@dataclass(frozen=True, slots=True)
class ConfigurationFault:
    """One fault. `source` is the file that sets `key`; `value` is None if no value is given."""

    source: str
    problem: str
    key: str = ""
    value: str | None = None

    def __str__(self) -> str:
        setting = self.key if self.value is None else f"{self.key}={self.value!r}"
        source = "" if self.source == NO_FILE else self.source
        return ": ".join(part for part in (source, setting, self.problem) if part)

    def as_dict(self) -> dict[str, str | None]:
        return {"key": self.key, "value": self.value, "source": self.source, "problem": self.problem}


class ConfigurationError(HdfsError):
    """Refusal of an unusable configuration; `faults` lists all faults."""

    exit_code: ClassVar[int] = ExitCode.USAGE

    def __init__(self, faults: Iterable[ConfigurationFault]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "\n".join(str(fault) for fault in self.faults), hint="Correct the named settings and start again."
        )


class FaultCollector:
    """A collector that runs getters and stores their faults, so that the caller can report all of them together."""

    def __init__(self) -> None:
        self.faults: list[ConfigurationFault] = []

    def add(self, fault: ConfigurationFault) -> None:
        """Add a fault that the caller found."""
        self.faults.append(fault)

    def take(self, getter: Callable[[], T], fallback: T) -> T:
        """Return the result of `getter`; if it raises ConfigurationError, store the faults and return `fallback`."""
        try:
            return getter()
        except ConfigurationError as error:
            self.faults.extend(error.faults)
            return fallback

    def raise_if_any(self) -> None:
        """Raise the collected faults.

        Raises:
            ConfigurationError: at least one fault was collected.
        """
        if self.faults:
            raise ConfigurationError(dict.fromkeys(self.faults))
