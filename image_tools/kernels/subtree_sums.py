"""Kernels that sum files, directories, bytes and space of subtrees, as a NameNode counts them.

Space is that of replicas, or of an erasure coding policy; the last block of an open file takes its full size.
`policies` has a row for each id of an erasure coding policy: data units, parity units and cell size, zeros for none.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY, DROPPED, FILE, SPECIAL, SYMLINK, UNDER_CONSTRUCTION
from image_format.kernels.jit import lean_kernel
from image_format.kernels.packed import find_slot_near, packed_at
from image_format.kernels.prefetch import prefetch
from image_format.kernels.readers import read_block
from image_format.kernels.scan import find_id
from image_format.kernels.tables import UNKNOWN, find_number
from image_format.kernels.tags import BlockProto, DirEntry, INode, INodeFile
from image_format.kernels.wire import DELIMITED, next_field, octet, read_varint, record_span

FILES, DIRECTORIES, LENGTH, SPACE = range(4)
"""Columns of totals, as of `SubtreeTotals`."""
_LINE = 64
MAX_ENTRY = 1 << 19
"""Bytes of a directory's entry that `sum_below` reads at once."""

HELD_DTYPE = np.dtype(
    [
        ("length", "i8"),
        ("space", "i8"),
        ("above", "i4"),  # row in the sums of the directory that counts the inode, -1 for none
        ("sums", "i4"),  # of a directory: its own row in the sums; -1 for other inodes
        ("marked", "u1"),  # whether the inode has or had snapshot diffs or references
    ],
    align=True,
)
"""What the sums count of an inode of the table."""

_LEFT = -2
"""Row above an inode that was removed from its old place and not yet added to its new one."""
_INT32 = 0xFFFFFFFF


@lean_kernel
def space_of(length, replication, policy, policies):
    """Return the bytes of a file with replicas, or with the parity of a known policy; `policy` is -1 for none."""
    if policy < 0 or policy >= policies.shape[0] or policies[policy, 0] == 0:
        return length * replication
    cell = policies[policy, 2]
    stripe = cell * policies[policy, 0]
    parity = length // stripe * cell + min(length % stripe, cell)
    return length + parity * policies[policy, 1]


@lean_kernel
def _behind_number(buf, pos, end):
    """Return the position after the varint at `pos`, -1 if it is cut: faster than reading the number."""
    while pos < end:
        pos += 1
        if octet(buf, pos - 1) < 0x80:
            return pos
    return np.int64(-1)


@lean_kernel
def _block_bytes(buf, pos, end):
    """Return the length in the BlockProto in `buf[pos:end]`, and a negative status if it is damaged."""
    at = pos
    if at < end and octet(buf, at) == BlockProto.blockId:
        at = _behind_number(buf, at + 1, end)
        if 0 <= at < end and octet(buf, at) == BlockProto.genStamp:
            at = _behind_number(buf, at + 1, end)
            if 0 <= at < end and octet(buf, at) == BlockProto.numBytes:
                size, at = read_varint(buf, at + 1, end)
                if at == end:
                    return np.int64(size), np.int64(0)
    # another order, or another field
    _, _, size, status = read_block(buf, pos, end)
    return np.int64(size), np.int64(status)


@lean_kernel
def _file(buf, pos, end, policies):
    """Return (length, space) of the INodeFile in `buf[pos:end]`; the length is -1 if it is damaged."""
    length = np.int64(0)
    last = np.int64(-1)
    replication = np.int64(0)
    policy = np.int64(-1)
    block_size = np.int64(0)
    is_open = False
    while 0 <= pos < end:
        tag = np.int64(octet(buf, pos))
        if tag == INodeFile.modificationTime or tag == INodeFile.accessTime:
            pos = _behind_number(buf, pos + 1, end)
            continue
        if tag == INodeFile.permission:
            pos = pos + 9 if pos + 9 <= end else np.int64(-1)
            continue
        value = np.int64(0)
        start = pos + 2
        # a short one, as most blocks are
        if tag == INodeFile.blocks and start <= end and octet(buf, pos + 1) <= min(end - start, 0x7F):
            pos = start + np.int64(octet(buf, pos + 1))
        else:
            tag, value, start, pos = next_field(buf, pos, end)
        if tag == INodeFile.blocks:
            last, status = _block_bytes(buf, start, pos)
            if status < 0:
                return np.int64(-1), np.int64(0)
            length += last
        elif tag == INodeFile.replication:
            replication = value & _INT32
        elif tag == INodeFile.preferredBlockSize:
            block_size = value
        elif tag == INodeFile.erasureCodingPolicyID:
            policy = value & 0xFF
        elif tag == INodeFile.fileUC:
            is_open = True
    if pos != end:
        return np.int64(-1), np.int64(0)
    if replication > _INT32 >> 1:
        replication -= _INT32 + 1
    stored = length + block_size - last if is_open and last >= 0 else length
    return length, space_of(stored, replication, policy, policies)


