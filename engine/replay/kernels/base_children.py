"""Children of directories in the base image, either sorted by name as stored, or in hash tables of names.

`entry` of a directory's row is the state of its children, and changes in this order only:

    0                   unknown yet.
    `NO_ENTRY`          the directory has no children in the base image.
    `_UNKNOWN_ENTRY`    its DirEntry has unknown fields: the plain functions read the entry, which must not change.
    `_ODD_ENTRY`        its DirEntry has references, is damaged or unsorted: the plain functions search it.
    a positive number   the row of `opened_of` with the span of its children, plus one.

A positive number becomes `_ODD_ENTRY` if a search finds no name and the children prove to be unsorted. All other states
are final, because the base image does not change.

To prove that a name is missing, every child must be read once: to fill a table of the names or, without space for a
table, to check the order of the names.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.state import (
    AGAIN,
    DONE,
    UNUSUAL,
    base_ids_bases_of,
    base_ids_low_of,
    base_ids_wide_of,
    base_offsets_bases_of,
    base_offsets_low_of,
    base_offsets_wide_of,
    base_slots_of,
    directories_of,
    directory_ids_of,
    directory_offsets_of,
    inodes_of,
    named_of,
    opened_of,
    rows_of,
    unread_of,
)
from image_format.kernels.inode import OPENED, UNKNOWN_FIELDS
from image_format.kernels.jit import step
from image_format.kernels.packed import Columns, find_slot, find_slot_near, is_in_slot, packed_at
from image_format.kernels.prefetch import prefetch
from image_format.kernels.readers import read_inode
from image_format.kernels.scan import compare_names, find_id, name_span
from image_format.kernels.tables import hash_bytes, same_bytes
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, next_field, octet, read_varint, record_span

NO_ENTRY = -1
_ODD_ENTRY = -2
_UNKNOWN_ENTRY = -3

FIRST, BEHIND, ORDERED, ASKED, TABLE, TABLE_SIZE = range(6)
"""Columns of `opened_of`."""

_BYTES_A_NAME = 12
"""A directory receives a table once it has at most this many bytes of children for each name that searches have read; a
child takes about four bytes.

A search among sorted names waits for memory at each name; a search in a table waits only two or three times. Adding a
name to a table takes a quarter of the time of one such wait.
"""
_MIN_TABLE_BYTES = 32
"""For fewer bytes of children, a search among sorted names is as fast as a table."""
_NO_TABLE = -1
_APART = 12
"""Number of children between the prefetch of a record and its use."""
UNREAD = 16
_MASK = UNREAD - 1
_PLACES_A_LINE = 16
_MAX_PREFETCHED = 1 << 12
"""Maximum number of places of a new table to prefetch."""


@step
def slot_of(state, inode_id):
    """Return the slot of an inode of the base image; negative for an unknown id."""
    return find_slot(_base_ids(state), base_slots_of(state), inode_id)


@step
def _base_ids(state):
    return Columns(base_ids_low_of(state), base_ids_bases_of(state), base_ids_wide_of(state))


@step
def base_offset(state, slot):
    """Return the offset in INODE of the record in a slot of the base image."""
    return packed_at(
        Columns(base_offsets_low_of(state), base_offsets_bases_of(state), base_offsets_wide_of(state)), slot
    )


@step
def _children_span(buf, offset):
    """Return (start, end) of the packed children of a DirEntry; the start is negative for a DirEntry with other fields.

    The start is -2 for an entry with a field that this version does not know, otherwise -1.
    """
    pos, end = record_span(buf, offset)
    first = np.int64(0)
    behind = np.int64(0)
    odd = pos < 0
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return np.int64(-1), np.int64(-1)
        if tag == DirEntry.children and behind == 0:
            first = start
            behind = pos
        elif tag | DELIMITED == DirEntry.children or tag | DELIMITED == DirEntry.refChildren:
            odd = True
        elif tag != DirEntry.parent:
            return np.int64(-2), np.int64(-2)
    return (np.int64(-1), np.int64(-1)) if odd else (first, behind)


@step
def slot_near(state, inode_id, near):
    """Return the slot of an inode of the base image, most likely `near`; negative for an unknown id."""
    return find_slot_near(_base_ids(state), base_slots_of(state), inode_id, near)


@step
def _name_of(state, inode_id, near):
    """Return (start, size, slot) of an inode's name in INODE; the size is -1 for an unknown id.

    `near` is the inode's most likely slot.
    """
    slot = slot_near(state, inode_id, near)
    if slot < 0:
        return np.int64(0), np.int64(-1), slot
    start, size = name_span(inodes_of(state), base_offset(state, slot))
    return np.int64(start), np.int64(size), slot


@step
def _in_order(state, first, behind):
    """Return whether children are sorted by name.

    An image may contain unsorted children, because NameNodes up to Hadoop 3.2 sort children while they load an image.
    """
    buf = directories_of(state)
    last_start = np.int64(0)
    last_size = np.int64(-1)
    slot = np.int64(0)
    last = np.int64(0)
    pos = first
    while pos < behind:
        inode_id, pos = read_varint(buf, pos, behind)
        if pos < 0:
            return False
        start, size, slot = _name_of(state, inode_id, slot + inode_id - last)
        last = inode_id
        if size < 0:
            return False
        if (
            last_size >= 0
            and compare_names(inodes_of(state), last_start, last_size, inodes_of(state), start, size) >= 0
        ):
            return False
        last_start = start
        last_size = size
    return True


@step
def open_directory(state, row):
    """Locate the children of a directory in the base image; called once for each directory."""
    entry = rows_of(state)[row]
    number = find_id(directory_ids_of(state), entry["id"])
    if number < 0:
        entry["entry"] = NO_ENTRY
        entry["marks"] |= OPENED
        return
    first, behind = _children_span(directories_of(state), directory_offsets_of(state)[number])
    if first < 0:
        entry["entry"] = _UNKNOWN_ENTRY if first == -2 else _ODD_ENTRY
        return
    opened = state.opened_used
    opened_of(state)[opened, FIRST] = first
    opened_of(state)[opened, BEHIND] = behind
    for column in range(ORDERED, TABLE_SIZE + 1):
        opened_of(state)[opened, column] = 0
    state.opened_used = opened + 1
    entry["entry"] = opened + 1
    entry["marks"] |= OPENED


@step
def entry_may_change(state, directory):
    """Return `DONE` if all fields of a directory in the image are known, otherwise `UNUSUAL` or `AGAIN`."""
    holder = rows_of(state)[directory]
    if holder["flags"] & UNKNOWN_FIELDS:
        return UNUSUAL
    if holder["slot"] >= 0 and holder["entry"] == 0:
        if state.opened_used == opened_of(state).shape[0]:
            return AGAIN
        open_directory(state, directory)
    return DONE if holder["entry"] != _UNKNOWN_ENTRY else UNUSUAL


@step
def _middle(packed, low, high):
    """Return the start of the middle number of packed numbers: the position after the previous number's last byte."""
    middle = low + (high - low) // 2
    while middle > low and octet(packed, middle - 1) >= 0x80:
        middle -= 1
    return middle


