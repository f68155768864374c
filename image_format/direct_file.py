"""A file that is written once from start to end, in the mode that is faster on this disk.

Writes either bypass the page cache (O_DIRECT of open(2)) with several writes in flight, or go through the page cache,
which is written back while it fills. The faster mode depends on the disk. `WriteModeChooser` measures both modes while
a file is written, in stretches of 64 MiB, and does no I/O itself:

    unknown   Stretches bypass the cache, which leaves the cache to other processes. This state lasts while the disk
    keeps up with the incoming data, because a faster mode would not help then. trial     The writer waited for the disk
    in two stretches. Only the second stretch counts, because the first
              includes the start. The next stretch goes through the cache.
    settled   Both rates are known, and the next stretches use the faster mode. Then the state is `unknown` again,
              because a disk can change, for example when its own cache is full.

A stretch must be on the disk before its time is measured, because filling the page cache would prove nothing.
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
"""If waiting for the disk takes at least this share of the time, the disk is treated as the bottleneck."""
_BETTER = 1.1
_SETTLED = 64


class WriteModeChooser:
    """Choice of the mode of the next stretch.

    Args:
        direct: whether the file system supports direct writes.

    Attributes:
        direct: whether the stretch bypasses the cache.
    """

    def __init__(self, direct: bool) -> None:
        self.direct = direct
        self._both = direct
        self._waited = False
        self._rate = 0.0
        self._settled = 0

    @property
    def measures(self) -> bool:
        """Whether the time of the stretch is measured; the stretch must then be on the disk when it ends."""
        return self._both and not self._settled

    def no_direct(self) -> None:
        self.direct = self._both = False

    def ended(self, size: int, seconds: float, waited: float) -> None:
        """Record the end of a stretch of `size` bytes that took `seconds`, including `waited` seconds for the disk."""
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


_BUFFER = 4 * 1024 * 1024
_IN_FLIGHT = 4
_STRETCH = 16 * _BUFFER
_DIRTY = 8 * _BUFFER
"""Maximum number of bytes in the page cache that are not on the disk yet."""
_MIN_FREE = 1 << 30
"""Free space in bytes below which no space is reserved ahead, because other processes also write to the disk."""


class DirectFile:
    """Writer of a file; an existing file is replaced.

    The image is not read again soon, and other processes need the page cache more. Therefore, the writer uses the page
    cache only where it is faster, and for at most 32 MiB of the file. In both modes, fsync has little left to write. On
    file systems without O_DIRECT, the writer uses only the page cache.

    The writer uses 16 MiB of memory. The next call, or `sync`, raises the error of a failed write.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._direct = _open_direct(path)
        self._mode = WriteModeChooser(self._direct >= 0)
        # Pages have the alignment of O_DIRECT; NumPy releases the GIL while it copies.
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
            OSError: these or earlier bytes cannot be written.
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
        """Write the remaining bytes and sync the file.

        Raises:
            OSError: this or an earlier write failed.
        """
        self._wait(0)
        # The last bytes do not fill a block.
        end = self._given + self._filled
        self._put(self._descriptor, self._buffers[self._number].data[: self._filled], self._given)
        if self._reserved > end:
            os.ftruncate(self._descriptor, end)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; bytes that were not synced may be lost."""
        # A descriptor that is closed during a write may be reused for another file.
        self._threads.shutdown()
        for descriptor in (self._descriptor, self._direct):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._direct = -1

    def _hand_on(self) -> None:
        """Submit a full buffer, and wait until the next buffer is free."""
        self._reserve_ahead()
        buffer = self._buffers[self._number].data
        task = self._write_direct if self._mode.direct else self._write_cached
        self._in_flight.append(self._threads.submit(task, buffer, self._given))
        self._given += _BUFFER
        self._filled = 0
        self._number = (self._number + 1) % _IN_FLIGHT
        if self._given - self._stretch == _STRETCH:
            self._end_stretch()
        else:
            self._wait(_IN_FLIGHT - 1)

    def _wait(self, left: int) -> None:
        """Wait for the oldest writes until only `left` are in flight."""
        started = time.monotonic()
        while len(self._in_flight) > left:
            self._in_flight.popleft().result()
        self._waited += time.monotonic() - started

    def _reserve_ahead(self) -> None:
        """Reserve space, because direct writes past the end of a file would wait for each other."""
        if self._mode.direct and self._given >= self._reserved:
            space = os.fstatvfs(self._descriptor)
            if space.f_bavail * space.f_frsize >= _MIN_FREE and reserve(self._descriptor, self._given, _STRETCH):
                self._reserved = self._given + _STRETCH

    def _begin_stretch(self) -> None:
        self._stretch, self._began, self._waited = self._given, time.monotonic(), 0.0

    def _end_stretch(self) -> None:
        if self._mode.measures:
            self._wait(0)
            if not self._mode.direct:
                started = time.monotonic()
                write_back(self._descriptor, self._stretch, _STRETCH)
                self._waited += time.monotonic() - started
        else:
            self._wait(_IN_FLIGHT - 1)
        self._mode.ended(_STRETCH, time.monotonic() - self._began, self._waited)
        self._begin_stretch()

    def _write_direct(self, part: memoryview, offset: int) -> None:
        try:
            count = os.pwrite(self._direct, part, offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Some file systems open a file with O_DIRECT, but then cannot write to the file.
            self._mode.no_direct()
            count = 0
        # The remaining bytes are no longer a whole number of blocks.
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
    """Return a descriptor whose writes bypass the page cache; -1 if the file system does not support this."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return -1
