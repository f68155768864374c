"""Hadoop's XML configuration: `core-site.xml` and `hdfs-site.xml` of a directory, with typed getters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar, overload
from urllib.parse import unquote, urlsplit

from hadoop_common.configuration_errors import NO_FILE, ConfigurationError, ConfigurationFault, FaultCollector
from hadoop_common.configuration_xml import Property, read_properties
from hadoop_common.hadoop_keys import SET_BY_HDFS_DEFAULT, current_name
from hadoop_common.quantities import parse_list
from hadoop_common.secret_values import shown_value
from hadoop_common.substitution import has_variable, substitute, system_properties

__all__ = ["RESOURCES", "Configuration", "ConfigurationError", "ConfigurationFault", "FaultCollector", "local_path"]

T = TypeVar("T")

CORE_SITE, HDFS_SITE = RESOURCES = ("core-site.xml", "hdfs-site.xml")
# a NameNode of Hadoop 3.3 or newer also reads the file of the routers of a federation (HdfsConfiguration)
_ROUTER_SITE = "hdfs-rbf-site.xml"
_POLICY = "hadoop-policy.xml"
# characters that java.net.URI does not accept
_NO_URI = re.compile(r"""%(?![0-9A-Fa-f]{2})|[\s"<>[\\\]^`{|}]""")
_NO_URI_WARNING = (
    "is not a URI, because some characters are not escaped (a space as %20); NameNodes use a directory of that name "
    "below their working directory instead"
)