@step
def _ask_for_middle(state, ids, low, high, known, slot):
    """Prefetch the record of the middle child of packed ids; `known` is a nearby inode, in `slot`."""
    if low < high:
        inode_id, _ = read_varint(directories_of(state), _middle(directories_of(state), low, high), high)
        near = slot + inode_id - known
        if is_in_slot(ids, base_slots_of(state), inode_id, near):
            prefetch(inodes_of(state), base_offset(state, near))


@step
def _find_child(state, first, behind, buf, start, size):
    """Return (id, slot) of the child called `buf[start:start + size]` among packed, sorted children; id 0 if missing.

    The id is also 0 if the children prove to be unsorted, or if the image lacks a child. The search prefetches the
    records of both possible next children before it compares a name.
    """
    packed, inodes, ids = directories_of(state), inodes_of(state), _base_ids(state)
    low = first
    high = behind
    slot = np.int64(0)
    known = np.int64(0)
    while low < high:
        middle = _middle(packed, low, high)
        inode_id, following = read_varint(packed, middle, behind)
        if following < 0:
            break
        slot = slot_near(state, inode_id, slot + inode_id - known)
        if slot < 0:
            break
        known = inode_id
        _ask_for_middle(state, ids, low, middle, known, slot)
        _ask_for_middle(state, ids, following, high, known, slot)
        name_start, name_size = name_span(inodes, base_offset(state, slot))
        order = compare_names(inodes, name_start, name_size, buf, start, size)
        if order == 0:
            return inode_id, slot
        if order < 0:
            low = following
        else:
            high = middle
    return np.int64(0), slot


@step
def sorted_child(state, directory_id, buf, start, size):
    """Return the id of the child called `buf[start:start + size]` in the base image, or 0 if the search fails.

    Unlike `base_child`, it neither uses nor changes rows and tables, so several threads may search at the same time.
    """
    number = find_id(directory_ids_of(state), directory_id)
    if number < 0:
        return np.int64(0)
    first, behind = _children_span(directories_of(state), directory_offsets_of(state)[number])
    return _find_child(state, first, behind, buf, start, size)[0] if first >= 0 else np.int64(0)


@step
def _names_read(size):
    """Return the approximate number of names that a search reads among `size` bytes of children."""
    names = 1
    while size > 4:
        size >>= 1
        names += 1
    return names


