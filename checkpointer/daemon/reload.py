"""Settings that a running daemon applies at SIGHUP, and settings that require a restart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

from hadoop_common.config_key import key_names
from hadoop_common.port_limits import MAX_REQUEST
from hadoop_common.tls.settings import HTTP_POLICY
from hadoop_rpc import login_settings
from hadoop_rpc.user import AUTHENTICATION, USER_NAME
from site_config import keys, merge_keys
from site_config.changed_keys import changed_keys
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.security_keys import HTTP_KEYTAB

_MERGING = "merge_settings."

RELOADABLE = frozenset(
    {
        "period",
        "poll_interval",
        "transactions",
        "quiet_multiplier",
        "max_retries",
        "images_retained",
        "extra_edits_retained",
        "max_extra_segments",
        "restore_directories",
        "access",
        "standby_checkpoints",
        "rebootstrap",
        "lag_alarm",
        "merge_settings.codec",
        "merge_settings.rules",
        "merge_settings.sub_sections",
        "merge_settings.max_op_size",
        "tail_period",
        "tail_backoff",
        "tail_in_progress",
        "log_roll_period",
        "roll_retries",
        "rpc_timeout",
        "upload_parallelism",
        "transfer_timeout",
        "transfer_bandwidth",
        "bootstrap_bandwidth",
        "transfer_chunk_size",
        "archive",
        "lake_directory",
        "lake_images_retained",
        "lake_master",
        "lake_driver_memory",
        "report_daily",
        "report_directory",
        "reports_retained",
        "report_paths",
        "report_memory",
    }
)


# Key patterns, main key first, for fields that several keys or several forms of a key determine.
_NAMENODES = (
    keys.HTTP_ADDRESS.name,
    keys.HTTPS_ADDRESS.name,
    keys.RPC_ADDRESS.name,
    keys.SERVICERPC_ADDRESS.name,
    keys.DEFAULT_FS.name,
    keys.HA_NAMENODES.name,
    keys.HA_NAMENODE_ID.name,
    HTTP_POLICY.name,
)
_SERVICES = (keys.NAMESERVICES.name, keys.INTERNAL_NAMESERVICES.name, keys.NAMESERVICE_ID.name)
_PATTERNS: Mapping[str, tuple[str, ...]] = {
    **{name: (key,) for name, key in key_names(CheckpointConfig).items()},
    "poll_interval": (keys.CHECKPOINT_CHECK_PERIOD.name, keys.CHECKPOINT_PERIOD.name),
    "edits_directories": (keys.CHECKPOINT_EDITS_DIR.name, keys.CHECKPOINT_DIR.name, keys.TMP_DIR.name),
    "restore_directories": (keys.NAME_DIR_RESTORE.name,),
    "storage_permission": (keys.STORAGE_DIR_PERM.name,),
    "shared_edits": (keys.SHARED_EDITS_DIR.name,),
    "nameservice": (*_SERVICES, *_NAMENODES),
    "quorum": ("dfs.qjournal.*", "dfs.ha.tail-edits.*"),
    "bookkeeper": ("dfs.namenode.bookkeeperjournal.*", "checkpointer.bookkeeper.*"),
    "namenode_ids": (*_NAMENODES, *_SERVICES),
    "namenode_http_addresses": (*_NAMENODES, *_SERVICES),
    "namenode_rpc_addresses": (keys.RPC_ADDRESS.name, *_NAMENODES, *_SERVICES),
    "rpc_user": (USER_NAME.name,),
    # `merged` compares them after it has applied the new access lists and rules, which take effect immediately
    "kerberos": (
        AUTHENTICATION.name,
        *(key.name for key in login_settings.LOGIN_KEYS),
        HTTP_KEYTAB.name,
        "dfs.*.kerberos.*",
        "dfs.*keytab*",
        *_NAMENODES,
    ),
    "namespace_rpc": (keys.NAMESPACE_RPC_ADDRESS.name, keys.NAMESPACE_SERVE.name, keys.RPC_BIND_HOST.name, *_NAMENODES),
    "rpc_bind_address": (keys.BACKUP_ADDRESS.name,),
    "web": (
        HTTP_POLICY.name,
        "dfs.namenode.*http*-address",
        "dfs.namenode.http*-bind-host",
        "hadoop.ssl.*",
        "dfs.https.*",
        "dfs.client.https.*",
        "checkpointer.tls.*",
    ),
    "engine": (f"{merge_keys.ENGINE.name}.*", merge_keys.ENGINE.name),
    "archive": ("checkpointer.archive.*",),
    "leader": ("checkpointer.leader.*", "ha.zookeeper.*", "hadoop.zk.*", "checkpointer.zookeeper.*"),
    "access": ("checkpointer.access.*", *_NAMENODES, *_SERVICES, "dfs.namenode.*-address", keys.SHARED_EDITS_DIR.name),
    "port_limits": ("checkpointer.port.*", MAX_REQUEST.name),
    "merge_settings.codec": (merge_keys.IMAGE_COMPRESSION_CODEC.name, merge_keys.IMAGE_COMPRESS.name),
    "merge_settings.sub_sections": ("dfs.image.parallel.*", merge_keys.IMAGE_PARALLEL_COMPRESSED.name),
    "merge_settings.rules": (
        "dfs.namenode.snapshot.*",
        merge_keys.REPLICATION_MIN.name,
        merge_keys.REPLICATION_MAX.name,
    ),
    "merge_settings.max_op_size": (merge_keys.MAX_OP_SIZE.name,),
    "merge_settings.memory": (merge_keys.MEMORY.name, merge_keys.MEMORY_DIR.name),
}


def merged(running: CheckpointConfig, read: CheckpointConfig) -> tuple[CheckpointConfig, list[str], list[str]]:
    """Return the settings to use, a line for each changed key that takes effect, and a line for each key that needs a
    restart.

    Lists of users who may log in also take effect. They have no line, because the object that contains them logs the
    changes.
    """
    if running.kerberos is not None and read.kerberos is not None:
        running = replace(running, kerberos=running.kerberos.with_lists_of(read.kerberos))
    new, old = _values(read), _values(running)
    differing = [name for name in new if new[name] != old[name]]
    applied = {name: new[name] for name in differing if name in RELOADABLE}
    texts = changed_keys(running.texts, read.texts)
    lines = {name: _lines(name, running.role, old[name], new[name], texts) for name in differing}
    kept = {key: line for name in differing if name not in RELOADABLE for key, line in lines[name].items()}
    changed = {key: line for name in applied for key, line in lines[name].items() if key not in kept}
    merging = {name.removeprefix(_MERGING): applied.pop(name) for name in list(applied) if name.startswith(_MERGING)}
    # the next reload reports these keys again
    still = {key: running.texts[key] for key in kept if key in running.texts}
    after = replace(
        running,
        **applied,
        merge_settings=replace(running.merge_settings, **merging),
        texts={key: text for key, text in read.texts.items() if key not in kept} | still,
    )
    return after, list(changed.values()), list(kept.values())


def _lines(name: str, role: Role, old: object, new: object, texts: Mapping[str, str]) -> dict[str, str]:
    """Return a setting's changes by key, as `KEY OLD → NEW`. If no key changed, return the setting's simple values."""
    patterns = _patterns(name, role)
    found = {key: line for key, line in texts.items() if any(_fits(key, pattern) for pattern in patterns)}
    if found:
        return found
    key, before, after = patterns[0], _text(old), _text(new)
    return {key: key if before is None or after is None else f"{key} {before} → {after}"}


def _patterns(name: str, role: Role) -> tuple[str, ...]:
    if name == "image_directories":
        return ((keys.CHECKPOINT_DIR if role is Role.SECONDARY else keys.NAME_DIR).name, keys.TMP_DIR.name)
    return _PATTERNS[name]


def _fits(key: str, pattern: str) -> bool:
    """Return whether a key matches a pattern, possibly with the suffix of a nameservice or a NameNode."""
    return fnmatchcase(key, pattern) or fnmatchcase(key, f"{pattern}.*")


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if math.isinf(value):
            return "(no limit)"
        return f"{value:.15g}"
    if isinstance(value, str | int):
        return str(value) or "(unset)"
    if isinstance(value, tuple) and all(isinstance(each, str | PurePath) for each in value):
        return ",".join(map(str, value)) or "(unset)"
    return None


def _values(config: CheckpointConfig) -> dict[str, Any]:
    """Return the settings by name, with a separate entry for each merge setting."""
    values = {each.name: getattr(config, each.name) for each in fields(config) if each.compare}
    settings = values.pop("merge_settings")
    return values | {f"{_MERGING}{each.name}": getattr(settings, each.name) for each in fields(settings)}
