"""A key of Hadoop's configuration as data: name, default, kind and meaning stand here once; who needs it reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.quantities import (
    parse_bool,
    parse_float,
    parse_int,
    parse_limit,
    parse_networks,
    parse_size,
    parse_time,
)

T = TypeVar("T")

_KEY = "key"

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What the values of a key are.

    Attributes:
        unit: what a bare number counts in, or the kind of value, for people.
        read: the value from settings, by name, with the text of the default; raises ConfigurationError.
    """

    unit: str
    read: Callable[[Configuration, str, str], T]


def parsed(unit: str, parse: Callable[[str], T]) -> Kind[T]:
    """What `parse` makes of the text; it raises ValueError."""
    return Kind(unit, lambda settings, name, default: settings.parsed(name, default, parse))


def _optional(unit: str, parse: Callable[[str], T]) -> Kind[T | None]:
    def read(settings: Configuration, name: str, default: str) -> T | None:
        return settings.parsed(name, default, parse) if settings.get(name, default) else None

    return Kind(unit, read)


def text(unit: str) -> Kind[str]:
    """Any text; "" for unset."""
    return Kind(unit, lambda settings, name, default: settings.get(name, default))


def paths(unit: str) -> Kind[list[Path]]:
    """Local paths, without repeats; none for unset."""
    return Kind(unit, lambda settings, name, default: settings.get_path_list(name, default))


def count_of(unit: str) -> Kind[int]:
    """A number of something."""
    return parsed(unit, parse_int)


COUNT, TRANSACTIONS = count_of("count"), count_of("transactions")
NETWORKS = parsed("networks", parse_networks)
FACTOR = parsed("factor", parse_float)
SWITCH = parsed("switch", parse_bool)
OPTIONAL_SWITCH = _optional("switch", parse_bool)
SECONDS = parsed("s", lambda value: parse_time(value, "s"))
MILLISECONDS = parsed("ms", lambda value: parse_time(value, "ms"))
"""Read as seconds; a bare number counts in milliseconds."""
MILLISECONDS_OR_NONE = parsed("ms", lambda value: parse_limit(value, "ms"))
"""The same of a limit; 0 or less is none, which is infinity."""
BYTES, RATE = parsed("bytes", parse_size), parsed("bytes/s", parse_size)
OPTIONAL_BYTES = _optional("bytes", parse_size)
MEGABYTES = parsed("MB", lambda value: parse_int(value) << 20)
"""Read as bytes."""
NAMES: Kind[list[str]] = Kind("names", lambda settings, name, default: settings.get_list(name, default))
DIRECTORIES = paths("directories")


class KeyStatus(Enum):
    """What the checkpointer does about a key."""

    SUPPORTED = "supported"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConfigKey(Generic[T]):
    """One key.

    Attributes:
        default: of Hadoop 3.4, "" for unset.
        meaning: what the key does; for an ignored key what it does in Hadoop.
        status: SUPPORTED, IGNORED (setting it changes nothing), or REFUSED (any value but the default is a fault).
        reason: why it is ignored or refused; for a supported key which of its values are refused, if any.
        release2: the default of Hadoop 2.7 where it is another one; ABSENT where 2.7 has no such key.
        least: a number below it is a fault.
    """

    name: str
    default: str
    kind: Kind[T]
    meaning: str
    status: KeyStatus = KeyStatus.SUPPORTED
    reason: str = ""
    release2: str | None = None
    least: float | None = None

    @property
    def fallback(self) -> T:
        """The default as a value, and what stands in for a faulty one."""
        return self.read(Configuration((), {}))

    @property
    def port(self) -> int:
        """The port of a default `host:port`."""
        return int(self.default.rpartition(":")[2])

    def read(self, settings: Configuration, name: str = "") -> T:
        """The value, or that of the more specific form `name` of the key.

        Raises:
            ConfigurationError: it is none that the key can have.
        """
        name = name or self.name
        value = self.kind.read(settings, name, self.default)
        if self.least is not None and isinstance(value, int | float) and value < self.least:
            raise ConfigurationError([settings.fault(name, f"must be at least {self.least:g}")])
        return value

    def take(self, settings: Configuration, faults: FaultCollector, name: str = "") -> T:
        """The value; what is wrong with it goes to `faults`, and the default stands in."""
        return faults.take(lambda: self.read(settings, name), self.fallback)

    def of(self, suffix: str) -> str:
        """The form of the key for a nameservice, or `NAMESERVICE.NAMENODE`."""
        return f"{self.name}.{suffix}"


def keys_in(namespace: Mapping[str, object]) -> tuple[ConfigKey[Any], ...]:
    """The keys that a module declares, in their order."""
    return tuple(each for each in namespace.values() if isinstance(each, ConfigKey))


def bound(key: ConfigKey[T]) -> T:
    """A field of a dataclass that `key` sets; its default is the key's."""
    made: Any = field(default=key.fallback, metadata={_KEY: key})
    value: T = made
    return value


def key_names(kind: type) -> dict[str, str]:
    """By bound field of a dataclass the name of its key."""
    return {name: key.name for name, key in _bindings(kind).items()}


def _bindings(kind: type) -> dict[str, ConfigKey[Any]]:
    return {each.name: each.metadata[_KEY] for each in fields(kind) if _KEY in each.metadata}


def bound_keys(kind: type) -> tuple[ConfigKey[Any], ...]:
    """The keys that set fields of a dataclass."""
    return tuple(_bindings(kind).values())


def read_bound(kind: type, settings: Configuration) -> dict[str, Any]:
    """The values of all bound fields of a dataclass, by name.

    Raises:
        ConfigurationError: one is none that its key can have.
    """
    return {name: key.read(settings) for name, key in _bindings(kind).items()}


def take_bound(kind: type, settings: Configuration, faults: FaultCollector) -> dict[str, Any]:
    """The same; what is wrong with values goes to `faults`, and the defaults stand in."""
    return {name: key.take(settings, faults) for name, key in _bindings(kind).items()}