@step
def _has_table(state, number):
    """Return whether a directory has a table of its names; create it if searches have read enough names."""
    about = opened_of(state)[number]
    if about[TABLE_SIZE] != 0:
        return about[TABLE_SIZE] > 0
    about[ASKED] += _names_read(about[BEHIND] - about[FIRST])
    if about[ASKED] * _BYTES_A_NAME < about[BEHIND] - about[FIRST]:
        return False
    return _make_table(state, number)


@step
def _make_table(state, number):
    """Create a table of a directory's names; return False if space for the table must be reserved first."""
    about = opened_of(state)[number]
    if state.named_wanted:
        return False
    packed = directories_of(state)
    children = np.int64(0)
    for pos in range(about[FIRST], about[BEHIND]):
        children += octet(packed, pos) < 0x80
    size = np.int64(4)
    while size < 2 * children:
        size *= 2
    if state.named_used + size > named_of(state).size:
        state.named_wanted = size
        return False
    about[TABLE] = state.named_used
    about[TABLE_SIZE] = size if _fill_table(state, about[FIRST], about[BEHIND], state.named_used, size) else _NO_TABLE
    # the space of a table that could not be filled is not reused
    state.named_used += size
    return about[TABLE_SIZE] > 0


@step
def _fill_table(state, first, behind, table, size):
    """Put packed children into an empty table; return whether all children are in the image.

    Because records may be anywhere, a child's record is prefetched several children before it is read.
    """
    packed, inodes, named, waiting = directories_of(state), inodes_of(state), named_of(state), unread_of(state)
    for place in range(table, min(table + size, table + _MAX_PREFETCHED), _PLACES_A_LINE):
        prefetch(named, place)
    count = np.int64(0)
    read = np.int64(0)
    slot = np.int64(0)
    last = np.int64(0)
    pos = first
    while read < count or pos < behind:
        if pos < behind:
            inode_id, pos = read_varint(packed, pos, behind)
            slot = slot_near(state, inode_id, slot + inode_id - last)
            if pos < 0 or slot < 0:
                return False
            last = inode_id
            offset = base_offset(state, slot)
            prefetch(inodes, offset)
            waiting[count & _MASK, 0] = slot
            waiting[count & _MASK, 1] = offset
            count += 1
        if count - read > _APART or pos >= behind:
            start, length = name_span(inodes, waiting[read & _MASK, 1])
            if length < 0:
                return False
            at = hash_bytes(np.uint64(0), inodes, start, length) & np.uint64(size - 1)
            while named[np.uint64(table) + at] != 0:
                at = (at + np.uint64(1)) & np.uint64(size - 1)
            named[np.uint64(table) + at] = waiting[read & _MASK, 0] + 1
            read += 1
    return True


@step
def _find_named(state, number, buf, start, size):
    """Return (id, slot) of a child from the table of names; id 0 if not found."""
    inodes, named = inodes_of(state), named_of(state)
    table, mask = np.uint64(opened_of(state)[number, TABLE]), np.uint64(opened_of(state)[number, TABLE_SIZE] - 1)
    at = hash_bytes(np.uint64(0), buf, start, size) & mask
    while named[table + at] != 0:
        slot = np.int64(named[table + at]) - 1
        name_start, name_size = name_span(inodes, base_offset(state, slot))
        if name_size == size and same_bytes(inodes, name_start, buf, start, size):
            return _id_at(state, slot), slot
        at = (at + np.uint64(1)) & mask
    return np.int64(0), np.int64(0)


@step
def _id_at(state, slot):
    """Return the id of the inode in a slot."""
    if not base_slots_of(state).size:
        return packed_at(_base_ids(state), slot)
    pos, end = record_span(inodes_of(state), base_offset(state, slot))
    _, inode_id, _ = read_inode(inodes_of(state), pos, end)
    return inode_id


@step
def base_child(state, directory, buf, start, size):
    """Return (id, slot) of a child in the base image of an opened directory; id 0 if not found, `UNUSUAL` or `AGAIN`.

    The order of all children matters only if a search finds no child with the name.
    """
    holder = rows_of(state)[directory]
    number = holder["entry"] - 1
    if _has_table(state, number):
        return _find_named(state, number, buf, start, size)
    about = opened_of(state)[number]
    first, behind = about[FIRST], about[BEHIND]
    inode_id, slot = _find_child(state, first, behind, buf, start, size)
    if inode_id == 0 and about[ORDERED] == 0:
        if about[TABLE_SIZE] == 0 and behind - first >= _MIN_TABLE_BYTES:
            if _make_table(state, number):
                return _find_named(state, number, buf, start, size)
            if state.named_wanted > 0:
                return np.int64(AGAIN), slot
        if not _in_order(state, first, behind):
            holder["entry"] = _ODD_ENTRY
            return np.int64(UNUSUAL), slot
        about[ORDERED] = 1
    return inode_id, slot
