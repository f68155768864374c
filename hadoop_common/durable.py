"""File writes that survive a power cut: a file appears under its name complete, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["TEMPORARY_SUFFIX", "fsync_directory", "rename_durably", "write_atomically"]

TEMPORARY_SUFFIX = ".tmp"


def fsync_directory(path: Path) -> None:
    """Make the names in directory `path` durable.

    Raises:
        OSError: the directory cannot be opened or synced.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename_durably(source: Path, target: Path) -> None:
    """Rename `source` over `target`, in one directory, and sync that directory.

    Raises:
        OSError: the rename or the sync failed.
    """
    source.replace(target)
    fsync_directory(target.parent)


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path` through `<name>.tmp` beside it; readers see the old or the new content.

    Raises:
        OSError: the file could not be written; `path` is as it was and the temporary file is removed.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        rename_durably(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
