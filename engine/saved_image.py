"""An image that was saved, until it becomes the base of the next merge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from image_format.index_arrays import IndexArrays


class SavedImage:
    """Path of an image that was just saved, and the function that returns its index (None: the image must be scanned).

    The index describes only the saved file, so another file with the same name must not be opened with it.
    """

    def __init__(self, path: Path, update: Callable[[], IndexArrays | None]) -> None:
        self.path = path
        self.update = update
        self._file = _identity(path)

    def in_place(self) -> bool:
        """Return whether the path still names the saved file, unchanged."""
        return self._file is not None and self._file == _identity(self.path)


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Return what a hard link, unlike a replacement, does not change: device, inode number and modification time."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
