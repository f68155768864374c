"""Configuration keys of Hadoop 1 and 0.2x and the keys that replaced them (DeprecatedProperties)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DEPRECATED_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "dfs.access.time.precision": "dfs.namenode.accesstime.precision",
        "dfs.backup.address": "dfs.namenode.backup.address",
        "dfs.backup.http.address": "dfs.namenode.backup.http-address",
        "dfs.federation.nameservice.id": "dfs.nameservice.id",
        "dfs.federation.nameservices": "dfs.nameservices",
        "dfs.http.address": "dfs.namenode.http-address",
        "dfs.https.address": "dfs.namenode.https-address",
        "dfs.name.dir": "dfs.namenode.name.dir",
        "dfs.name.dir.restore": "dfs.namenode.name.dir.restore",
        "dfs.name.edits.dir": "dfs.namenode.edits.dir",
        "dfs.replication.min": "dfs.namenode.replication.min",
        "dfs.secondary.http.address": "dfs.namenode.secondary.http-address",
        "dfs.secondary.https.address": "dfs.namenode.secondary.https-address",
        "fs.checkpoint.dir": "dfs.namenode.checkpoint.dir",
        "fs.checkpoint.edits.dir": "dfs.namenode.checkpoint.edits.dir",
        "fs.checkpoint.period": "dfs.namenode.checkpoint.period",
        "fs.default.name": "fs.defaultFS",
    }
)


def current_name(key: str) -> str:
    """Return the current name of `key`."""
    return DEPRECATED_KEYS.get(key, key)
