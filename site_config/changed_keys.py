"""Log lines about the keys that changed at a reload."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from hadoop_common.config_key import ConfigKey
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.secret_values import shown_value
from site_config.catalogue import entry_of

_UNSET = "(unset)"


def texts(settings: Configuration) -> dict[str, str]:
    """Return the value of each key that the files set; "" if its variables refer to each other."""
    faults = FaultCollector()
    return {name: faults.take(partial(_text, settings, name), "") for name in settings.keys()}  # noqa: SIM118


def changed_keys(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return `KEY OLD → NEW` for each key of the catalogue whose effective value changed; passwords are hidden."""
    lines = {}
    for name in sorted(before.keys() | now.keys()):
        key = _key(name)
        if key is not None and _value(key, name, before) != _value(key, name, now):
            lines[name] = f"{name} {_shown(key, name, before)} → {_shown(key, name, now)}"
    return lines


def _value(key: ConfigKey[Any], name: str, texts: Mapping[str, str]) -> object:
    """Return the value that takes effect; the text itself if it is faulty."""
    given = {name: texts[name]} if name in texts else {}
    try:
        return key.read(Configuration.from_mapping(given, {}), name)
    except ConfigurationError:
        return texts.get(name)


def _shown(key: ConfigKey[Any], name: str, texts: Mapping[str, str]) -> str:
    return shown_value(name, texts.get(name, "") or key.default or _UNSET)


def _key(name: str) -> ConfigKey[Any] | None:
    """Return the declaration of a key, with or without the suffix of a nameservice or a NameNode."""
    for suffixes in range(3):
        base = ".".join(name.split(".")[: -suffixes or None])
        if (key := entry_of(base)) is not None:
            return key
    return None


def _text(settings: Configuration, name: str) -> str:
    return settings.get(name, "")
