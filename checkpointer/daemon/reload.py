"""Which settings a running daemon takes over at SIGHUP, and which have to wait for a restart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import PurePath
from typing import Any

from checkpointer.config import keys
from checkpointer.config.checkpoint_config import CheckpointConfig, Role
from hadoop_common.config_key import key_names
from hadoop_common.tls.settings import HTTP_POLICY
from hadoop_rpc.user import AUTHENTICATION, USER_NAME

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
        "merge_settings.sub_sections",
        "merge_settings.max_op_size",
        "tail_period",
        "tail_in_progress",
        "log_roll_period",
        "roll_retries",
        "rpc_timeout",
        "upload_parallelism",
        "transfer_timeout",
        "transfer_bandwidth",
        "bootstrap_bandwidth",
        "transfer_chunk_size",
        "lake_directory",
        "lake_images_retained",
        "lake_master",
        "lake_driver_memory",
    }
)


# Of the fields that more than one key sets, or one in several forms.
_NAMES: Mapping[str, str] = {
    **key_names(CheckpointConfig),
    "period": keys.CHECKPOINT_PERIOD.name,
    "poll_interval": keys.CHECKPOINT_CHECK_PERIOD.name,
    "standby_checkpoints": keys.HA_STANDBY_CHECKPOINTS.name,
    "edits_directories": keys.CHECKPOINT_EDITS_DIR.name,
    "storage_permission": keys.STORAGE_DIR_PERM.name,
    "shared_edits": keys.SHARED_EDITS_DIR.name,
    "nameservice": keys.NAMESERVICES.name,
    "quorum": "dfs.qjournal.*",
    "bookkeeper": "dfs.namenode.bookkeeperjournal.*",
    "namenode_http_addresses": keys.HTTP_ADDRESS.name,
    "namenode_rpc_addresses": keys.RPC_ADDRESS.name,
    "rpc_user": USER_NAME.name,
    "kerberos": AUTHENTICATION.name,
    "rpc_bind_address": keys.BACKUP_ADDRESS.name,
    "web": f"{HTTP_POLICY.name}, dfs.namenode.*-address, hadoop.ssl.*",
    "engine": f"{keys.ENGINE.name}.*",
    "leader": "checkpointer.leader.*, ha.zookeeper.*, hadoop.zk.ssl.*, checkpointer.zookeeper.*",
    "access": "checkpointer.access.*",
    "port_limits": "checkpointer.port.*",
    "merge_settings.codec": keys.IMAGE_COMPRESSION_CODEC.name,
    "merge_settings.sub_sections": "dfs.image.parallel.*",
    "merge_settings.rules": "dfs.namenode.snapshot.*, dfs.namenode.replication.min, dfs.replication.max",
    "merge_settings.max_op_size": keys.MAX_OP_SIZE.name,
    "merge_settings.memory": keys.MEMORY.name,
}


def merged(running: CheckpointConfig, read: CheckpointConfig) -> tuple[CheckpointConfig, list[str], list[str]]:
    """The settings to go on with, and a line for each that changes and for each that needs a restart.

    Lists of who may log in are taken over too, without a line: who goes by them tells what is another one in them.
    """
    if running.kerberos is not None and read.kerberos is not None:
        running = replace(running, kerberos=running.kerberos.with_lists_of(read.kerberos))
    new, old = _values(read), _values(running)
    differing = [name for name in new if new[name] != old[name]]
    taken = {name: new[name] for name in differing if name in RELOADABLE}
    lines = {name: _line(name, running.role, old[name], new[name]) for name in differing}
    changed = [lines[name] for name in taken]
    kept = [lines[name] for name in differing if name not in RELOADABLE]
    merging = {name.removeprefix(_MERGING): taken.pop(name) for name in list(taken) if name.startswith(_MERGING)}
    return replace(running, **taken, merge_settings=replace(running.merge_settings, **merging)), changed, kept


def _line(name: str, role: Role, old: object, new: object) -> str:
    """`dfs.namenode.checkpoint.txns 1000000 → 500000`: the key, and its values where they are simple."""
    if name == "image_directories":
        key = (keys.CHECKPOINT_DIR if role is Role.SECONDARY else keys.NAME_DIR).name
    else:
        key = _NAMES[name]
    before, after = _text(old), _text(new)
    return key if before is None or after is None else f"{key} {before} → {after}"


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
    """The settings by name, those of a merge one by one."""
    values = {each.name: getattr(config, each.name) for each in fields(config)}
    settings = values.pop("merge_settings")
    return values | {f"{_MERGING}{each.name}": getattr(settings, each.name) for each in fields(settings)}
