"""File writes that survive a power cut: a file appears under its name complete, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path

from hadoop_common.file_faults import file_faults

__all__ = ["TEMPORARY_SUFFIX", "fsync_directory", "rename_durably", "write_atomically", "written_atomically"]

TEMPORARY_SUFFIX = ".tmp"


def fsync_directory(path: Path) -> None:
    """Make the names in directory `path` durable.

    Raises:
        FileFaultError: the directory cannot be opened or synced.
    """
    with file_faults(path, "cannot be synced"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rename_durably(source: Path, target: Path) -> None:
    """Rename `source` over `target`, in one directory, and sync that directory.

    Raises:
        FileFaultError: the rename or the sync failed.
    """
    with file_faults(source, f"cannot be renamed to {target.name}"):
        source.replace(target)
    fsync_directory(target.parent)


@contextmanager
def written_atomically(path: Path) -> Iterator[BufferedWriter]:
    """A file to write through `<name>.tmp` beside it; readers see the old or the new content of `path`.

    An exception inside leaves `path` as it was, and the temporary file is removed.

    Raises:
        FileFaultError: the file could not be written.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with file_faults(path, "cannot be written"), temporary.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        rename_durably(temporary, path)
    except BaseException:
        with suppress(OSError):
            # the fault that brought us here says it all
            temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """`written_atomically` of bytes that are at hand."""
    with written_atomically(path) as out:
        out.write(data)
