"""Kernel that counts files by size."""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY, FILE
from image_format.kernels.inode_columns import BLOCK_COUNT, KIND, LENGTH, REPLICATION, decode_record
from image_format.kernels.jit import kernel
from image_format.kernels.wire import record_span

FILES, DIRECTORIES, BLOCKS, SPACE, LARGEST, TOTALS = range(6)
"""Columns of `totals`: numbers of files, directories and blocks, bytes of all replicas, bytes of the largest file."""


@kernel
def tally_sizes(buf, pos, most, step, largest, row, buckets, totals):
    """Count at most `most` delimited INode records from `pos` on.

    Args:
        step: range of sizes of a bucket, in bytes; the first bucket contains the empty files.
        largest: larger files are counted in the last bucket.
        row: scratch, a column of `inode_columns`.
        buckets, totals: results, added to.

    Returns:
        (position after the last record counted, number of records counted). If fewer than `most` are counted and the
        section continues, the next record is damaged.
    """
    for count in range(most):
        if pos >= buf.size:
            return pos, count
        start, end = record_span(buf, pos)
        if start < 0:
            return pos, count
        row[:] = 0
        if not decode_record(buf, start, end, row, 0):
            return pos, count
        pos = end
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
