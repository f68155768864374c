"""Kernels that sum rows by a pair of numbers, such as the inode id of a directory and the number of an owner."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import lean_kernel, measured_by

_FACTOR = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio."""
_MAX_LONG = 0x7FFFFFFFFFFFFFFF


@lean_kernel
def _hashed(first, second):
    # unsigned, because the compiler assumes that signed products do not overflow
    mixed = np.uint64(first) * np.uint64(_FACTOR) + np.uint64(second)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(_FACTOR)
    return mixed ^ (mixed >> np.uint64(29))


@measured_by("first")
@lean_kernel
def number_pairs(first, second, slots, keys, count, groups):
    """Assign to each row the number of its pair; equal pairs share a number, and new pairs receive the next numbers.

    Args:
        first, second: int64, the pairs.
        slots: hash table with the number of each pair, -1 in a free entry. Its size is a power of two and exceeds the
            number of pairs that `keys` has room for.
        keys: array with two columns, in which row `n` contains pair `n`. The first `count` rows are used, and one more
            row is free for each row of `first`.
        groups: result, the number of each row.

    Returns:
        Number of pairs.
    """
    mask = np.uint64(slots.size - 1)
    for row in range(first.size):
        at = _hashed(first[row], second[row]) & mask
        group = slots[at]
        while group >= 0 and (keys[group, 0] != first[row] or keys[group, 1] != second[row]):
            at = (at + np.uint64(1)) & mask
            group = slots[at]
        if group < 0:
            group = count
            slots[at] = group
            keys[group, 0] = first[row]
            keys[group, 1] = second[row]
            count += 1
        groups[row] = group
    return count


@measured_by("groups")
@lean_kernel
def add_rows(groups, values, sums, largest):
    """Add the values of each row to the sums of its group; a sum that overflows a long becomes the largest long.

    Args:
        values: int64, indexed by measure, then by row.
        sums: int64, indexed by group, then by measure.
        largest: number of trailing measures for which the largest value is kept instead of the sum.
    """
    added = values.shape[0] - largest
    for row in range(groups.size):
        group = groups[row]
        for measure in range(added):
            value = values[measure, row]
            total = sums[group, measure]
            # compared first, because the compiler assumes that sums of signed numbers do not overflow
            if value > 0 and total > _MAX_LONG - value:
                sums[group, measure] = _MAX_LONG
            else:
                sums[group, measure] = total + value
        for measure in range(added, values.shape[0]):
            sums[group, measure] = max(sums[group, measure], values[measure, row])
