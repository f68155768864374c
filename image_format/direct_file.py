"""A file that is written once from start to end, with several writes in flight, the way that this disk is quickest."""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hadoop_common.file_ranges import reserve, start_write_back, write_back
from image_format.write_ways import WriteWays

_DIRECT = getattr(os, "O_DIRECT", 0)
_BUFFER = 4 * 1024 * 1024
_IN_FLIGHT = 4
_STRETCH = 16 * _BUFFER
_DIRTY = 8 * _BUFFER
"""Bytes behind which what was written through the page cache has to be on the disk."""
_LEAST_FREE = 1 << 30
"""Where a disk has less free, no room is taken before it is needed: others write there, too."""


class DirectFile:
    """Writes a new file, or replaces one that is there, past the page cache (O_DIRECT of open(2)) or through it.

    An image is not read again soon enough to stay in memory, and what is in memory already is of more use to others;
    so the cache is used only where it is quicker (`WriteWays`), and holds 32 MiB of the file at most. Either way fsync
    finds little left to do. File systems without O_DIRECT have the cache alone.

    Memory: 16 MiB. A write that fails is told by the next call, or by `sync`.

    Args:
        path: of the file.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._direct = _open_direct(path)
        self._ways = WriteWays(self._direct >= 0)
        # pages are aligned as O_DIRECT wants it; NumPy lets other threads go on while it copies
        memory = np.frombuffer(mmap.mmap(-1, _IN_FLIGHT * _BUFFER), np.uint8)
        self._buffers = memory.reshape(_IN_FLIGHT, _BUFFER)
        self._number = self._filled = 0
        self._given = self._reserved = 0
        self._in_flight: deque[Future[None]] = deque()
        self._threads = ThreadPoolExecutor(_IN_FLIGHT, f"image-pwrite-{path}")
        self._begin_stretch()

    def write(self, part: memoryview) -> None:
        """Append bytes.

        Raises:
            OSError: they, or some before, cannot be written.
        """
        while part:
            count = min(len(part), _BUFFER - self._filled)
            buffer = self._buffers[self._number]
            buffer[self._filled : self._filled + count] = np.frombuffer(part[:count], np.uint8)
            self._filled += count
            part = part[count:]
            if self._filled == _BUFFER:
                self._hand_on()

    def sync(self) -> None:
        """Write what is left and have it on the disk.

        Raises:
            OSError: that failed, or a write before did.
        """
        self._wait(0)
        # the last bytes fill no whole block
        end = self._given + self._filled
        self._put(self._descriptor, self._buffers[self._number].data[: self._filled], self._given)
        if self._reserved > end:
            os.ftruncate(self._descriptor, end)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; what was not synced may be lost."""
        # no descriptor may be closed, and used for another file, under a write
        self._threads.shutdown()
        for descriptor in (self._descriptor, self._direct):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._direct = -1

    def _hand_on(self) -> None:
        """Have a full buffer written, and wait until the next one is free."""
        self._reserve_ahead()
        buffer = self._buffers[self._number].data
        task = self._write_direct if self._ways.direct else self._write_cached
        self._in_flight.append(self._threads.submit(task, buffer, self._given))
        self._given += _BUFFER
        self._filled = 0
        self._number = (self._number + 1) % _IN_FLIGHT
        if self._given - self._stretch == _STRETCH:
            self._end_stretch()
        else:
            self._wait(_IN_FLIGHT - 1)

    def _wait(self, left: int) -> None:
        """Wait until so many writes are in flight, the oldest first."""
        started = time.monotonic()
        while len(self._in_flight) > left:
            self._in_flight.popleft().result()
        self._waited += time.monotonic() - started

    def _reserve_ahead(self) -> None:
        """Writes behind the end of a file wait for each other; in room that it has already they need not."""
        if self._ways.direct and self._given >= self._reserved:
            space = os.fstatvfs(self._descriptor)
            if space.f_bavail * space.f_frsize >= _LEAST_FREE and reserve(self._descriptor, self._given, _STRETCH):
                self._reserved = self._given + _STRETCH

    # ---- stretches -----------------------------------------------------------------------------------------

    def _begin_stretch(self) -> None:
        self._stretch, self._began, self._waited = self._given, time.monotonic(), 0.0

    def _end_stretch(self) -> None:
        if self._ways.measures:
            self._wait(0)
            if not self._ways.direct:
                started = time.monotonic()
                write_back(self._descriptor, self._stretch, _STRETCH)
                self._waited += time.monotonic() - started
        else:
            self._wait(_IN_FLIGHT - 1)
        self._ways.ended(_STRETCH, time.monotonic() - self._began, self._waited)
        self._begin_stretch()

    # ---- in threads ----------------------------------------------------------------------------------------

    def _write_direct(self, part: memoryview, offset: int) -> None:
        try:
            count = os.pwrite(self._direct, part, offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Some file systems open a file so and do not write it so.
            self._ways.no_direct()
            count = 0
        # the rest is no whole number of blocks any more
        self._put(self._descriptor, part[count:], offset + count)

    def _write_cached(self, part: memoryview, offset: int) -> None:
        self._put(self._descriptor, part, offset)
        start_write_back(self._descriptor, offset, len(part))
        behind = offset - _DIRTY
        if behind >= 0:
            write_back(self._descriptor, behind, len(part))
            os.posix_fadvise(self._descriptor, behind, len(part), os.POSIX_FADV_DONTNEED)

    @staticmethod
    def _put(descriptor: int, part: memoryview, offset: int) -> None:
        while part:
            count = os.pwrite(descriptor, part, offset)
            part, offset = part[count:], offset + count


def _open_direct(path: Path) -> int:
    """A descriptor that writes past the page cache, -1 where the file system has none."""
    if not _DIRECT:
        return -1
    try:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC | _DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return -1
