"""Large arrays in memory up to a limit, and in mapped, unnamed temporary files beyond the limit; reusable buffers."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hadoop_common.file_faults import error_text
from image_format.errors import ImageStorageError

M = TypeVar("M", bound=mmap.mmap)

_SMALLEST = 1 << 16
_HUGE = 1 << 22
_PIECE = 1 << 18


class _Mapping(mmap.mmap):
    """Mapping that exists while an array uses the mapping; `descriptor` is its open file, or -1 for memory."""

    descriptor = -1


class ArrayAllocator:
    """Allocator of arrays of zeros, usable by several threads; unused arrays are released automatically.

    Unwritten memory takes no space, but counts towards the limit. A file is allocated at its full size before it is
    mapped, because a full disk would otherwise kill the process later.

    Args:
        limit: bytes of memory for all arrays together; None if unlimited.
        folder: folder for the unnamed files; None means the system's default.
        smallest: arrays of fewer bytes are always in memory and do not count towards the limit.
    """

    def __init__(self, limit: int | None = None, folder: Path | None = None, *, smallest: int = _SMALLEST) -> None:
        self._limit = limit
        self._folder = folder
        self._smallest = smallest
        self._blocks: weakref.WeakSet[_Mapping] = weakref.WeakSet()
        self._guard = threading.RLock()

    @property
    def in_memory(self) -> int:
        """Number of bytes in memory that the arrays occupy."""
        with self._guard:
            return sum(len(block) for block in list(self._blocks) if block.descriptor < 0)

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of zeros.

        Raises:
            ImageStorageError: the array requires a file, and the disk is full.
            MemoryError: the array must be in memory, and memory is short.
        """
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        wanted = np.dtype(dtype)
        if not size:
            return np.zeros(shape, wanted)
        return np.frombuffer(self.block(size * wanted.itemsize), wanted, size).reshape(shape)

    def fits(self, more: int) -> bool:
        """Return whether `more` bytes may be allocated in memory."""
        return self._limit is None or more < self._smallest or self.in_memory + more <= self._limit

    def block(self, size: int) -> _Mapping:
        """Return a mapping of `size` bytes; raise the same errors as `zeros`."""
        with self._guard:
            block = memory(size, _Mapping) if self.fits(size) else self._file(size)
            if size >= self._smallest:
                self._blocks.add(block)
            return block

    def longer(self, block: _Mapping, size: int) -> _Mapping | None:
        """Return `block` enlarged to `size` bytes, or None if it must be copied; raise the same errors as `zeros`."""
        with self._guard:
            return self._longer(block, size)

    def _longer(self, block: _Mapping, size: int) -> _Mapping | None:
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

    def _file(self, size: int) -> _Mapping:
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                descriptor = os.dup(file.fileno())
        except OSError as error:
            raise self._failure(size, error) from error
        return self._map(descriptor, size)

    def _map(self, descriptor: int, size: int) -> _Mapping:
        """Map a file after extending it to `size` bytes; the descriptor is closed with the mapping."""
        try:
            os.posix_fallocate(descriptor, 0, size)
            block = _Mapping(descriptor, size)
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
            f"cannot put {size} bytes beyond the memory limit into {where}: {error_text(error)}", hint=hint
        )


class GrowableArray:
    """Array that grows in place if nothing else refers to it, and is copied otherwise.

    The caller must drop the array and all views of it before `grow`.
    """

    def __init__(self, allocator: ArrayAllocator, dtype: npt.DTypeLike, size: int) -> None:
        self._allocator = allocator
        self._dtype = np.dtype(dtype)
        self._block = allocator.block(size * self._dtype.itemsize)

    @property
    def array(self) -> npt.NDArray[Any]:
        """Whole array at its present size; unwritten items are zero."""
        return np.frombuffer(self._block, self._dtype)

    def grow(self, used: int, needed: int, *, most: int | None = None) -> None:
        """Grow to `needed` items, or to twice the present size if that is more; keep the first `used` items.

        Args:
            most: largest number of items that will ever be needed.

        Raises:
            ImageStorageError, MemoryError: see `ArrayAllocator.zeros`; the array is unchanged.
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


def pieces(size: int, step: int | None = None) -> Iterator[slice]:
    """Yield slices of `step` items that cover an array or a buffer of `size` items; the last slice may be shorter.

    Callers work piece by piece, so that temporary arrays take little memory, or to report progress.
    """
    step = step or _PIECE
    for first in range(0, size, step):
        yield slice(first, min(first + step, size))


def memory(size: int, kind: type[M], *, large_pages: bool = True) -> M:
    """Map memory of this process, filled with zeros; raise MemoryError if memory is short."""
    try:
        block = kind(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for {size} bytes: {error_text(error)}") from error
    if large_pages:
        _like_numpy(block)
    return block


def _like_numpy(block: mmap.mmap) -> None:
    """Request large pages, as NumPy does for its arrays; the system may not support them."""
    if len(block) >= _HUGE:
        with suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)


class BufferPool:
    """Pool of page-aligned buffers of `size` bytes; a buffer returns to the pool when its last view is released.

    `made` is the number of allocated buffers, which equals the maximum number used at the same time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._free: list[mmap.mmap] = []
        self.made = 0

    def take(self) -> memoryview:
        """Return a buffer with arbitrary contents; raise MemoryError if memory is short."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = memory(self._size, mmap.mmap)
            self.made += 1
        # All views refer to the array, so its finalizer runs after the release of the last view.
        array = np.frombuffer(buffer, np.uint8)
        weakref.finalize(array, self._free.append, buffer).atexit = False
        return array.data
