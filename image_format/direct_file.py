"""A file that is written once from start to end, with several writes in flight, in the mode that is faster here.

There are two modes: past the page cache (O_DIRECT of open(2)) with several writes in flight, or through the page cache,
written back while it fills. Which one is faster depends on the disk. `WriteModeChooser` measures both while a file is
written, in stretches of 64 MiB, and does no I/O itself:

    unknown   Stretches are written past the cache, which leaves the cache to other processes. This goes on as long as
              the disk keeps up with the incoming data: a faster mode would not help.
    trial     The writer waited for the disk in two stretches. Only the second counts, since the first one includes the
              start. One stretch goes through the cache.
    settled   Both rates are known, and the next stretches use the faster mode. Then the state is `unknown` again: a
              disk can change, for example when its own cache is full.

A stretch is on the disk before its time is taken: a stretch that only filled the page cache would prove nothing.
"""

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

_BOUND = 0.25
"""The disk is waited for if that takes so much of the time."""
_BETTER = 1.1
_SETTLED = 64


class WriteModeChooser:
    """The way of the next stretch.

    Args:
        direct: whether there is a way past the cache; without one there is nothing to decide.

    Attributes:
        direct: whether the stretch goes past the cache.
    """

    def __init__(self, direct: bool) -> None:
        self.direct = direct
        self._both = direct
        self._waited = False
        self._rate = 0.0
        self._settled = 0

    @property
    def measures(self) -> bool:
        """Whether the stretch has to be on the disk at its end, for `ended` to be told its time."""
        return self._both and not self._settled

    def no_direct(self) -> None:
        """There is no way past the cache after all."""
        self.direct = self._both = False

    def ended(self, size: int, seconds: float, waited: float) -> None:
        """A stretch of `size` bytes took so long, `waited` seconds of that for the disk; the next one begins."""
        if not self._both or seconds <= 0:
            return
        if self._settled:
            self._settled -= 1
            if not self._settled:
                self.direct = True
        elif self.direct:
            before, self._waited = self._waited, waited >= _BOUND * seconds
            if before and self._waited:
                self._rate = size / seconds
                self.direct = self._waited = False
        else:
            self.direct = size / seconds < _BETTER * self._rate
            self._settled = _SETTLED


_DIRECT = getattr(os, "O_DIRECT", 0)
_BUFFER = 4 * 1024 * 1024
_IN_FLIGHT = 4
_STRETCH = 16 * _BUFFER
_DIRTY = 8 * _BUFFER
"""Bytes behind which what was written through the page cache has to be on the disk."""
_MIN_FREE = 1 << 30
"""Where a disk has less free, no room is taken before it is needed: others write there, too."""


class DirectFile:
    """Writes a new file, or replaces one that is there, past the page cache (O_DIRECT of open(2)) or through it.

    The image is not read again soon, and other processes need the page cache more. So the page cache is used only where
    it is faster, and holds at most 32 MiB of the file. Either way fsync finds little left to do. File systems without
    O_DIRECT use only the page cache.

    Memory: 16 MiB. A write that fails is told by the next call, or by `sync`.

    Args:
        path: of the file.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._direct = _open_direct(path)
        self._ways = WriteModeChooser(self._direct >= 0)
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
            if space.f_bavail * space.f_frsize >= _MIN_FREE and reserve(self._descriptor, self._given, _STRETCH):
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
