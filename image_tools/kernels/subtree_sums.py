"""Kernels that sum files, directories, bytes and space of subtrees, counted as in a NameNode.

Space includes replicas, or the parity of an erasure coding policy; the last block of an open file counts with its full
size. `policies` has a row for each id of an erasure coding policy: data units, parity units and cell size, zeros for an
unused id.
"""

from __future__ import annotations

import numpy as np

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import DIRECTORY, DROPPED, FILE, SPECIAL
from image_format.kernels.jit import lean_kernel
from image_format.kernels.packed import find_slot_near, packed_at
from image_format.kernels.prefetch import prefetch
from image_format.kernels.scan import find_id
from image_format.kernels.tables import UNKNOWN, find_number
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, next_field, read_varint, record_span
from image_tools.kernels.leaves import DIRECTORIES, FILES, LENGTH, SPACE, read_leaf, row_size

_LINE = 64
MAX_ENTRY = 1 << 19
"""Maximum size, in bytes, of a directory entry that `sum_below` reads."""

HELD_DTYPE = np.dtype(
    [
        ("length", "i8"),
        ("space", "i8"),
        ("above", "i4"),  # row in the sums of the directory that counts the inode, or -1
        ("sums", "i4"),  # of a directory: its row in the sums; -1 for other inodes
        ("marked", "u1"),  # whether the inode has or had snapshot diffs or references
    ],
    align=True,
)
"""Contribution of an inode of the table to the sums."""

_LEFT = -2
"""Row above an inode that was removed from its old place and not yet added at its new place."""
_UNPLACED = -3
"""Row above an unchanged inode of the image, whose place is unknown; the sums of the image count it."""


@lean_kernel
def _next_children(
    entries, pos, stop, end, slot, last, ids, slots, known, has_row, owners, offsets, window, odd, found
):
    """Fill `window` with the next children of a directory: their ids and slots.

    Args:
        pos, stop, end: the next child, the end of the list that contains this child, and the end of the entry.
        slot, last: slot and id of the previous child, zeros at the beginning of the entry.
        has_row: whether the directory is touched; only then may children be touched; touched children are omitted.

    Returns:
        (children; pos; stop; slot and id of the last child; used items of `odd`); pos is negative if damaged.
    """
    filled = 0
    while filled < window.shape[1] and 0 <= pos < end:
        if pos >= stop:
            tag, _, start, stop = next_field(entries, pos, end)
            pos = start if tag | DELIMITED == DirEntry.children else stop
            continue
        child, pos = read_varint(entries, pos, stop)
        if pos < 0:
            break
        slot = find_slot_near(ids, slots, child, slot + child - last)
        last = child
        if slot < 0:
            pos = np.int64(-1)
        elif has_row and find_number(known, child) != UNKNOWN:
            continue
        elif owners.size and find_id(owners, child) >= 0:
            odd[found] = child
            found += 1
        else:
            prefetch(offsets.low, slot)
            window[0, filled] = child
            window[1, filled] = slot
            filled += 1
    return filled, pos, stop, slot, last, found


@lean_kernel
def _entry_span(entries, start):
    """Return (start, end, whether to skip it) of an entry of INODE_DIR; the start is negative for a damaged entry."""
    first, end = record_span(entries, start)
    is_odd = end - first > MAX_ENTRY
    pos = first
    while 0 <= pos < end and not is_odd:
        tag, _, _, pos = next_field(entries, pos, end)
        is_odd = tag | DELIMITED == DirEntry.refChildren
    return first if pos >= 0 else pos, end, is_odd


@lean_kernel
def _count_links(rows, links, row):
    """Return the number of links of a directory; counting stops at about `MAX_ENTRY`."""
    count = 0
    number = rows[row]["first_link"]
    while number and count <= MAX_ENTRY:
        number = links[number - 1]["next"]
        count += 1
    return count


@lean_kernel
def _add_linked(tables, row, directory_ids, owners, policies, stack, used, totals, odd, found):
    """Add the children in the links of a directory, and push the directories; return used items of `stack`, `odd`."""
    rows, blocks, links = tables
    number = rows[row]["first_link"]
    while number:
        link = links[number - 1]
        number = link["next"]
        child = np.int64(link["row"])
        if child < 0 or rows[child]["flags"] & DROPPED:
            continue
        entry = rows[child]
        if entry["marks"] & SPECIAL or (owners.size and find_id(owners, entry["id"]) >= 0):
            odd[found] = entry["id"]
            found += 1
            continue
        length, space = row_size(entry, blocks, policies)
        totals[0, LENGTH] += length
        totals[0, SPACE] += space
        if entry["kind"] != DIRECTORY:
            totals[0, FILES] += 1
            continue
        totals[0, DIRECTORIES] += 1
        stack[0, used] = entry["id"]
        stack[1, used] = child
        stack[2, used] = find_id(directory_ids, entry["id"]) if entry["slot"] >= 0 else np.int64(-1)
        used += 1
    return used, found


