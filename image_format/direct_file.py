"""A file that is written once from start to end, past the page cache where the file system allows that."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path

import numpy as np

__all__ = ["DirectFile"]

_DIRECT = getattr(os, "O_DIRECT", 0)
_BUFFER = 4 * 1024 * 1024
_FLUSH_STEP = 32 * 1024 * 1024


class DirectFile:
    """Writes a new file, or replaces one that is there, in whole buffers of 4 MiB with O_DIRECT (open(2)).

    An image is not read again soon enough to stay in memory, and what is in memory already is of more use to others;
    besides, fsync finds nothing left to do. File systems without O_DIRECT get ordinary writes.

    Args:
        path: of the file.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._direct = bool(_DIRECT)
        try:
            self._descriptor = os.open(path, flags | _DIRECT, 0o644)
        except OSError as error:
            if error.errno != errno.EINVAL or not _DIRECT:
                raise
            self._direct = False
            self._descriptor = os.open(path, flags, 0o644)
        # pages are aligned as O_DIRECT wants it; NumPy lets other threads go on while it copies
        self._buffer = np.frombuffer(mmap.mmap(-1, _BUFFER), np.uint8)
        self._filled = 0
        self._written = self._flushed = 0

    def write(self, part: memoryview) -> None:
        """Append bytes.

        Raises:
            OSError: they cannot be written.
        """
        while part:
            if not self._direct and not self._filled:
                self._put(part)
                return
            count = min(len(part), _BUFFER - self._filled)
            self._buffer[self._filled : self._filled + count] = np.frombuffer(part[:count], np.uint8)
            self._filled += count
            part = part[count:]
            if self._filled == _BUFFER:
                self._drain()

    def sync(self) -> None:
        """Write what is left and have it on the disk.

        Raises:
            OSError: that failed.
        """
        # the last bytes fill no whole block
        self._use_cache()
        self._drain()
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; what was not synced may be lost."""
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def _drain(self) -> None:
        filled, self._filled = self._filled, 0
        self._put(self._buffer.data[:filled])

    def _put(self, part: memoryview) -> None:
        while part:
            try:
                count = os.write(self._descriptor, part)
            except OSError as error:
                if error.errno != errno.EINVAL or not self._direct:
                    raise
                # Some file systems open a file so and do not write it so.
                self._use_cache()
                continue
            self._written += count
            part = part[count:]
            if part:
                # the rest is no whole number of blocks any more
                self._use_cache()
        if not self._direct:
            self._flush_ahead()

    def _use_cache(self) -> None:
        if self._direct:
            self._direct = False
            flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_DIRECT)

    def _flush_ahead(self) -> None:
        """Starts writing back the dirty pages without waiting, so that fsync finds little left to do."""
        length = self._written - self._flushed
        if length >= _FLUSH_STEP:
            os.posix_fadvise(self._descriptor, self._flushed, length, os.POSIX_FADV_DONTNEED)
            self._flushed = self._written
