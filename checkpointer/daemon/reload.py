"""Which settings a running daemon takes over at SIGHUP, and which have to wait for a restart."""

from __future__ import annotations

from dataclasses import fields, replace

from checkpointer.config.checkpoint_config import CheckpointConfig

__all__ = ["RELOADABLE", "merged"]

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
        "image_codec",
        "sub_sections",
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
    differing = [each.name for each in fields(read) if getattr(read, each.name) != getattr(running, each.name)]
    changed = [name for name in differing if name in RELOADABLE]
    kept = [name for name in differing if name not in RELOADABLE]
    return replace(running, **{name: getattr(read, name) for name in changed}), changed, kept