@lean_kernel
def sum_below(
    entries,
    directory_ids,
    starts,
    ids,
    slots,
    offsets,
    inodes,
    policies,
    owners,
    known,
    tables,
    stack,
    used,
    most,
    totals,
    odd,
    window,
):
    """Add the descendants of some directories to `totals`, which has one row.

    Records are prefetched, because most records are far apart in memory.

    Args:
        entries, directory_ids, starts: INODE_DIR, and id and offset of each entry.
        ids, slots, offsets, inodes: columns of `IndexArrays`, and INODE.
        owners: ascending ids of the inodes that are not counted.
        known: `slots` of the `IdTable` of touched inodes.
        tables: `rows` and `blocks` of the `InodeTable`, and `links` of `ChildLinks`.
        stack: ids of directories in its first row, of which `used` are pending; later entries, and two other rows, are
            overwritten.
        most: approximate number of inodes to count.
        odd: result, ids of inodes that the caller must process. These inodes are not counted, because snapshots contain
            them. An inverted id is the id of a directory that is not read, because the directory has references, or
            more than `MAX_ENTRY` bytes or links.
        window: scratch, two rows.

    Returns:
        (pending directories; used items of `odd`; offset of a damaged entry, or -1). The kernel returns early if
        `stack` or `odd` may become full.
    """
    rows, _, links = tables
    found = 0
    for i in range(used):
        stack[1, i] = find_number(known, stack[0, i])
        stack[2, i] = find_id(directory_ids, stack[0, i])
    while used > 0 and most > 0:
        row, number = stack[1, used - 1], stack[2, used - 1]
        if row >= 0 and rows[row]["flags"] & DROPPED:
            used -= 1
            continue
        first = end = np.int64(0)
        is_odd = False
        if number >= 0:
            first, end, is_odd = _entry_span(entries, starts[number])
            if first < 0:
                return used, found, starts[number]
        linked = _count_links(rows, links, row) if row >= 0 else 0
        if is_odd or linked > MAX_ENTRY:
            if found == odd.size:
                break
            used -= 1
            odd[found] = ~stack[0, used]
            found += 1
            continue
        # a child occupies at least one byte
        if used + linked + end - first > stack.shape[1] or found + linked + min(end - first, owners.size) >= odd.size:
            break
        used -= 1
        most -= linked
        if row >= 0:
            used, found = _add_linked(tables, row, directory_ids, owners, policies, stack, used, totals, odd, found)
        pos = first
        stop = first
        slot = np.int64(0)
        last = np.int64(0)
        while 0 <= pos < end:
            filled, pos, stop, slot, last, found = _next_children(
                *(entries, pos, stop, end, slot, last, ids, slots, known, row >= 0, owners),
                *(offsets, window, odd, found),
            )
            for i in range(filled):
                window[1, i] = packed_at(offsets, window[1, i])
                prefetch(inodes, window[1, i])
                prefetch(inodes, window[1, i] + _LINE)
                prefetch(inodes, window[1, i] + 2 * _LINE)
            for i in range(filled):
                kind, length, space = read_leaf(inodes, window[1, i], policies)
                if kind < 0:
                    return used, found, starts[number]
                totals[0, LENGTH] += length
                totals[0, SPACE] += space
                if kind != DIRECTORY:
                    totals[0, FILES] += 1
                    continue
                totals[0, DIRECTORIES] += 1
                below = find_id(directory_ids, window[0, i])
                if below >= 0:
                    prefetch(entries, starts[below])
                    stack[0, used] = window[0, i]
                    stack[1, used] = UNKNOWN
                    stack[2, used] = below
                    used += 1
            most -= filled
        if pos < 0:
            return used, found, starts[number]
    return used, found, np.int64(-1)


@lean_kernel
def _climb(row, above, totals, marks, files, directories, length, space, marked):
    """Add to the sums in `row` and in all rows above."""
    while row >= 0:
        totals[row, FILES] += files
        totals[row, DIRECTORIES] += directories
        totals[row, LENGTH] += length
        totals[row, SPACE] += space
        if marked:
            marks[row] += marked
        row = above[row]


@lean_kernel
def _move(held, place, sign, above, totals, marks):
    """Add an inode with its descendants to the sums of `place` and above, or subtract it (`sign`)."""
    own = np.int64(held["sums"])
    if own >= 0:
        total = totals[own]
        files, directories = sign * total[FILES], sign * (total[DIRECTORIES] + 1)
        length, space = sign * total[LENGTH], sign * total[SPACE]
        _climb(place, above, totals, marks, files, directories, length, space, sign * np.int64(marks[own]))
    else:
        length, space = sign * held["length"], sign * held["space"]
        _climb(place, above, totals, marks, sign, 0, length, space, sign * np.int64(held["marked"]))


@lean_kernel
def _place(entry, held):
    """Return the row, in the sums, of the directory that now contains an inode, or -1."""
    if entry["flags"] & DROPPED or entry["parent"] < 0:
        return np.int64(-1)
    return np.int64(held[entry["parent"]]["sums"])


