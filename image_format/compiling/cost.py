"""Cost of the Python forms of kernels, measured on one core and rounded up.

The work of a kernel listed here depends on only some of its arguments. The other arguments are tables or sections for
lookups. A kernel that is not listed may read all of its measured arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt


class PythonCost(NamedTuple):
    """Cost of one call of a Python form."""

    arguments: tuple[str, ...]
    """The arguments on which the work depends."""
    seconds: Callable[..., float]
    """Function that returns the time of a call with these arguments in seconds."""


def _per_byte(array: str, seconds: float) -> PythonCost:
    return PythonCost((array,), lambda values: values.nbytes * seconds)


def _per_inode(inode: float, block: float) -> PythonCost:
    """Return the cost of work on a table's inodes, in seconds per inode and per block."""

    def seconds(rows: npt.NDArray[np.void], wanted: npt.NDArray[np.int64]) -> float:
        return wanted.size * inode + int(rows["block_count"][wanted].sum()) * block

    return PythonCost(("rows", "wanted"), seconds)


_LOOKUP: Final = PythonCost((), lambda: 0.0)
"""The kernel takes microseconds regardless of the size of the arrays."""

COSTS: Final = {
    "inode.decode_inode": _LOOKUP,
    "inode.encode_inodes": _per_inode(150e-6, 27e-6),
    "inode.encoded_size": _per_inode(45e-6, 9e-6),
    "merge.merge_directories": _per_byte("out", 20e-6),
    "merge.splice": _per_byte("spans", 2e-6),
    "scan.children_in_order": _per_byte("children", 10e-6),
    "scan.find_record": PythonCost(("pos", "stop"), lambda pos, stop: (stop - pos) * 15e-6),
    "scan.locate_names": _per_byte("sizes", 100e-6),
    "scan.scan_inodes": _per_byte("buf", 1e-6),
    "tables.find_link": _LOOKUP,
    "tables.find_name": _LOOKUP,
    "tables.find_number": _LOOKUP,
    "tables.put_link": _LOOKUP,
    "tables.put_number": _LOOKUP,
}
"""Costs by module and name of the kernel."""
