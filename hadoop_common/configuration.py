"""Hadoop's XML configuration: `core-site.xml` and `hdfs-site.xml` of a directory, with typed getters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar, overload
from urllib.parse import unquote, urlsplit

from hadoop_common.configuration_errors import (
    HIDDEN,
    ConfigurationError,
    ConfigurationFault,
    FaultCollector,
    is_secret,
)
from hadoop_common.configuration_xml import Property, read_properties
from hadoop_common.deprecations import current_name
from hadoop_common.substitution import has_variable, substitute, system_properties

__all__ = ["RESOURCES", "Configuration", "ConfigurationError", "ConfigurationFault", "FaultCollector", "local_path"]

T = TypeVar("T")

RESOURCES = ("core-site.xml", "hdfs-site.xml")
_POLICY = "hadoop-policy.xml"


class Configuration:
    """Immutable settings. Later properties override earlier ones unless those are final.

    Values come trimmed and with `${…}` replaced. Deprecated keys are kept under, and found by, their current
    names. `warnings` holds one sentence for each deprecated key and each override of a final property; `folder` is
    where the files are, None for settings of no file.
    """

    def __init__(
        self,
        properties: Iterable[Property],
        environment: Mapping[str, str],
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        self._defaults = dict(defaults or {})
        self._environment = dict(environment)
        self._system = system_properties(environment)
        self.folder: Path | None = None
        self._properties: dict[str, Property] = {}
        warnings: dict[str, None] = {}
        for each in properties:
            self._set(each, warnings)
        self.warnings = tuple(warnings)

    @classmethod
    def load(
        cls, directory: Path, environment: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> Configuration:
        """Read `core-site.xml`, then `hdfs-site.xml`, of which one may be absent, then any `hadoop-policy.xml`.

        `environment` serves `${env.NAME}`; `defaults` are the values of keys no file sets.

        Raises:
            ConfigurationError: no file is there, or files cannot be read; all faults of all files.
        """
        present = [path for path in (directory / name for name in RESOURCES) if path.exists()]
        if not present:
            raise ConfigurationError([ConfigurationFault(str(directory), f"holds neither {' nor '.join(RESOURCES)}")])
        collector = FaultCollector()
        properties: list[Property] = []
        policy = directory / _POLICY
        for path in [*present, *([policy] if policy.exists() else [])]:
            properties += collector.take(partial(read_properties, path), [])
        collector.raise_if_any()
        found = cls(properties, environment, defaults)
        found.folder = directory
        return found

    @classmethod
    def from_mapping(
        cls, values: Mapping[str, str], environment: Mapping[str, str], source: str = "(given)"
    ) -> Configuration:
        """Settings that come from no file, as a program that starts the daemon gives them."""
        return cls([Property(key, value, False, source) for key, value in values.items()], environment)

    def with_defaults(self, defaults: Mapping[str, str]) -> Configuration:
        """The same settings over other defaults."""
        copy = Configuration((), self._environment, {**self._defaults, **defaults})
        copy._properties = self._properties
        copy.warnings = self.warnings
        copy.folder = self.folder
        return copy

    def __contains__(self, key: str) -> bool:
        return current_name(key) in self._properties

    def keys(self) -> list[str]:
        """Keys that files set, sorted, under their current names."""
        return sorted(self._properties)

    def source(self, key: str) -> str:
        """The file that set `key`, or `(default)`."""
        found = self._properties.get(current_name(key))
        return "(default)" if found is None else found.source

    def written_name(self, key: str) -> str:
        """The name by which the file sets `key`, which may be a deprecated one; `key` itself where no file does."""
        found = self._properties.get(current_name(key))
        return key if found is None else found.name

    @overload
    def get(self, key: str) -> str | None: ...
    @overload
    def get(self, key: str, default: str) -> str: ...
    def get(self, key: str, default: str | None = None) -> str | None:
        """Text of `key`, trimmed; an empty value counts as one.

        Raises:
            ConfigurationError: its variables refer to each other in a circle.
        """
        text = self._raw(current_name(key))
        if text is None:
            text = default
        return None if text is None else self._substituted(key, text)

    def parsed(self, key: str, default: str, parse: Callable[[str], T]) -> T:
        """What `parse` makes of the text of `key`, or of `default` where nothing sets it.

        Raises:
            ConfigurationError: the text is empty, or `parse` raised ValueError.
        """
        text = self.get(key, default)
        if not text:
            raise ConfigurationError([self.fault(key, "is not set")])
        try:
            return parse(text)
        except ValueError as fault:
            raise ConfigurationError([self.fault(key, str(fault), text)]) from fault

    def get_list(self, key: str, default: str = "") -> list[str]:
        """Comma-separated items, trimmed, without the empty ones."""
        return [item for item in (part.strip() for part in self.get(key, default).split(",")) if item]

    def get_path_list(self, key: str, default: str = "") -> list[Path]:
        """Absolute local paths of a comma-separated list of `file:` URIs and plain paths, without repeats.

        Raises:
            ConfigurationError: all items that are not absolute, not local or hold an unknown variable.
        """
        collector = FaultCollector()
        paths: dict[Path, None] = {}
        for item in self.get_list(key, default):
            try:
                paths[local_path(item)] = None
            except ValueError as fault:
                collector.add(self.fault(key, str(fault), item))
        collector.raise_if_any()
        return list(paths)

    def fault(self, key: str, problem: str, value: str | None = None) -> ConfigurationFault:
        """A fault of `key` that names the file it is set in, and its value where none is given."""
        shown = self._raw(current_name(key)) if value is None else value
        return ConfigurationFault(self.source(key), problem, key, HIDDEN if shown and is_secret(key) else shown)

    def _set(self, new: Property, warnings: dict[str, None]) -> None:
        key = current_name(new.name)
        if key != new.name:
            warnings[f"{new.source}: {new.name} is deprecated, use {key}"] = None
        old = self._properties.get(key)
        if old is None or not old.final:
            self._properties[key] = new
        elif old.value != new.value:
            shown = HIDDEN if is_secret(key) else repr(new.value)
            warnings[f"{new.source}: {key}={shown} is ignored: it is final in {old.source}"] = None

    def _raw(self, key: str) -> str | None:
        found = self._properties.get(key)
        return self._defaults.get(key) if found is None else found.value

    def _look_up(self, name: str) -> str | None:
        known = self._system.get(name)
        return self._raw(current_name(name)) if known is None else known

    def _substituted(self, key: str, text: str) -> str:
        try:
            return substitute(text, self._environment, self._look_up).strip()
        except ValueError as fault:
            raise ConfigurationError([self.fault(key, str(fault), text)]) from fault


def local_path(item: str) -> Path:
    """The path that a `file:` URI or an absolute path names.

    Raises:
        ValueError: it is none.
    """
    if has_variable(item):
        raise ValueError("holds a variable that nothing sets")
    parts = urlsplit(item)
    if parts.scheme and (parts.scheme != "file" or parts.netloc not in ("", "localhost")):
        raise ValueError("is not a local directory: expected file:///path or /path")
    path = Path(unquote(parts.path)) if parts.scheme else Path(item)
    if not path.is_absolute():
        raise ValueError("is not absolute, so it would depend on where the process was started")
    return path
