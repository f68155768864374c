"""Distribution of file sizes in the format of `hdfs oiv -p FileDistribution`."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from hadoop_common.quantities import counted
from image_format.errors import RecordError
from image_format.inode_scan import inode_section, read_inode_header
from image_format.kernels.inode_columns import COLUMNS
from image_tools.dump.kernels.distribution import BLOCKS, DIRECTORIES, FILES, LARGEST, SPACE, TOTALS, tally_sizes
from image_tools.dump.records import PROGRESS_STEP, ImageRecords

MAX_SIZE, STEP = 1 << 37, 1 << 21
"""Hadoop's defaults, in bytes."""
MAX_BUCKETS = 1 << 26
_REPORT_STEP = 1 << 20
_PREFIXES = "KMGTPE"


def dump_distribution(
    records: ImageRecords, largest: int = MAX_SIZE, step: int = STEP, *, readable: bool = False
) -> Iterator[str]:
    """Yield the number of files in each range of sizes, and totals, over all inodes of the image.

    Args:
        largest: larger files are in the last range.
        step: width of a range in bytes; at most `MAX_BUCKETS` ranges.
        readable: whether to print ranges such as `(2 MB, 4 MB]`, as -format of Hadoop 3 does, instead of their upper
            ends.

    Raises:
        RecordError: a record is damaged, or the inode count in the section's header is wrong.
    """
    image = records.image
    section, (_, pos) = inode_section(image), read_inode_header(image)
    buckets, totals = np.zeros(1 + largest // step, np.int64), np.zeros(TOTALS, np.int64)
    row = np.zeros((COLUMNS, 1), np.int64)
    count = 0
    while pos < section.size:
        if count % _REPORT_STEP == 0:
            yield f"Processed {counted(count, 'inode')}.\n"
        pos, found = tally_sizes(section, pos, PROGRESS_STEP, step, largest, row, buckets, totals)
        count += found
        if records.progress is not None:
            records.progress(count)
        if found < PROGRESS_STEP and pos < section.size:
            raise image.place("INODE").error(RecordError, "no inode record", pos)
    records.check_inode_count(count)
    yield f"{'Size Range' if readable else 'Size'}\tNumFiles\n"
    for bucket in np.flatnonzero(buckets).tolist():
        size = str(bucket * step)
        if readable:
            end = int(totals[LARGEST]) if bucket == buckets.size - 1 else bucket * step
            size = f"{'(' if bucket else '['}{_readable(max(bucket - 1, 0) * step)}, {_readable(end)}]"
        yield f"{size}\t{buckets[bucket]}\n"
    for name, index in (("Files", FILES), ("Directories", DIRECTORIES), ("Blocks", BLOCKS), ("Space", SPACE)):
        yield f"total{name} = {totals[index]}\n"
    yield f"maxFileSize = {totals[LARGEST]}\n"


def _readable(size: int) -> str:
    """Format bytes with a binary prefix, and with two decimals unless exact (StringUtils.byteDesc)."""
    power = (size.bit_length() - 1) // 10
    if power < 1:
        return f"{size} B"
    if size % (1 << 10 * power) == 0:
        return f"{size >> 10 * power} {_PREFIXES[power - 1]}B"
    text = _rounded(size, power)
    if text.startswith("1024"):
        power += 1
        text = _rounded(size, power)
    return f"{text} {_PREFIXES[power - 1]}B"


def _rounded(size: int, power: int) -> str:
    return str(Decimal(repr(size / (1 << 10 * power))).quantize(Decimal("0.01"), ROUND_HALF_UP))
