"""Hadoop's configuration keys as data: each key declares its name, default, type and meaning once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector, local_path
from hadoop_common.configuration_errors import NO_FILE
from hadoop_common.quantities import (
    parse_bool,
    parse_count,
    parse_float,
    parse_int,
    parse_limit,
    parse_networks,
    parse_size,
    parse_time,
)
from hadoop_common.substitution import has_variable

T = TypeVar("T")

_KEY, _SCOPED = "key", "scoped"

ABSENT = "(absent)"

_OWN = "checkpointer."
"""Prefix of the keys that Hadoop lacks. A faulty value of such a key is an error; the default does not replace it."""


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """The type of a key's values.

    Attributes:
        unit: unit of a bare number, or the kind of value, as shown to users.
        read: reads the value from settings, given the key's name and the default as text; raises ConfigurationError for
            an invalid value.
    """

    unit: str
    read: Callable[[Configuration, str, str], T]


def parsed(unit: str, parse: Callable[[str], T]) -> ValueType[T]:
    """Return a type whose values `parse` converts from text; `parse` raises ValueError for invalid text."""
    return ValueType(unit, lambda settings, name, default: settings.parsed(name, default, parse))


def text(unit: str) -> ValueType[str]:
    """Return the type of any text; "" if unset."""
    return ValueType(unit, lambda settings, name, default: settings.get(name, default))


ACCESS_LIST = ValueType("users groups", lambda settings, name, default: settings.get_untrimmed(name, default))


def paths(unit: str) -> ValueType[list[Path]]:
    """Return the type of local paths without duplicates; an empty list if unset."""
    return ValueType(unit, lambda settings, name, default: settings.get_path_list(name, default))


def local_file(unit: str) -> ValueType[str]:
    """Return the type of one local path or `file:` URI, whose value is the path; "" if unset. A relative path causes a
    warning.
    """

    def read(settings: Configuration, name: str, default: str) -> str:
        given = settings.get(name, default)
        if not given:
            return ""
        if not (given.startswith("/") or urlsplit(given).scheme or has_variable(given)):
            settings.warn(settings.fault(name, "is not absolute, so it depends on where the process was started"))
            return given
        return settings.parsed(name, default, lambda value: str(local_path(value)))

    return ValueType(unit, read)


def count_of(unit: str) -> ValueType[int]:
    """Return the type of a count of `unit`."""
    return parsed(unit, parse_int)


def _switch(settings: Configuration, name: str, default: str) -> bool | None:
    """Read `true` or `false`. As in Hadoop (Configuration.getBoolean), the default replaces any other word, with a
    warning.
    """
    given = settings.get(name, default)
    if given.lower() in ("true", "false") or settings.source(name) == NO_FILE or name.startswith(_OWN):
        return settings.parsed(name, default, parse_bool)
    if given:
        settings.warn(settings.fault(name, f"is neither true nor false; as in Hadoop, the default {default} applies"))
    return parse_bool(default) if default else None


COUNT, TRANSACTIONS = parsed("count", parse_count), count_of("transactions")
NETWORKS = parsed("networks", parse_networks)
FACTOR = parsed("factor", parse_float)
SWITCH = ValueType("switch", lambda settings, name, default: bool(_switch(settings, name, default)))
OPTIONAL_SWITCH: ValueType[bool | None] = ValueType(
    "switch", lambda settings, name, default: _switch(settings, name, default) if settings.get(name, default) else None
)
SECONDS = parsed("s", lambda value: parse_time(value, "s"))
MILLISECONDS = parsed("ms", lambda value: parse_time(value, "ms"))
"""Seconds; a bare number is in milliseconds."""
MILLISECONDS_OR_NONE = parsed("ms", lambda value: parse_limit(value, "ms"))
"""Like MILLISECONDS, but 0 or less means no limit and is read as infinity."""
BYTES = parsed("bytes", parse_size)
RATE = parsed("bytes/s", lambda value: max(parse_size(value), 0))
"""Like BYTES, but a negative value is read as 0."""
OPTIONAL_BYTES = ValueType(
    "bytes",
    lambda settings, name, default: settings.parsed(name, default, parse_size) if settings.get(name, default) else None,
)
MEGABYTES = parsed("MB", lambda value: parse_int(value) << 20)
"""Sizes in bytes; the value of a key is a number of megabytes."""
NAMES: ValueType[list[str]] = ValueType("names", lambda settings, name, default: settings.get_list(name, default))
DIRECTORIES = paths("directories")


class KeyStatus(Enum):
    """How the checkpointer treats a key."""

    SUPPORTED = "supported"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConfigKey(Generic[T]):
    """One configuration key.

    Attributes:
        default: default value in Hadoop 3.4, "" if it is unset.
        meaning: effect of the key; for an ignored key, its effect in Hadoop.
        status: SUPPORTED, IGNORED (setting it changes nothing), or REFUSED (any value but the default is a fault).
        reason: reason why the key is ignored or refused; for a supported key, the values that are refused.
        release2: default value in Hadoop 2.7 if it differs; ABSENT if 2.7 does not have the key.
        least: smallest allowed number.
    """

    name: str
    default: str
    kind: ValueType[T]
    meaning: str
    status: KeyStatus = KeyStatus.SUPPORTED
    reason: str = ""
    release2: str | None = None
    least: float | None = None

    @property
    def fallback(self) -> T:
        """The default as a value, which also replaces a faulty value."""
        return self.read(Configuration((), {}))

    @property
    def port(self) -> int:
        """The port of a default `host:port`."""
        return int(self.default.rpartition(":")[2])

    def read(self, settings: Configuration, name: str = "") -> T:
        """Return the value of the key, or of `name`, a more specific form of the key.

        Raises:
            ConfigurationError: the value is not allowed.
        """
        name = name or self.name
        value = self.kind.read(settings, name, self.default)
        if self.least is not None and isinstance(value, int | float) and value < self.least:
            raise ConfigurationError([settings.fault(name, f"must be at least {self.least:g}")])
        return value

    def take(self, settings: Configuration, faults: FaultCollector, name: str = "") -> T:
        """Return the value; for a faulty value, add the fault to `faults` and return the default."""
        return faults.take(lambda: self.read(settings, name), self.fallback)

    def of(self, suffix: str) -> str:
        """Return the name of the key with a suffix: a nameservice, or `NAMESERVICE.NAMENODE`."""
        return f"{self.name}.{suffix}"


def keys_in(namespace: Mapping[str, object]) -> tuple[ConfigKey[Any], ...]:
    """Return the keys that a module declares, in order."""
    return tuple(each for each in namespace.values() if isinstance(each, ConfigKey))


def bound(key: ConfigKey[T], *, scoped: bool = False) -> T:
    """Declare a dataclass field that is set by `key` or, if `scoped`, by the key's form for this nameservice and
    NameNode.
    """
    made: Any = field(default=key.fallback, metadata={_KEY: key, _SCOPED: scoped})
    value: T = made
    return value


def key_names(kind: type) -> dict[str, str]:
    """Return the key name of each bound field of a dataclass."""
    return {name: key.name for name, key in _bindings(kind).items()}


def _bindings(kind: type) -> dict[str, ConfigKey[Any]]:
    return {each.name: each.metadata[_KEY] for each in fields(kind) if _KEY in each.metadata}


def bound_keys(kind: type) -> tuple[ConfigKey[Any], ...]:
    """Return the keys that set fields of a dataclass."""
    return tuple(_bindings(kind).values())


def read_bound(kind: type, settings: Configuration) -> dict[str, Any]:
    """Return the values of all bound fields of a dataclass, by name.

    Raises:
        ConfigurationError: a value is not allowed.
    """
    return {name: key.read(settings) for name, key in _bindings(kind).items()}


def take_bound(
    kind: type,
    settings: Configuration,
    faults: FaultCollector,
    scope: Callable[[ConfigKey[Any]], str] = lambda key: key.name,
) -> dict[str, Any]:
    """Read the values of all bound fields of a dataclass; add faults to `faults`, and replace faulty values with
    defaults.

    `scope` returns the name under which this node reads the key of a scoped field.
    """
    scoped = {each.name for each in fields(kind) if each.metadata.get(_SCOPED)}
    return {
        name: key.take(settings, faults, scope(key) if name in scoped else "") for name, key in _bindings(kind).items()
    }
