"""Which settings a running daemon takes over at SIGHUP, and which have to wait for a restart."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from checkpointer.config.checkpoint_config import CheckpointConfig

__all__ = ["RELOADABLE", "merged"]

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
        "standby_checkpoints",
        "rebootstrap",
        "lag_alarm",
        "merge_settings.codec",
        "merge_settings.sub_sections",
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


def merged(running: CheckpointConfig, read: CheckpointConfig) -> tuple[CheckpointConfig, list[str], list[str]]:
    """The settings to go on with, and the names of those that change and of those that need a restart."""
    new, old = _values(read), _values(running)
    differing = [name for name in new if new[name] != old[name]]
    changed = [name for name in differing if name in RELOADABLE]
    kept = [name for name in differing if name not in RELOADABLE]
    taken = {name: new[name] for name in changed}
    merging = {name.removeprefix(_MERGING): taken.pop(name) for name in changed if name.startswith(_MERGING)}
    return replace(running, **taken, merge_settings=replace(running.merge_settings, **merging)), changed, kept


def _values(config: CheckpointConfig) -> dict[str, Any]:
    """The settings by name, those of a merge one by one."""
    values = {each.name: getattr(config, each.name) for each in fields(config)}
    settings = values.pop("merge_settings")
    return values | {f"{_MERGING}{each.name}": getattr(settings, each.name) for each in fields(settings)}
