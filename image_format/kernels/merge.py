"""Kernels for compaction: copied ranges of old bytes with new records between them, and merged directory entries."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel, measured_by
from image_format.kernels.packed import find_slot_near, packed_at
from image_format.kernels.prefetch import prefetch
from image_format.kernels.scan import collect_children, compare_names, count_children, name_span
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import copy_bytes, put_varint, record_span, varint_size

_APART = 16
"""Number of children between the prefetch of a record and its use, because records may be far apart."""


@measured_by("buf", "data")
@kernel
def splice(buf, origin, cuts, data, spans, state, out):
    """Copy `buf`, with `cuts` applied, to `out` until `out` is full; the next call continues.

    Args:
        buf, origin: a window of a section, and its position in the section.
        cuts: rows of (start, end) in the section, ascending.
        data, spans: new records, and (start, end) of each cut's replacement in `data`.
        state: (next cut, position in the section, position in the cut's span), updated.
        out: result.

    Returns:
        Bytes written; fewer than the size of `out` only at the end of the window.
    """
    cut, pos, done = state[0], state[1], state[2]
    used = 0
    end = origin + buf.size
    while used < out.size:
        run_end = min(cuts[cut, 0], end) if cut < cuts.shape[0] else end
        count = min(run_end - pos, out.size - used)
        if count > 0:
            copy_bytes(out, used, buf, pos - origin, count)
            used += count
            pos += count
        # a cut at the end of the window belongs to this call, even at the end of the section
        if pos < run_end or cut == cuts.shape[0] or cuts[cut, 0] > max(pos, end):
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


@measured_by("starts")
@kernel
def record_ends(buf, starts):
    """Return the end of each delimited record of `buf` that begins at one of `starts`."""
    ends = np.empty(starts.size, np.int64)
    for i in range(starts.size):
        _, ends[i] = record_span(buf, starts[i])
    return ends


@kernel
def sort_names(names, spans, first, order):
    """Sort the names `first`, `first` + 1 … with merge sort.

    Args:
        names, spans: bytes, and rows of (start, size) in them.
        first: number of the first name.
        order: two rows with an element for each name; the first row receives the numbers in name order.
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
def measure_entries(buf, starts, name_bounds):
    """Return the maximum (children, references) of a section's entries after a merge, excluding damaged entries.

    Args:
        buf, starts: INODE_DIR, and the start of each entry in it, or a negative number without an entry.
        name_bounds: start of the new names of each entry, followed by the end.
    """
    most = np.int64(0)
    most_references = np.int64(0)
    for d in range(starts.size):
        children = np.int64(0)
        if starts[d] >= 0:
            children, references = count_children(buf, starts[d])
            most_references = max(most_references, references)
        most = max(most, children + name_bounds[d + 1] - name_bounds[d])
    return most, most_references


@lean_kernel
def _locate_children(base, count, ids, slots, offsets, buf, places):
    """Fill `places` with the record offsets of the first `count` inodes of `base`; return whether all have records."""
    slot = np.int64(0)
    last = np.int64(0)
    for i in range(count):
        slot = find_slot_near(ids, slots, base[i], slot + base[i] - last)
        if slot < 0:
            return False
        last = base[i]
        places[i] = packed_at(offsets, slot)
        if i < _APART:
            prefetch(buf, places[i])
    return True


@lean_kernel
def _merge_children(base, places, count, buf, names, spans, name_ids, order, merged):
    """Merge children, sorted by name, with sorted names; return the size of `merged`, or -1 for unsorted children.

    Args:
        base, places: the first `count` elements are the inode ids of the children, and the offsets of their records in
            `buf`.
        names, spans, name_ids, order: see `merge_directories`; the numbers of the names.
    """
    used = np.int64(0)
    n = np.int64(0)
    last_start = np.int64(0)
    last_size = np.int64(0)
    for i in range(count):
        if i + _APART < count:
            prefetch(buf, places[i + _APART])
        start, size = name_span(buf, places[i])
        if i > 0 and compare_names(buf, last_start, last_size, buf, start, size) >= 0:
            return np.int64(-1)
        last_start = np.int64(start)
        last_size = np.int64(size)
        stays = True
        while n < order.size:
            k = order[n]
            rank = compare_names(names, spans[k, 0], spans[k, 1], buf, start, size)
            if rank > 0:
                break
            stays = rank < 0
            if name_ids[k] != 0:
                merged[used] = name_ids[k]
                used += 1
            n += 1
        if stays:
            merged[used] = base[i]
            used += 1
    while n < order.size:
        if name_ids[order[n]] != 0:
            merged[used] = name_ids[order[n]]
            used += 1
        n += 1
    return used


@lean_kernel
def _put_entry(out, pos, parent, children, count):
    """Write the delimited DirEntry with the first `count` elements of `children`; return the next position."""
    packed = 0
    for i in range(count):
        packed += varint_size(children[i])
    size = 2 + varint_size(parent) + varint_size(packed) + packed
    pos = put_varint(out, pos, size)
    out[pos] = DirEntry.parent
    pos = put_varint(out, pos + 1, parent)
    out[pos] = DirEntry.children
    pos = put_varint(out, pos + 1, packed)
    for i in range(count):
        pos = put_varint(out, pos, children[i])
    return pos


@kernel
def merge_directories(
    parents,
    buf,
    starts,
    turns,
    names,
    name_spans,
    name_ids,
    name_bounds,
    ids,
    slots,
    offsets,
    inodes,
    done,
    given,
    scratch,
    order,
    out,
    spans,
):
    """Write the delimited DirEntry of each changed directory; write nothing for a directory without children.

    Args:
        parents: inode id of each directory.
        buf, starts: INODE_DIR, and the offset of each directory's entry in it, or a negative number without an entry.
        turns: numbers of the directories in the order of writing.
        names, name_spans, name_ids, name_bounds: changed names, distinct within a directory, and the id of the inode
            that has each name now, or 0.
        ids, slots, offsets, inodes: columns of `IndexArrays`, and the INODE section.
        done, given: number of finished turns, and the sorted children of the next directory if an earlier call stopped
            at its entry, otherwise empty.
        scratch: three rows as long as the result of `measure_entries`; the first row is also used for references.
        order: two rows as long as the maximum number of names of a directory.
        out: result, with space for the old entries, 32 bytes for each directory and 10 bytes for each name.
        spans: result: (start, end) of each entry in `out`.

    Returns:
        Number of finished turns. The next entry, if any, is damaged, has a child without a record, or has unsorted
        children.
    """
    base = scratch[0]
    places = scratch[1]
    merged = scratch[2]
    pos = np.int64(0) if done == 0 else spans[turns[done - 1], 1]
    for turn in range(done, turns.size):
        d = turns[turn]
        count = np.int64(0)
        if turn == done and given.size:
            count = np.int64(given.size)
            base[:count] = given
        elif starts[d] >= 0:
            count, _ = count_children(buf, starts[d])
            if count < 0:
                return turn
            _, damaged = collect_children(buf, starts[d], base, merged)
            if damaged:
                return turn
        if not _locate_children(base, count, ids, slots, offsets, inodes, places):
            return turn
        first = name_bounds[d]
        more = name_bounds[d + 1] - first
        sort_names(names, name_spans, first, order[:, :more])
        count = _merge_children(base, places, count, inodes, names, name_spans, name_ids, order[0, :more], merged)
        if count < 0:
            return turn
        spans[d, 0] = pos
        if count:
            pos = _put_entry(out, pos, parents[d], merged, count)
        spans[d, 1] = pos
    return turns.size
