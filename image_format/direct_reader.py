"""Sequential reads that bypass the page cache, for images that the page cache cannot hold.

A scan of a large image through the page cache would evict the pages of other processes, and its own pages before they
are used again. Filling the page cache would also cost more CPU time than the scan.
"""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hadoop_common.available_memory import available_memory

_DIRECT = os.O_DIRECT
_BLOCK = 4096
"""Alignment of offsets, sizes and memory, for every disk."""
_SHARE = 2
"""An image fits in the page cache if it is not larger than the available memory divided by `_SHARE`."""


def exceeds_page_cache(size: int) -> bool:
    """Return whether a file of this size would fill a large part of the available memory."""
    return 0 < available_memory() // _SHARE < size


class DirectReader:
    """Reader of ranges of an open file, with a buffer for each thread.

    The caller must be able to read a range in another way, because a failed direct read raises no error.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._own = threading.local()

    @classmethod
    def open(cls, path: Path, status: os.stat_result) -> DirectReader | None:
        """Open `path`; return None if it cannot be read directly, or is no longer the file with this status."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | _DIRECT)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino, found.st_size) != (status.st_dev, status.st_ino, status.st_size):
            os.close(descriptor)
            return None
        reader = cls(descriptor)
        if reader.read(0, min(_BLOCK, found.st_size)) is None:
            # Some file systems open a file with O_DIRECT but then cannot read it.
            reader.close()
            return None
        return reader

    def close(self) -> None:
        """Close the file; no thread may be reading."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, start: int, stop: int) -> npt.NDArray[np.uint8] | None:
        """Return the bytes from `start` to `stop`, valid until the next call in this thread; None if the read fails.

        Causes are a file system without direct reads, a file that has become shorter, and a failed disk.
        """
        first = start - start % _BLOCK
        buffer = self._buffer(stop - first)
        try:
            count = os.preadv(self._descriptor, [buffer[: -(-(stop - first) // _BLOCK) * _BLOCK]], first)
        except OSError:
            # The caller reads the range in another way, which reports the fault.
            return None
        if count < stop - first:
            return None
        # The array is read-only, as a mapped section is, because kernels are compiled for read-only arrays.
        return np.frombuffer(buffer.toreadonly(), np.uint8)[start - first : stop - first]

    def _buffer(self, size: int) -> memoryview:
        whole = -(-size // _BLOCK) * _BLOCK
        held: memoryview | None = getattr(self._own, "buffer", None)
        if held is None or len(held) < whole:
            held = self._own.buffer = memoryview(mmap.mmap(-1, whole + _BLOCK))
        return held


class SectionReads:
    """Direct reads of a section, at positions in the section."""

    def __init__(self, reader: DirectReader, offset: int) -> None:
        self._reader = reader
        self._offset = offset

    def read(self, start: int, stop: int) -> npt.NDArray[np.uint8] | None:
        """Return a range as `DirectReader.read` does."""
        return self._reader.read(self._offset + start, self._offset + stop)
