"""Tells kernels where arrays are, those of the base image above all (`kernels.state`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.replay.kernels import state
from image_format.index import ImageIndex
from image_format.packed import Packed

State = npt.NDArray[np.int64]


def new_state() -> State:
    """A state in which all numbers are 0 and all arrays empty."""
    return np.zeros(state.NUMBERS + 2 * len(state.ARRAYS), np.int64)


def point_to(numbers: State, name: str, array: npt.NDArray[Any]) -> None:
    """The array of `state.ARRAYS` called `name` is this one, as long as it stays where it is."""
    place = state.NUMBERS + 2 * state.ARRAYS.index(name)
    numbers[place : place + 2] = array.ctypes.data, array.shape[0]


def base_arrays(index: ImageIndex) -> Mapping[str, npt.NDArray[Any]]:
    """The arrays of an index by their names in `state.ARRAYS`; they never move."""
    return {
        **_columns("base_ids", index.arrays.ids),
        "base_slots": index.arrays.slots,
        **_columns("base_offsets", index.arrays.offsets),
        "inodes": index.inode_buffer,
        "directory_ids": index.arrays.directory_ids,
        "directory_offsets": index.arrays.directory_offsets,
        "directories": index.directory_buffer,
    }


def _columns(name: str, column: Packed) -> dict[str, npt.NDArray[Any]]:
    return {f"{name}_{key}": array for key, array in column._asdict().items()}
