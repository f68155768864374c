"""A saved image, until it becomes the base of the next merge."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from image_format.index_arrays import IndexArrays

_LOG = logging.getLogger(__name__)
_MAX_UPDATE = 1 << 30
"""Largest index in bytes that may be in memory twice during its update; for a larger one, the new image is scanned."""


class SavedImage:
    """Path of a newly saved image, and the function `update` that derives its index from the previous index (None: the
    image must be scanned).
    """

    def __init__(self, path: Path, update: Callable[[], IndexArrays | None]) -> None:
        self.path = path
        self._update = update
        self._file = _identity(path)

    def index(self, previous: int, limit: int | None) -> IndexArrays | None:
        """Return the image's index; None if the image must be scanned, because there is not enough memory for a second
        index.

        The index describes only the saved file; it must not be used with another file of the same name.

        Args:
            previous: size of the previous index in bytes.
            limit: memory of the merge in bytes; None if unlimited.
        """
        if previous > (_MAX_UPDATE if limit is None else min(_MAX_UPDATE, limit // 4)):
            return None
        try:
            return self._update()
        except MemoryError:
            return None
        except Exception:
            # The image is saved, and a scan can make its index. If the error were raised and recurred, no checkpoint
            # could complete.
            _LOG.exception("the index of a saved image cannot be derived; the image will be scanned")
            return None

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
