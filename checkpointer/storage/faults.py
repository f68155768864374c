"""What keeps a storage directory from being used, as a sentence."""

from __future__ import annotations

from pathlib import Path

from checkpointer.storage.inspector import inspect
from hadoop_common.errors import HdfsError

__all__ = ["directory_fault"]


def directory_fault(root: Path) -> str:
    """Why the formatted storage directory `root` cannot be used now, "" where it can."""
    try:
        return "" if inspect(root).version is not None else f"{root} has no current/VERSION any more"
    except HdfsError as error:
        return error.message
