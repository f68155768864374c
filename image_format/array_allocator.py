"""Large arrays in memory up to a limit, in mapped temporary files without a name beyond it; reusable buffers."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hadoop_common.file_faults import told
from image_format.errors import ImageStorageError

M = TypeVar("M", bound=mmap.mmap)

_SMALLEST = 1 << 16
_HUGE = 1 << 22


class _Block(mmap.mmap):
    """A mapping that lives as long as an array on it; `descriptor` is of its file, -1 for memory."""

    descriptor = -1


class ArrayAllocator:
    """Hands out arrays of zeros, to several threads if need be; what is not in use any more goes back by itself.

    Memory that nothing was written to takes none, but counts. A file has its whole size on disk before it is mapped,
    for a full disk would end the process later on.

    Args:
        limit: bytes of memory for all arrays at a time, None for no limit.
        folder: for the files, which have no name in it; None is the system's default.
        smallest: arrays of fewer bytes are always in memory, and do not count.
    """

    def __init__(self, limit: int | None = None, folder: Path | None = None, *, smallest: int = _SMALLEST) -> None:
        self._limit = limit
        self._folder = folder
        self._smallest = smallest
        self._blocks: weakref.WeakSet[_Block] = weakref.WeakSet()
        self._guard = threading.RLock()

    @property
    def in_memory(self) -> int:
        """Bytes of memory that the arrays in use may take."""
        with self._guard:
            return sum(len(block) for block in list(self._blocks) if block.descriptor < 0)

    @property
    def in_files(self) -> int:
        """Bytes on disk that they take."""
        with self._guard:
            return sum(len(block) for block in list(self._blocks) if block.descriptor >= 0)

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of zeros.

        Raises:
            ImageStorageError: it goes into a file, and there is no room for it on the disk.
            MemoryError: it does not, and there is no memory.
        """
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        wanted = np.dtype(dtype)
        if not size:
            return np.zeros(shape, wanted)
        return np.frombuffer(self.block(size * wanted.itemsize), wanted, size).reshape(shape)

    def fits(self, more: int) -> bool:
        """Whether so many more bytes of memory may be taken."""
        return self._limit is None or more < self._smallest or self.in_memory + more <= self._limit

    def block(self, size: int) -> _Block:
        """A mapping of so many bytes; raises as `zeros`."""
        with self._guard:
            block = memory(size, _Block) if self.fits(size) else self._file(size)
            if size >= self._smallest:
                self._blocks.add(block)
            return block

    def longer(self, block: _Block, size: int) -> _Block | None:
        """`block` with room for more bytes behind what it has; None where it can only be copied. Raises as `zeros`."""
        with self._guard:
            return self._longer(block, size)

    def _longer(self, block: _Block, size: int) -> _Block | None:
        if block.descriptor >= 0:
            try:
                descriptor = os.dup(block.descriptor)
            except OSError as error:
                raise self._failure(size, error) from error
            longer = self._map(descriptor, size)
            self._blocks.add(longer)
            return longer
        if not self.fits(size - len(block)):
            return None
        try:
            block.resize(size)
        except (BufferError, OSError):
            return None
        _like_numpy(block)
        if size >= self._smallest:
            self._blocks.add(block)
        return block

    def _file(self, size: int) -> _Block:
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                descriptor = os.dup(file.fileno())
        except OSError as error:
            raise self._failure(size, error) from error
        return self._map(descriptor, size)

    def _map(self, descriptor: int, size: int) -> _Block:
        """Map a file that gets `size` bytes; the descriptor is closed with the mapping."""
        try:
            os.posix_fallocate(descriptor, 0, size)
            block = _Block(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            raise self._failure(size, error) from error
        block.descriptor = descriptor
        weakref.finalize(block, os.close, descriptor)
        return block

    def _failure(self, size: int, error: OSError) -> ImageStorageError:
        where = self._folder or tempfile.gettempdir()
        hint = "Free space there, choose another folder (checkpointer.memory.dir) or allow more memory."
        return ImageStorageError(
            f"cannot put {size} bytes beyond the memory limit into {where}: {told(error)}", hint=hint
        )


class GrowableArray:
    """An array that gets longer where it lies, if nobody else looks at it; else it is copied.

    It does not keep its array: who asked for it drops that one, and all views of it, before it grows.
    """

    def __init__(self, allocator: ArrayAllocator, dtype: npt.DTypeLike, size: int) -> None:
        self._allocator = allocator
        self._dtype = np.dtype(dtype)
        self._block = allocator.block(size * self._dtype.itemsize)

    @property
    def array(self) -> npt.NDArray[Any]:
        """All of it as it is now; what nobody wrote is zero."""
        return np.frombuffer(self._block, self._dtype)

    def grow(self, used: int, needed: int, *, most: int | None = None) -> None:
        """Make room for `needed` items, twice as many as before at least; the first `used` stay.

        Args:
            most: items that there will ever be; no room is made for more.

        Raises:
            ImageStorageError, MemoryError: see `ArrayAllocator.zeros`; it is as before.
        """
        item = self._dtype.itemsize
        wanted = max(needed, 2 * (len(self._block) // item))
        size = item * (wanted if most is None else min(wanted, most))
        longer = self._allocator.longer(self._block, size)
        if longer is None:
            longer = self._allocator.block(size)
            kept = used * item
            memoryview(longer)[:kept] = memoryview(self._block)[:kept]
        self._block = longer


def memory(size: int, kind: type[M], *, large_pages: bool = True) -> M:
    """Zeros that count as memory of this process; raises MemoryError where there are none."""
    try:
        block = kind(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for {size} bytes: {told(error)}") from error
    if large_pages:
        _like_numpy(block)
    return block


def _like_numpy(block: mmap.mmap) -> None:
    """Ask for large pages, as NumPy does for its arrays; a system may have none."""
    if len(block) >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)


class BufferPool:
    """Lends page-aligned buffers of `size` bytes; one is lent again when no view of it is left.

    `made` counts them: as many as were ever lent at once.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._free: list[mmap.mmap] = []
        self.made = 0

    def take(self) -> memoryview:
        """A buffer with anything in it; raises MemoryError where there is no memory."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = memory(self._size, mmap.mmap)
            self.made += 1
        # views refer to the array, and the array's end is what tells that there are none
        array = np.frombuffer(buffer, np.uint8)
        weakref.finalize(array, self._free.append, buffer).atexit = False
        return array.data
