"""Kernels that update an index for the image that a merge wrote."""

from __future__ import annotations

from image_format.kernels.jit import lean_kernel


@lean_kernel
def shift_offsets(offsets, cuts, spans, cut, shift, kept, out):
    """Shift the record offsets of a section by its cuts.

    Args:
        offsets: ascending offsets of old records, which continue the offsets of earlier calls.
        cuts: ascending rows of (start, end) in the old section; each range contains complete records.
        spans: for each cut, (start, end) of its replacement, which is empty or one record.
        cut, shift: results of the previous call; initially 0 and the common shift of all records.
        kept, out: results: whether each record still exists, and the offsets of the remaining records.

    Returns:
        (number of kept records; the first of `cuts` that may contain later records; shift of the later records).
    """
    count = 0
    for i in range(offsets.size):
        start = offsets[i]
        while cut < cuts.shape[0] and cuts[cut, 1] <= start:
            shift += spans[cut, 1] - spans[cut, 0] - (cuts[cut, 1] - cuts[cut, 0])
            cut += 1
        gone = cut < cuts.shape[0] and cuts[cut, 0] <= start and spans[cut, 0] == spans[cut, 1]
        kept[i] = not gone
        if not gone:
            out[count] = start + shift
            count += 1
    return count, cut, shift
