"""Kernels of the compaction: runs of old bytes with new records in between, and merged directory entries."""

from __future__ import annotations

from image_format.kernels.jit import kernel
from image_format.kernels.scan import compare_names, locate_name
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import copy_bytes, put_varint, varint_size


@kernel
def splice(buf, cuts, data, spans, state, out):
    """Copy `buf` with `cuts` applied into `out` until it is full; call again to go on.

    Args:
        buf: a section; cuts: rows of (start, end) in it, ascending.
        data: new records; spans: rows of (start, end) in it: what stands in the place of each cut.
        state: (next cut, position in buf, position in the cut's span), updated.
        out: result.

    Returns:
        Bytes written; fewer than `out` holds only at the end.
    """
    cut, pos, done = state[0], state[1], state[2]
    used = 0
    while used < out.size:
        run_end = cuts[cut, 0] if cut < cuts.shape[0] else buf.size
        count = min(run_end - pos, out.size - used)
        if count > 0:
            copy_bytes(out, used, buf, pos, count)
            used += count
            pos += count
        if pos < run_end or cut == cuts.shape[0]:
            break
        start = spans[cut, 0] + done
        count = min(spans[cut, 1] - start, out.size - used)
        if count > 0:
            copy_bytes(out, used, data, start, count)
            used += count
            done += count
        if spans[cut, 0] + done < spans[cut, 1]:
            break
        pos = cuts[cut, 1]
        cut += 1
        done = 0
    state[0], state[1], state[2] = cut, pos, done
    return used


@kernel
def sort_names(names, spans, first, order):
    """Merge sort of the names `first`, `first` + 1 … by name.

    Args:
        names, spans: bytes, and rows of (start, size) in them.
        first: number of the first name.
        order: two rows as long as there are names; the first one takes the numbers in name order.
    """
    size = order.shape[1]
    for i in range(size):
        order[0, i] = first + i
    width = 1
    while width < size:
        for start in range(0, size, 2 * width):
            middle = min(start + width, size)
            end = min(start + 2 * width, size)
            left = start
            right = middle
            for i in range(start, end):
                take_left = right == end
                if left < middle and right < end:
                    a = order[0, left]
                    b = order[0, right]
                    take_left = compare_names(names, spans[a, 0], spans[a, 1], names, spans[b, 0], spans[b, 1]) <= 0
                if take_left:
                    order[1, i] = order[0, left]
                    left += 1
                else:
                    order[1, i] = order[0, right]
                    right += 1
        order[0, :] = order[1, :]
        width *= 2


@kernel
def merge_directories(
    parents,
    children,
    child_bounds,
    names,
    name_spans,
    name_ids,
    name_bounds,
    ids,
    slots,
    offsets,
    buf,
    merged,
    order,
    out,
    bounds,
):
    """Write the delimited DirEntry of each changed directory, nothing where it has no children left.

    Args:
        parents: inode id of each directory.
        children, child_bounds: children in the base image, by name, of all directories one after another.
        names, name_spans, name_ids, name_bounds: what the delta says of names, distinct within a directory: the
            inode id that has it now, 0 where none has.
        ids, slots, offsets: of `IndexArrays`; buf: the INODE section.
        merged: scratch for the children of the largest directory; order: two rows of scratch for the names.
        out: room for 20 bytes a directory and 12 a child; bounds: result, where each entry starts, one more.

    Returns:
        Whether every child has a record.
    """
    pos = 0
    for d in range(parents.size):
        bounds[d] = pos
        base = children[child_bounds[d] : child_bounds[d + 1]]
        count = 0
        taken = 0
        first = name_bounds[d]
        behind = name_bounds[d + 1]
        sort_names(names, name_spans, first, order[:, first:behind])
        for n in range(first, behind):
            k = order[0, n]
            at, found = locate_name(base, ids, slots, offsets, buf, names, name_spans[k, 0], name_spans[k, 1])
            if at < 0:
                return False
            while taken < at:
                merged[count] = base[taken]
                count += 1
                taken += 1
            if found:
                taken += 1
            if name_ids[k] != 0:
                merged[count] = name_ids[k]
                count += 1
        while taken < base.size:
            merged[count] = base[taken]
            count += 1
            taken += 1
        if count == 0:
            continue
        packed = 0
        for i in range(count):
            packed += varint_size(merged[i])
        size = 2 + varint_size(parents[d]) + varint_size(packed) + packed
        pos = put_varint(out, pos, size)
        out[pos] = DirEntry.parent
        pos = put_varint(out, pos + 1, parents[d])
        out[pos] = DirEntry.children
        pos = put_varint(out, pos + 1, packed)
        for i in range(count):
            pos = put_varint(out, pos, merged[i])
    bounds[parents.size] = pos
    return True
