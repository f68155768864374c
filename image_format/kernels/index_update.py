"""Kernels that carry an index over to the image that a merge wrote."""

from __future__ import annotations

from image_format.kernels.jit import lean_kernel


@lean_kernel
def shift_offsets(offsets, cuts, spans, cut, shift, kept, out):
    """Where the records of a section lie once it is cut.

    Args:
        offsets: of old records, ascending; those before them were given to calls before this one.
        cuts: rows of (start, end) in the old section, ascending; each holds whole records.
        spans: a row of (start, end) for each: the bytes in its place, none or one record.
        cut, shift: as the call before returned them; at first 0 and by what everything moves.
        kept: result, whether each record is there still; out: result, offsets of those that are.

    Returns:
        (how many are; the first of `cuts` that records behind these may lie in; by what these move)
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
