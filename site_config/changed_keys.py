"""Log lines about the keys that changed at a reload."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from hadoop_common.configuration import Configuration, FaultCollector
from hadoop_common.secret_values import shown_value
from site_config.catalogue import entry_of

_UNSET = "(unset)"


def texts(settings: Configuration) -> dict[str, str]:
    """Return the value of each key that the files set; "" if its variables refer to each other."""
    faults = FaultCollector()
    return {name: faults.take(partial(_text, settings, name), "") for name in settings.keys()}  # noqa: SIM118


def changed_keys(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return `KEY OLD → NEW` for each changed key of the catalogue; passwords are hidden."""
    names = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    known = [name for name in names if _default(name) is not None]
    return {name: f"{name} {_shown(name, before)} → {_shown(name, now)}" for name in known}


def _shown(name: str, values: Mapping[str, str]) -> str:
    return shown_value(name, values.get(name, "") or _default(name) or _UNSET)


def _default(name: str) -> str | None:
    """Return the default of a key, with or without the suffix of a nameservice or a NameNode."""
    for suffixes in range(3):
        base = ".".join(name.split(".")[: -suffixes or None])
        if (entry := entry_of(base)) is not None:
            return entry.default
    return None


def _text(settings: Configuration, name: str) -> str:
    return settings.get(name, "")
