"""Cost of Python forms of kernels, as measured on one core, rounded up.

A kernel that is listed here does work in proportion to some of its arguments only. The others are tables or sections in
which it looks something up. Any other kernel may read all of its measured arguments.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class PythonCost(NamedTuple):
    """Cost of one call of a Python form."""

    arguments: tuple[str, ...]
    """Arrays that the work is proportional to."""
    seconds_per_byte: float


_LOOKUP: Final = PythonCost((), 0.0)
"""Takes microseconds, whatever the size of the arrays."""

COSTS: Final = {
    "inode.decode_inode": _LOOKUP,
    "inode.encode_inodes": PythonCost(("wanted",), 11e-6),
    "inode.encoded_size": PythonCost(("wanted",), 3e-6),
    "merge.merge_directories": PythonCost(("out",), 20e-6),
    "merge.splice": PythonCost(("spans",), 2e-6),
    "scan.children_in_order": PythonCost(("children",), 10e-6),
    "scan.find_record": _LOOKUP,
    "scan.locate_names": PythonCost(("sizes",), 100e-6),
    "scan.scan_inodes": PythonCost(("buf",), 1e-6),
    "tables.find_link": _LOOKUP,
    "tables.find_name": _LOOKUP,
    "tables.find_number": _LOOKUP,
    "tables.put_link": _LOOKUP,
    "tables.put_number": _LOOKUP,
}
"""By module and name of the kernel."""
