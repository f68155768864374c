"""Check that there is space for another image, before a merge begins or a NameNode rolls its log for a merge."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import parse_checkpoint
from hadoop_common.quantities import counted

# for VERSION and digest files, and for a first image of unknown size
MIN_FREE_SPACE = 1 << 20
MIN_FREE_INODES = 16
"""Number of inodes for the files of a checkpoint and their temporary names."""
_BLOCK = 512  # unit of st_blocks in bytes
FREE_SPACE_HINT = "Free space on that disk, or correct the permissions."
SPACE_HINT = f"{FREE_SPACE_HINT} The daemon retries automatically."


def require_space(roots: Sequence[Path], image: Path | None) -> None:
    """Check that one of the storage directories `roots` is writable and has space for an image as large as `image`.

    Raises:
        StorageError: no directory is suitable.
    """
    if problem := space_shortage(roots, image):
        raise StorageError(problem, hint=SPACE_HINT)


def space_shortage(roots: Sequence[Path], image: Path | None) -> str:
    """Describe why none of `roots` has space for an image as large as `image`; return "" if there is space."""
    problems = [space_fault(root, image) for root in roots]
    if not all(problems):
        return ""
    return f"no space for a checkpoint: {'; '.join(problems) or 'no storage directory is in use'}"


def space_fault(root: Path, image: Path | None) -> str:
    """Describe why the storage directory `root` has no space for an image as large as `image`; "" if there is space."""
    try:
        needed = MIN_FREE_SPACE + (0 if image is None else image.stat().st_size)
        # unfinished images already occupy a part of the needed space
        free = shutil.disk_usage(root).free + unfinished_bytes(root / "current")
        inodes = free_inodes(root)
    except OSError as fault:
        return f"{root} cannot be used: {error_text(fault, root)}"
    if not os.access(root, os.W_OK | os.X_OK):
        return f"{root} cannot be written"
    if inodes is not None and inodes < MIN_FREE_INODES:
        return f"{root} has {counted(inodes, 'inode')} free, but {MIN_FREE_INODES} are needed"
    return "" if free >= needed else f"{root} has {free} bytes free, but {needed} are needed"


def free_inodes(folder: Path) -> int | None:
    """Return the number of files that this user can still create on a disk; None if the file system has no limit.

    Raises:
        OSError: the folder cannot be read.
    """
    found = os.statvfs(folder)
    return found.f_favail if found.f_files else None


def unfinished_bytes(current: Path) -> int:
    """Return the number of bytes that unfinished images in a folder occupy on disk.

    Raises:
        OSError: the folder or an image cannot be read.
    """
    size = 0
    for path in current.iterdir() if current.is_dir() else ():
        if parse_checkpoint(path.name) is not None:
            # the image may have been completed and renamed
            with suppress(FileNotFoundError):
                size += path.stat().st_blocks * _BLOCK
    return size
