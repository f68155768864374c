"""Alarms about a daemon's storage directories and their free space.

This module reads only directories in use, because the disks of dropped directories may hang.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.roles.role import CheckpointRole
from checkpointer.storage.inspector import inspect
from checkpointer.storage.usable_images import UNUSABLE_HINT, unusable
from hadoop_common.errors import HdfsError
from hadoop_common.quantities import counted
from hadoop_common.recurring_fault import Alarm
from node_state.state import IN_USE, StorageSpace


def storage_space(storage: Mapping[str, str]) -> dict[str, StorageSpace]:
    """Return the space of each directory in use whose space can be read; `storage` maps directories to states."""
    spaces = {}
    for path in (path for path, state in storage.items() if state == IN_USE):
        with suppress(OSError):
            found = shutil.disk_usage(path)
            spaces[path] = StorageSpace(free_bytes=found.free, total_bytes=found.total)
    return spaces


def storage_alarms(role: CheckpointRole) -> Iterator[Alarm]:
    """Yield alarms for dropped directories and for files that cannot be used as images.

    These problems do not prevent checkpoints; `checkpointer check` also reports them.
    """
    storage = role.storage()
    for path, state in storage.items():
        if state != IN_USE:
            hint = getattr(state, "hint", "")
            yield Alarm(f"storage directory {path} is not used: {state}", hint, "directory")
    lines: list[str] = []
    folders: Sequence[Path] = ()
    with suppress(HdfsError, OSError):
        # directories that contain only edits may have many segments
        folders = role.image_folders()
    for folder in folders:
        with suppress(HdfsError, OSError):
            lines += unusable(inspect(folder.parent, allow_unknown_layout=True))
    if lines:
        text = f"{counted(len(lines), 'file')} with the name of an image cannot be used: {_first(lines)}"
        yield Alarm(text, UNUSABLE_HINT, "image")


def _first(lines: Sequence[str]) -> str:
    return lines[0] if len(lines) == 1 else f"{lines[0]}, and {len(lines) - 1} more"
