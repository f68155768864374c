"""Buffers that come back by themselves: fresh memory for each would cost a page fault per 4 KB."""

from __future__ import annotations

import mmap
import weakref

import numpy as np

from image_format.room import memory


class SlicePool:
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
