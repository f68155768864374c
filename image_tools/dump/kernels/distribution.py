"""Kernel that counts files by size."""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY, FILE
from image_format.kernels.inode_columns import BLOCK_COUNT, KIND, LENGTH, REPLICATION, decode_record
from image_format.kernels.jit import kernel
from image_format.kernels.wire import read_varint

FILES, DIRECTORIES, BLOCKS, SPACE, LARGEST, TOTALS = range(6)
"""What `totals` has: numbers of files, directories and blocks, bytes of all replicas, bytes of the largest file."""


@kernel
def tally_sizes(buf, pos, most, step, largest, row, buckets, totals):
    """Count the delimited INode records from `pos` on, `most` at most.

    Args:
        step: bytes that the sizes in a bucket may differ by; the first is of empty files.
        largest: a larger file is in the last bucket.
        row: room for a column of `inode_columns`.
        buckets, totals: results, which are added to.

    Returns:
        (position behind the last one that was counted, how many were; the next is damaged if there are fewer and the
        section goes on).
    """
    for count in range(most):
        if pos >= buf.size:
            return pos, count
        size, start = read_varint(buf, pos, buf.size)
        if start < 0 or size < 0 or size > buf.size - start:
            return pos, count
        row[:] = 0
        if not decode_record(buf, start, start + size, row, 0):
            return pos, count
        pos = start + size
        if row[KIND, 0] == DIRECTORY:
            totals[DIRECTORIES] += 1
        elif row[KIND, 0] == FILE:
            length = row[LENGTH, 0]
            totals[FILES] += 1
            totals[BLOCKS] += row[BLOCK_COUNT, 0]
            totals[SPACE] += length * row[REPLICATION, 0]
            totals[LARGEST] = max(totals[LARGEST], length)
            last = buckets.size - 1
            bucket = last if length > largest else min(last, np.int64(np.ceil(length / step)))
            buckets[max(bucket, 0)] += 1
    return pos, most