class Configuration:
    """Immutable settings. A later property overrides an earlier property unless the earlier property is final.

    Values are trimmed, and each `${…}` is replaced. A deprecated key counts as its current name. A property without a
    value sets nothing. `warnings` contains one sentence for each deprecated key and each property that Hadoop ignores.
    `folder` is the directory of the files, or None if there are no files. `on_warning` receives each warning about a
    value when the value is first read.
    """

    def __init__(
        self, properties: Iterable[Property], environment: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> None:
        self._defaults = dict(defaults or {})
        self._environment = dict(environment)
        self._system = system_properties(environment)
        self.folder: Path | None = None
        self.on_warning: Callable[[str], None] = lambda _: None
        self._values: dict[str, Property] = {}
        self._final: dict[str, str] = {}
        self._warnings: dict[str, None] = {}
        self._add(properties)

    @classmethod
    def load(cls, directory: Path, environment: Mapping[str, str]) -> Configuration:
        """Read `core-site.xml`, `hdfs-site.xml`, `hdfs-rbf-site.xml` and `hadoop-policy.xml` in this order. Only one of
        the first two must exist.

        After `core-site.xml`, Hadoop loads `hdfs-default.xml`, which overrides some keys (HdfsConfiguration). NameNodes
        before Hadoop 3.3 do not read `hdfs-rbf-site.xml`, so each value that this file changes causes a warning.
        `environment` provides `${env.NAME}`.

        Raises:
            ConfigurationError: no file exists, or a file cannot be read; reports all faults of all files.
        """
        paths = {name: directory / name for name in (*RESOURCES, _ROUTER_SITE, _POLICY)}
        if not any(_is_present(paths[name]) for name in RESOURCES):
            raise ConfigurationError(
                [ConfigurationFault(str(directory), f"contains neither {' nor '.join(RESOURCES)}")]
            )
        collector = FaultCollector()
        none: list[Property] = []
        read = {
            name: collector.take(partial(read_properties, path), none) if _is_present(path) else none
            for name, path in paths.items()
        }
        collector.raise_if_any()
        found = cls(read[CORE_SITE], environment)
        found._load_hdfs_default()
        found._add(read[HDFS_SITE])
        found._load_router_site(read[_ROUTER_SITE])
        found._add(read[_POLICY])
        found.folder = directory
        return found

    @classmethod
    def from_mapping(cls, values: Mapping[str, str], environment: Mapping[str, str]) -> Configuration:
        """Return settings without files, as passed by a program that starts the daemon."""
        return cls([Property(key, value, False, "(given)") for key, value in values.items()], environment)

    def with_defaults(self, defaults: Mapping[str, str]) -> Configuration:
        """Return the same settings with other defaults."""
        copy = Configuration((), self._environment, {**self._defaults, **defaults})
        copy._values = self._values
        copy._warnings = self._warnings
        copy.folder = self.folder
        copy.on_warning = self.on_warning
        return copy

    def with_copy(self, key: str, target: str) -> Configuration:
        """Return the same settings with the value of `key` copied to `target`.

        Raises:
            ConfigurationError: variables in the value refer to each other in a circle.
        """
        copy = self.with_defaults({})
        if (text := self.get(key)) is not None:
            copy._values = {**self._values, target: Property(target, text, False, self.source(key))}
        return copy

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def __contains__(self, key: str) -> bool:
        return current_name(key) in self._values

    def keys(self) -> list[str]:
        """Return the keys that files set, sorted, under their current names."""
        return sorted(self._values)

    def source(self, key: str) -> str:
        """Return the file that set `key`, or NO_FILE."""
        found = self._values.get(current_name(key))
        return NO_FILE if found is None else found.source

    def written_name(self, key: str) -> str:
        """Return the name by which a file sets `key`, possibly a deprecated name; `key` itself if no file sets it."""
        found = self._values.get(current_name(key))
        return key if found is None else found.name

    @overload
    def get(self, key: str) -> str | None: ...
    @overload
    def get(self, key: str, default: str) -> str: ...
    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the trimmed text of `key`; text that consists only of spaces becomes "".

        Raises:
            ConfigurationError: variables in the value refer to each other in a circle.
        """
        text = self._raw(current_name(key))
        if text is None:
            text = default
        return None if text is None else self._substituted(key, text).strip()

    def get_untrimmed(self, key: str, default: str = "") -> str:
        """Return the text of `key` with its leading blank, after which an access list contains only groups.

        Raises:
            ConfigurationError: variables in the value refer to each other in a circle.
        """
        text = self._raw(current_name(key))
        return self._substituted(key, default if text is None else text)

    def parsed(self, key: str, default: str, parse: Callable[[str], T]) -> T:
        """Return the text of `key`, or `default` if the key is unset, converted by `parse`.

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
        """Return the items of a list (`parse_list`)."""
        return parse_list(self.get(key, default))

    def get_path_list(self, key: str, default: str = "") -> list[Path]:
        """Return the absolute local paths of a list of `file:` URIs and paths, without duplicates.

        Warn about items that Hadoop does not recognise as URIs (Util.stringAsURI).

        Raises:
            ConfigurationError: items are not absolute, not local, or contain an unknown variable; reports all such
                items.
        """
        collector = FaultCollector()
        paths: dict[Path, None] = {}
        for item in self.get_list(key, default):
            try:
                paths[local_path(item)] = None
            except ValueError as fault:
                collector.add(self.fault(key, str(fault), item))
            else:
                if item.startswith("file:") and _NO_URI.search(item):
                    self.warn(self.fault(key, _NO_URI_WARNING, item))
        collector.raise_if_any()
        return list(paths)

    def fault(self, key: str, problem: str, value: str | None = None) -> ConfigurationFault:
        """Return a fault in `key` with the file that sets it and, unless `value` is given, its current value."""
        shown = self._raw(current_name(key)) if value is None else value
        return ConfigurationFault(self.source(key), problem, key, shown and shown_value(key, shown))

    def warn(self, fault: ConfigurationFault) -> None:
        """Add a warning about a value that Hadoop replaces with the default."""
        if (text := str(fault)) not in self._warnings:
            self._warnings[text] = None
            self.on_warning(text)

    def _add(self, properties: Iterable[Property]) -> None:
        for each in properties:
            if each.name:
                self._set(current_name(each.name), each)
            else:
                self._warnings[f"{each.source}: a <property> without a <name> is ignored"] = None

    def _set(self, key: str, new: Property) -> None:
        if key != new.name:
            self._warnings[f"{new.source}: {new.name} is deprecated; use {key}"] = None
        final = self._final.get(key)
        if final is None and new.value is not None:
            self._values[key] = new
        elif final is not None and new.value not in (None, self._raw(key)):
            self._warnings[f"{new.source}: {self._shown(key, new)} is ignored: it is final in {final}"] = None
        if new.final:
            self._final.setdefault(key, new.source)

    def _load_hdfs_default(self) -> None:
        """Remove the keys that `hdfs-default.xml` overrides; the readers of the keys contain the defaults."""
        for key in sorted(SET_BY_HDFS_DEFAULT & self._values.keys() - self._final.keys()):
            lost = self._values.pop(key)
            self._warnings[
                f"{lost.source}: {self._shown(key, lost)} is ignored, also by NameNodes: hdfs-default.xml, which is "
                f"loaded after {CORE_SITE}, sets this key; set it in {HDFS_SITE}"
            ] = None

    def _load_router_site(self, properties: Iterable[Property]) -> None:
        before = dict(self._values)
        self._add(properties)
        for key, old in before.items():
            if (new := self._values[key]).value != old.value:
                self._warnings[
                    f"{new.source}: {self._shown(key, new)} overrides {shown_value(key, repr(old.value))} in "
                    f"{old.source}; NameNodes before Hadoop 3.3 do not read {_ROUTER_SITE}"
                ] = None

    def _shown(self, key: str, found: Property) -> str:
        return f"{key}={shown_value(key, repr(found.value))}"

    def _raw(self, key: str) -> str | None:
        found = self._values.get(key)
        return self._defaults.get(key) if found is None else found.value

    def _look_up(self, name: str) -> str | None:
        known = self._system.get(name)
        return self._raw(current_name(name)) if known is None else known

    def _substituted(self, key: str, text: str) -> str:
        try:
            return substitute(text, self._environment, self._look_up)
        except ValueError as fault:
            raise ConfigurationError([self.fault(key, str(fault), text)]) from fault


def _is_present(path: Path) -> bool:
    """Return whether a file exists. A link to a missing file counts as existing, so that reading it is a fault."""
    return path.exists() or path.is_symlink()


def local_path(item: str) -> Path:
    """Return the path that a `file:` URI or an absolute path names.

    Raises:
        ValueError: the text is not an absolute local path.
    """
    if has_variable(item):
        raise ValueError("contains an undefined variable")
    parts = urlsplit(item)
    if parts.scheme and (parts.scheme != "file" or parts.netloc not in ("", "localhost")):
        raise ValueError("is not a local directory: expected file:///path or /path")
    path = Path(unquote(parts.path)) if parts.scheme else Path(item)
    if "\0" in str(path):
        raise ValueError("contains the character NUL")
    if not path.is_absolute():
        raise ValueError("is not absolute, so it would depend on where the process was started")
    return path
