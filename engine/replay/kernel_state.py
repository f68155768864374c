"""The state record of the kernels; see `engine.replay.kernels.state`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.replay.kernels.state import ARRAYS, MOVING, PATH_DTYPE, STATE_DTYPE, Counters
from image_format.array_allocator import ArrayAllocator
from image_format.packed import Packed

AT = Counters(*range(len(Counters._fields)))
"""Positions of the counters."""
RESULTS = tuple(map(Counters._fields.index, Counters._field_defaults))
"""Positions of the counters that are 0 before a run."""
_MIN_PATHS, _MAX_PATHS = 1 << 12, 1 << 18


class KernelState:
    """State of one namespace's kernels.

    Attributes:
        record: one element of `STATE_DTYPE`, the argument of the kernels.
        counters: values of `Counters`, at the positions of `AT`; they are faster to write than fields.
    """

    def __init__(self) -> None:
        numbers = np.zeros(STATE_DTYPE.itemsize // 8, np.int64)
        self.record: npt.NDArray[np.void] = numbers.view(STATE_DTYPE)
        self.counters = numbers.data[: len(Counters._fields)]
        self._arrays = self.record["arrays"][0]
        # weak references, because an array cannot grow in place while a strong reference to it exists
        self._pointed: dict[str, Callable[[], npt.NDArray[Any] | None]] = dict.fromkeys(MOVING, lambda: None)

    def read_counters(self) -> Counters:
        return Counters._make(self.counters.tolist())

    def point(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set the addresses of the `MOVING` arrays that were replaced since the last call."""
        pointed = self._pointed
        for name, array in arrays.items():
            if array is not pointed[name]():
                self.point_to(name, array)
                pointed[name] = weakref.ref(array)

    def point_to(self, name: str, array: npt.NDArray[Any]) -> None:
        """Set the address and the length of an array."""
        self._arrays[ARRAYS.index(name)] = array.ctypes.data, array.shape[0]


def columns(name: str, column: Packed) -> dict[str, npt.NDArray[Any]]:
    """Return the parts of a packed column by their names in the state."""
    return {f"{name}_{key}": array for key, array in column._asdict().items()}


def path_table(directories: int) -> npt.NDArray[np.void]:
    """Return an empty table of cached paths, aligned to cache lines.

    Args:
        directories: number of directories with children; the table has so many places that few of their paths collide.
    """
    wanted = 1 << (2 * directories).bit_length()
    return ArrayAllocator().zeros(min(max(wanted, _MIN_PATHS), _MAX_PATHS), PATH_DTYPE)