@lean_kernel
def _hold(entry, own, offsets, inodes, policies, ids, marked, used, above, totals, marks):
    """Fill `own` for a new row of the table with its inode's contribution to the sums of the image.

    Returns:
        (used rows of the sums; whether the record of the image is whole).
    """
    own["length"] = 0
    own["space"] = 0
    own["above"] = -1
    own["sums"] = -1
    own["marked"] = 0
    slot = np.int64(entry["slot"])
    number = np.int64(-1)
    if slot >= 0:
        own["above"] = -1 if entry["id"] == ROOT_INODE_ID else _UNPLACED
        own["marked"] = marked.size > 0 and find_id(marked, entry["id"]) >= 0
        if entry["kind"] == FILE:
            kind, length, space = read_leaf(inodes, packed_at(offsets, slot), policies)
            if kind < 0:
                return used, False
            own["length"] = length
            own["space"] = space
    if entry["kind"] == DIRECTORY:
        if slot >= 0:
            number = np.int64(find_id(ids, entry["id"]))
        if number < 0:
            number = used
            used += 1
            totals[number] = 0
            marks[number] = own["marked"]
            above[number] = -1
        own["sums"] = number
    return used, True


@lean_kernel
def _find_place(entry, own, held, above):
    """Set the row above an inode of the image if its place in the image is now known; return whether it is known."""
    if own["above"] != _UNPLACED:
        return True
    if entry["base_parent"] >= 0:
        own["above"] = held[entry["base_parent"]]["sums"]
    elif entry["parent"] >= 0:
        # the inode existed only in snapshots
        own["above"] = -1
    else:
        return False
    if own["sums"] >= 0:
        above[own["sums"]] = own["above"]
    return True


@lean_kernel
def _settle(entry, own, blocks, policies, held, above, totals, marks):
    """Update the sums with an inode; if the inode has left its place, remove it from this place and return True."""
    if not _find_place(entry, own, held, above):
        return False
    leaves = own["above"] != _LEFT and _place(entry, held) != own["above"]
    if leaves:
        _move(own, np.int64(own["above"]), -1, above, totals, marks)
        own["above"] = _LEFT
        if own["sums"] >= 0:
            above[own["sums"]] = -1
    if entry["kind"] == FILE:
        length, space = row_size(entry, blocks, policies)
        if length != own["length"] or space != own["space"]:
            more, spread = length - own["length"], space - own["space"]
            _climb(np.int64(own["above"]), above, totals, marks, 0, 0, more, spread, 0)
            own["length"] = length
            own["space"] = space
    if entry["marks"] & SPECIAL and not own["marked"]:
        own["marked"] = 1
        first_row = np.int64(own["sums"] if own["sums"] >= 0 else own["above"])
        _climb(first_row, above, totals, marks, 0, 0, 0, 0, 1)
    return leaves


@lean_kernel
def settle(
    rows,
    blocks,
    known,
    count,
    changed,
    changes,
    offsets,
    inodes,
    policies,
    ids,
    marked,
    held,
    used,
    above,
    totals,
    marks,
    moved,
):
    """Update sums with the inodes of a table.

    Each moved inode is first removed, with its old values, from the sums of all directories above its old place. After
    all removals, no directory can be above itself, and each moved inode is added at its new place.

    Args:
        rows, blocks, count, changed, changes: arrays of `InodeTable`; the first `known` rows are already in `held`.
        offsets, inodes: column of `IndexArrays`, and INODE.
        ids, marked: ids of `DirectorySums`, and ascending ids of the marked inodes of the image.
        held: contribution of each inode to the sums.
        used, above, totals, marks: used rows of the sums, with space for the new rows; row of the directory above,
            totals, and number of marked inodes, in each row.
        moved: scratch, a number for each new row and each change, or for each row.

    Returns:
        (used rows of the sums; new row whose record is damaged, or -1). If a record is damaged, no sum is
        changed.
    """
    for row in range(known, count):
        used, whole = _hold(rows[row], held[row], offsets, inodes, policies, ids, marked, used, above, totals, marks)
        if not whole:
            return used, row
    waiting = 0
    is_listed = changes <= changed.size
    for row in range(known if is_listed else 0, count):
        if _settle(rows[row], held[row], blocks, policies, held, above, totals, marks):
            moved[waiting] = row
            waiting += 1
    for i in range(changes if is_listed else 0):
        again = changed[i]
        # new rows are up to date, and most operations record a row twice
        is_new = again >= known or (i > 0 and again == changed[i - 1])
        if not is_new and _settle(rows[again], held[again], blocks, policies, held, above, totals, marks):
            moved[waiting] = again
            waiting += 1
    # the sums that consecutive rows add to one directory
    files = length = space = marked = np.int64(0)
    directory = np.int64(-1)
    for mover in moved[:waiting]:
        own = held[mover]
        place = _place(rows[mover], held)
        own["above"] = place
        if own["sums"] >= 0:
            above[own["sums"]] = place
            _move(own, place, 1, above, totals, marks)
            continue
        if place != directory:
            _climb(directory, above, totals, marks, files, 0, length, space, marked)
            files = length = space = marked = np.int64(0)
            directory = place
        files += 1
        length += own["length"]
        space += own["space"]
        marked += own["marked"]
    _climb(directory, above, totals, marks, files, 0, length, space, marked)
    return used, np.int64(-1)
