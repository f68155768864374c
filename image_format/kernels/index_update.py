"""Kernels that carry an index over to the image that a merge wrote."""

from __future__ import annotations

from image_format.kernels.jit import lean_kernel

__all__ = ["keep_ids", "shift_offsets"]


@lean_kernel
def shift_offsets(offsets, cuts, spans, shift, kept, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Where the records of a section lie once it is cut.

    Args:
        offsets: of the old records, ascending.
        cuts: rows of (start, end) in the old section, ascending; each holds whole records.
        spans: a row of (start, end) for each: the bytes in its place, none or one record.
        shift: by which everything moves.
        kept: result, whether each record is there still; out: result, offsets of those that are.

    Returns:
        How many are.
    """
    count = 0
    cut = 0
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
    return count


@lean_kernel
def keep_ids(ids, slots, kept, before, out_ids, out_slots):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Ids whose records are there still, in the same order, and the slots that these have now.

    Args:
        ids, slots: see `IndexArrays`; kept: by slot.
        before: how many records before each slot are gone; empty where `slots` is.
        out_ids: result; out_slots: result, where `slots` has something.

    Returns:
        How many there are.
    """
    count = 0
    for i in range(ids.size):
        slot = slots[i] if slots.size else i
        if kept[slot]:
            out_ids[count] = ids[i]
            if slots.size:
                out_slots[count] = slot - before[slot]
            count += 1
    return count
