"""The keys that a cluster's files set, for the console, without secrets."""

from __future__ import annotations

from hadoop_common.configuration import Configuration, FaultCollector
from hadoop_common.secret_values import shown_value

_SHOWN = (
    "checkpointer.",
    "dfs.",
    "fs.defaultFS",
    "ha.",
    "hadoop.http.",
    "hadoop.rpc.",
    "hadoop.security.",
    "hadoop.zk.",
)


def shown_settings(configuration: Configuration) -> list[tuple[str, str, str]]:
    """Return the name, value and file of each key that concerns HDFS; secrets are hidden."""
    names = [name for name in configuration.keys() if name.startswith(_SHOWN)]  # noqa: SIM118
    return [(name, _value(configuration, name), configuration.source(name)) for name in names]


def _value(configuration: Configuration, name: str) -> str:
    text = FaultCollector().take(lambda: configuration.get(name, ""), "(variables refer to each other)")
    return shown_value(name, text)
