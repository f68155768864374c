"""Writes files so that they survive a power failure: a file appears under its name complete, or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from typing import IO

from hadoop_common.file_faults import SpecialFileError, file_faults

TEMPORARY_SUFFIX = ".tmp"
_DEVICES = Path("/dev")


def fsync_file(path: Path) -> None:
    """Make the content of `path` durable, even if another process wrote it.

    Raises:
        FileFaultError: the file cannot be opened or synced.
    """
    _fsync(path, os.O_RDONLY)


def make_with_mode(path: Path, mode: int) -> None:
    """Create the directory `path` if it is missing, with `mode` regardless of the umask.

    Raises:
        OSError: the directory cannot be created.
    """
    if not path.is_dir():
        # another process may create the directory at the same moment
        path.mkdir(mode=mode, exist_ok=True)
        path.chmod(mode)


def fsync_directory(path: Path) -> None:
    """Make the names in the directory `path` durable.

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
    """Make the content written to `out` durable."""
    out.flush()
    os.fsync(out.fileno())


def refuse_special(path: Path) -> None:
    """Refuse the name of a device, FIFO or socket, such as /dev/null, because a rename would replace the special file.

    Raises:
        SpecialFileError: `path` names a special file, or is in the folder of devices.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        mode = stat.S_IFREG
    if path.absolute().parent == _DEVICES or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SpecialFileError(path)


def rename_durably(source: Path, target: Path) -> None:
    """Rename `source` over `target`, and sync the directories of both.

    Raises:
        FileFaultError: the rename or the sync failed, or `target` is a device, FIFO or socket.
    """
    refuse_special(target)
    with file_faults(source, f"cannot be renamed to {target.name}"):
        source.replace(target)
    fsync_directory(target.parent)
    if source.parent != target.parent:
        fsync_directory(source.parent)


def remove_durably(path: Path) -> None:
    """Remove `path` if it exists, and sync its directory.

    Raises:
        OSError: the file cannot be removed, or the sync failed.
    """
    path.unlink(missing_ok=True)
    fsync_directory(path.parent)


@contextmanager
def removed_on_fault(path: Path) -> Iterator[None]:
    """Remove the unfinished file `path` if the `with` block raises an exception."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            # the original exception is more important
            path.unlink(missing_ok=True)
        raise


@contextmanager
def written_atomically(path: Path) -> Iterator[BufferedWriter]:
    """Yield a file that replaces `path` at the end; readers see either the old or the new content.

    The data is first written to `<name>.tmp` in the same directory. If the `with` block raises an exception, `path`
    remains unchanged, and the temporary file is removed.

    Raises:
        FileFaultError: the file could not be written.
    """
    refuse_special(path)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with removed_on_fault(temporary):
        with file_faults(path, "cannot be written"), temporary.open("wb") as out:
            yield out
            sync_output(out)
        rename_durably(temporary, path)


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` through `written_atomically`."""
    with written_atomically(path) as out:
        out.write(data)
