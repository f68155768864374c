"""Kernel that counts how deleted lists in SNAPSHOT_DIFF use references."""

from __future__ import annotations

from image_format.kernels.jit import kernel
from image_format.kernels.records import DIRECTORY_DIFF
from image_format.kernels.tags import DirectoryDiff
from image_format.kernels.wire import DELIMITED, next_field, read_varint, record_span


@kernel
def count_references(buf, diffs, uses):
    """Add 1 to `uses[number]` for each time that a deleted list contains a reference.

    Args:
        buf, diffs: SNAPSHOT_DIFF, and its rows of `history.DIFF_DTYPE`.

    Returns:
        Index of the first diff with a damaged list, or -1.
    """
    for i in range(diffs.size):
        pos, end = record_span(buf, diffs[i]["offset"])
        while diffs[i]["kind"] == DIRECTORY_DIFF and pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            while tag | DELIMITED == DirectoryDiff.deletedINodeRef and at < pos:
                number, at = read_varint(buf, at, pos)
                if at < 0:
                    return i
                if 0 <= number < uses.size:
                    uses[number] += 1
    return -1