@lean_kernel
def _leaf(buf, offset, policies):
    """Return (kind, length, space) of the INode at `offset`; kind -1 if it is damaged."""
    pos, end = record_span(buf, offset)
    kind = np.int64(-1)
    length = np.int64(0)
    space = np.int64(0)
    while 0 <= pos < end:
        # type, id and name, as they are in most records
        if octet(buf, pos) == INode.type or octet(buf, pos) == INode.id:
            pos = _behind_number(buf, pos + 1, end)
            continue
        if octet(buf, pos) == INode.name and pos + 2 <= end and octet(buf, pos + 1) <= min(end - pos - 2, 0x7F):
            pos += 2 + np.int64(octet(buf, pos + 1))
            continue
        tag, _, start, pos = next_field(buf, pos, end)
        if tag == INode.file:
            kind = np.int64(FILE)
            length, space = _file(buf, start, pos, policies)
            if length < 0:
                return np.int64(-1), length, space
        elif tag == INode.directory:
            kind = np.int64(DIRECTORY)
        elif tag == INode.symlink:
            kind = np.int64(SYMLINK)
    return kind if pos == end else np.int64(-1), length, space


@lean_kernel
def read_leaves(buf, offsets, policies, out):
    """Fill a row of `out` with (kind, length, space) of each INode at `offsets`.

    Returns:
        Index of the first damaged record, -1 if all are whole.
    """
    for i in range(offsets.size):
        kind, length, space = _leaf(buf, offsets[i], policies)
        if kind < 0:
            return i
        out[i, 0] = kind
        out[i, 1] = length
        out[i, 2] = space
    return -1


@lean_kernel
def add_leaves(buf, offsets, policies, rows, totals):
    """Add each INode at `offsets` to its row of `totals`, -1 for none; return as `read_leaves`."""
    for i in range(offsets.size):
        kind, length, space = _leaf(buf, offsets[i], policies)
        if kind < 0:
            return i
        if rows[i] >= 0:
            total = totals[rows[i]]
            total[DIRECTORIES if kind == DIRECTORY else FILES] += 1
            total[LENGTH] += length
            total[SPACE] += space
    return -1


@lean_kernel
def _next_children(entries, pos, stop, end, slot, last, ids, slots, known, owners, offsets, window, odd, found):
    """Fill `window` with the next children of a directory: their ids and slots.

    Args:
        pos, stop, end: next child, end of the list that contains it, and of the entry.
        slot, last: of the child before, zeros at the beginning of the entry.

    Returns:
        (children; pos; stop; slot and id of the last child; used items of `odd`); pos is negative for a damaged entry.
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
        elif known.size and find_number(known, child) != UNKNOWN:
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
    stack,
    numbers,
    used,
    most,
    totals,
    odd,
    window,
):
    """Add what is below some directories of an image to `totals`, which has one row.

    Records are prefetched: most are in memory far apart.

    Args:
        entries, directory_ids, starts: INODE_DIR, and id and offset of each entry.
        ids, slots, offsets, inodes: of `IndexArrays`, and INODE.
        owners: ascending ids of the inodes that are not counted.
        known: `slots` of an `IdTable` whose inodes are left out; empty if no directory has one.
        stack: ids of directories, of which `used` are pending; later entries are overwritten.
        numbers: scratch, as large as `stack`.
        most: inodes to count, about.
        odd: result, ids of inodes that were met: owners, and inverted those of directories with references, or with
            more than `MAX_ENTRY` bytes, which are not read.
        window: scratch, two rows.

    Returns:
        (directories that still wait; used items of `odd`; offset of a damaged entry, -1 for none). It returns early if
        `stack` or `odd` may become full.
    """
    found = 0
    for i in range(used):
        numbers[i] = find_id(directory_ids, stack[i])
    while used > 0 and most > 0:
        directory_id = stack[used - 1]
        number = numbers[used - 1]
        if number < 0:
            used -= 1
            continue
        first, end = record_span(entries, starts[number])
        pos = first
        is_odd = end - first > MAX_ENTRY
        while 0 <= pos < end and not is_odd:
            tag, _, _, pos = next_field(entries, pos, end)
            is_odd = tag | DELIMITED == DirEntry.refChildren
        if pos < 0:
            return used, found, starts[number]
        size = 0 if is_odd else end - first
        if used + size > stack.size or found + min(size, owners.size) >= odd.size:
            break
        used -= 1
        if is_odd:
            odd[found] = ~directory_id
            found += 1
            continue
        pos = first
        stop = first
        slot = np.int64(0)
        last = np.int64(0)
        while 0 <= pos < end:
            filled, pos, stop, slot, last, found = _next_children(
                entries, pos, stop, end, slot, last, ids, slots, known, owners, offsets, window, odd, found
            )
            for i in range(filled):
                window[1, i] = packed_at(offsets, window[1, i])
                prefetch(inodes, window[1, i])
                prefetch(inodes, window[1, i] + _LINE)
                prefetch(inodes, window[1, i] + 2 * _LINE)
            for i in range(filled):
                kind, length, space = _leaf(inodes, window[1, i], policies)
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
                    stack[used] = window[0, i]
                    numbers[used] = below
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
        marks[row] += marked
        row = above[row]


@lean_kernel
def _move(held, place, sign, above, totals, marks):
    """Add an inode with all below it to the sums of `place` and above, or subtract it (`sign`)."""
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
def _place(entry, held, of_row):
    """Return the row in the sums of the directory that has an inode now, -1 for none."""
    if entry["flags"] & DROPPED:
        return np.int64(-1)
    if entry["parent"] < 0:
        # nothing moved an inode of the image whose directory was not looked up
        return np.int64(held["above"])
    return np.int64(of_row[entry["parent"]]["sums"])


@lean_kernel
def _hold(entry, own, offsets, inodes, policies, ids, parents, marked, used, above, totals, marks):
    """Fill `own` for a new row of the table with what the sums of the image count of its inode.

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
        own["above"] = parents[slot]
        own["marked"] = marked.size > 0 and find_id(marked, entry["id"]) >= 0
        if entry["kind"] == FILE:
            kind, length, space = _leaf(inodes, packed_at(offsets, slot), policies)
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
            above[number] = own["above"]
        own["sums"] = number
    return used, True


