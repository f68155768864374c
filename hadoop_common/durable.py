"""File writes that survive a power cut: a file appears under its name complete, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from typing import IO

from hadoop_common.file_faults import file_faults

TEMPORARY_SUFFIX = ".tmp"


def fsync_file(path: Path) -> None:
    """Make the content of `path` durable, which another process may have written.

    Raises:
        FileFaultError: it cannot be opened or synced.
    """
    _fsync(path, os.O_RDONLY)


def make_with_mode(path: Path, mode: int) -> None:
    """Make the directory `path` unless it is there, with `mode` whatever this process's umask is.

    Raises:
        OSError: it cannot be made.
    """
    if not path.is_dir():
        path.mkdir(mode=mode)
        path.chmod(mode)


def fsync_directory(path: Path) -> None:
    """Make the names in directory `path` durable.

    Raises:
        FileFaultError: the directory cannot be opened or synced.
    """
    _fsync(path, os.O_RDONLY | os.O_DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    with file_faults(path, "cannot be synced"):
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_output(out: IO[bytes]) -> None:
    """Make durable what was written to `out`."""
    out.flush()
    os.fsync(out.fileno())


def rename_durably(source: Path, target: Path) -> None:
    """Rename `source` over `target`, and sync the directories of both.

    Raises:
        FileFaultError: the rename or the sync failed.
    """
    with file_faults(source, f"cannot be renamed to {target.name}"):
        source.replace(target)
    fsync_directory(target.parent)
    if source.parent != target.parent:
        fsync_directory(source.parent)


def remove_durably(path: Path) -> None:
    """Remove `path`, if it is there, and sync its directory.

    Raises:
        OSError: it cannot be removed, or the sync failed.
    """
    path.unlink(missing_ok=True)
    fsync_directory(path.parent)


@contextmanager
def removed_on_fault(path: Path) -> Iterator[None]:
    """An exception inside removes the unfinished file `path`."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            # the fault that brought us here says it all
            path.unlink(missing_ok=True)
        raise


@contextmanager
def written_atomically(path: Path) -> Iterator[BufferedWriter]:
    """A file to write through `<name>.tmp` beside it; readers see the old or the new content of `path`.

    An exception inside leaves `path` as it was, and the temporary file is removed.

    Raises:
        FileFaultError: the file could not be written.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with removed_on_fault(temporary):
        with file_faults(path, "cannot be written"), temporary.open("wb") as out:
            yield out
            sync_output(out)
        rename_durably(temporary, path)


def write_atomically(path: Path, data: bytes) -> None:
    """`written_atomically` of bytes that are at hand."""
    with written_atomically(path) as out:
        out.write(data)
