"""Whether a directory can take another image: asked before work begins, and before a NameNode rolls its log for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hadoop_common.errors import StorageError
from hadoop_common.file_faults import told
from hadoop_common.names import parse_checkpoint

# VERSION, digests and names need some room too, and so does an image that is the first one here
LEAST_ROOM = 1 << 20
_BLOCK = 512  # bytes, what st_blocks counts
FREE_SPACE = "Free space on that disk, or correct its permissions."
ROOM_HINT = f"{FREE_SPACE} The daemon retries by itself."


def require_room(roots: Sequence[Path], image: Path | None) -> None:
    """Check that one of the storage directories `roots` can be written and has room for an image as large as `image`.

    Raises:
        StorageError: none has.
    """
    if problem := lack_of_room(roots, image):
        raise StorageError(problem, hint=ROOM_HINT)


def lack_of_room(roots: Sequence[Path], image: Path | None) -> str:
    """Why none of the storage directories `roots` has room for an image as large as `image`, "" where one has."""
    problems = [room_problem(root, image) for root in roots]
    if not all(problems):
        return ""
    return f"no room for a checkpoint: {'; '.join(problems) or 'no storage directory is in use'}"


def room_problem(root: Path, image: Path | None) -> str:
    """Why the storage directory `root` has no room for an image as large as `image`, "" where it has."""
    try:
        needed = LEAST_ROOM + (0 if image is None else image.stat().st_size)
        # what is being written there is a part of what is needed
        free = shutil.disk_usage(root).free + _unfinished(root / "current")
    except OSError as fault:
        return f"{root} cannot be used: {told(fault, root)}"
    if not os.access(root, os.W_OK | os.X_OK):
        return f"{root} cannot be written"
    return "" if free >= needed else f"{root} has {free} bytes free, {needed} are needed"


def _unfinished(current: Path) -> int:
    """Bytes on disk of unfinished images in a folder.

    Raises:
        OSError: they cannot be asked for.
    """
    size = 0
    for path in current.iterdir() if current.is_dir() else ():
        if parse_checkpoint(path.name) is not None:
            # It may be complete by now, and have another name.
            with suppress(FileNotFoundError):
                size += path.stat().st_blocks * _BLOCK
    return size