@lean_kernel
def _settle(entry, own, blocks, policies, held, above, totals, marks):
    """Bring sums up to date with an inode; return whether it left its place, from which it is removed."""
    leaves = own["above"] != _LEFT and _place(entry, own, held) != own["above"]
    if leaves:
        _move(own, np.int64(own["above"]), -1, above, totals, marks)
        own["above"] = _LEFT
        if own["sums"] >= 0:
            above[own["sums"]] = -1
    if entry["kind"] == FILE:
        length = np.int64(0)
        first = entry["blocks_offset"]
        for i in range(entry["block_count"]):
            length += blocks[first + i]["num_bytes"]
        stored = length
        if entry["flags"] & UNDER_CONSTRUCTION and entry["block_count"]:
            stored += entry["block_size"] - blocks[first + entry["block_count"] - 1]["num_bytes"]
        space = space_of(stored, max(np.int64(entry["replication"]), 0), np.int64(entry["ec_policy"]), policies)
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
    parents,
    marked,
    held,
    used,
    above,
    totals,
    marks,
    moved,
):
    """Bring sums up to date with the inodes of a table.

    An inode whose place changed is first removed from the sums of all directories above its old place, as it was
    counted there. Once all are removed, no directory can be above itself, and each is added at its new place.

    Args:
        rows, blocks, count, changed, changes: of `InodeTable`; the first `known` rows are in `held`, and others follow.
        offsets, inodes: of `IndexArrays`, and INODE.
        ids, parents: of `DirectorySums`; marked: ascending ids of the marked inodes of the image.
        held: what the sums count of each inode.
        used, above, totals, marks: used rows of the sums, with space for the new rows; row of the directory above,
            totals, and number of marked inodes, in each row.
        moved: scratch, a number for each new row and each change, or for each row.

    Returns:
        (used rows of the sums; new row whose record is damaged, -1 for none). No sum is changed if one is damaged.
    """
    for row in range(known, count):
        used, whole = _hold(
            rows[row], held[row], offsets, inodes, policies, ids, parents, marked, used, above, totals, marks
        )
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
        # new rows are up to date, and most operations note a row twice
        is_new = again >= known or (i > 0 and again == changed[i - 1])
        if not is_new and _settle(rows[again], held[again], blocks, policies, held, above, totals, marks):
            moved[waiting] = again
            waiting += 1
    # what consecutive rows add to one directory
    files = length = space = marked = np.int64(0)
    directory = np.int64(-1)
    for mover in moved[:waiting]:
        own = held[mover]
        place = _place(rows[mover], own, held)
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
