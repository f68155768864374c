"""A saved image, until it becomes the base of the next merge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from image_format.index_arrays import IndexArrays


class SavedImage:
    """Path of a newly saved image, and the function that returns its index (None: the image must be scanned).

    The index describes only the saved file; it must not be used with another file of the same name.
    """

    def __init__(self, path: Path, update: Callable[[], IndexArrays | None]) -> None:
        self.path = path
        self.update = update
        self._file = _identity(path)

    def in_place(self) -> bool:
        """Return whether the path still belongs to the unchanged saved file."""
        return self._file is not None and self._file == _identity(self.path)


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Return the device, inode and modification time, which change at a replacement, but not at a new hard link."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
