"""Children that directories have in the base image: sorted by name as they stand there, or in tables of names.

What is known of a directory stands in `entry` of its row, and changes in this order only:

    0                   nobody asked.
    `NO_ENTRY`          it has no children in the base image.
    `_UNKNOWN_ENTRY`    its DirEntry has fields that are not known: the plain functions read it, nobody changes it.
    `_ODD_ENTRY`        it has references, is damaged or in no order: the plain functions look into it.
    a number above 0    the row of `opened_of` with the span of its children.

A number becomes `_ODD_ENTRY` where a search finds no name and the children turn out to be in no order. Nothing else
changes once it is known, for the base image does not.

To prove that a name is absent, every child is read once: to fill a table of the names or, without memory for a table,
to check their order.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.state import (
    AGAIN,
    DONE,
    NAMED_USED,
    NAMED_WANTED,
    OPENED_USED,
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
from image_format.kernels.scan import compare_names, find_id, name_span
from image_format.kernels.tables import hash_bytes, same_bytes
from image_format.kernels.tags import DirEntry, INode
from image_format.kernels.wire import DELIMITED, octet, read_varint, skip_field

NO_ENTRY = -1
_ODD_ENTRY = -2
_UNKNOWN_ENTRY = -3

FIRST, BEHIND, ORDERED, ASKED, TABLE, TABLE_SIZE = range(6)
"""Columns of `opened_of`."""

_BYTES_A_NAME = 12
"""A directory gets a table when so many bytes of its children, some four of them, come to a name that searches read.

A search among sorted names waits for memory at each of them; one in a table does so two or three times in all, and a
name takes a fourth of that time when a table is filled.
"""
_LEAST_BYTES = 32
"""With fewer bytes of children, a search is as quick as a table."""
_NO_TABLE = -1
_APART = 12
"""Children between the one whose record is asked for, and the one that is read."""
UNREAD = 16
_MASK = UNREAD - 1
_PLACES_A_LINE = 16
_MOST_ASKED = 1 << 12
"""Places of a table that are asked for when it is begun."""


@step
def slot_of(a, inode_id):
    """Slot of an inode of the base image, negative where it has none of that id."""
    return find_slot(_base_ids(a), base_slots_of(a), inode_id)


@step
def _base_ids(a):
    return Columns(base_ids_low_of(a), base_ids_bases_of(a), base_ids_wide_of(a))


@step
def base_offset(a, slot):
    """Where the record in a slot of the base image starts in INODE."""
    return packed_at(Columns(base_offsets_low_of(a), base_offsets_bases_of(a), base_offsets_wide_of(a)), slot)


@step
def _children_span(buf, offset):
    """(start, end) of the packed children of a DirEntry with nothing else in it; the start of others is negative.

    It is -2 where there is a field that this version does not know, else -1.
    """
    length, pos = read_varint(buf, offset, buf.size)
    if pos < 0 or length < 0 or length > buf.size - pos:
        return np.int64(-1), np.int64(-1)
    end = pos + length
    first = np.int64(0)
    behind = np.int64(0)
    odd = False
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return np.int64(-1), np.int64(-1)
        stop = skip_field(buf, pos, end, tag)
        if stop < 0:
            return np.int64(-1), np.int64(-1)
        if tag == DirEntry.children and behind == 0:
            _, first = read_varint(buf, pos, end)
            behind = stop
        elif tag | DELIMITED == DirEntry.children or tag | DELIMITED == DirEntry.refChildren:
            odd = True
        elif tag != DirEntry.parent:
            return np.int64(-2), np.int64(-2)
        pos = stop
    return (np.int64(-1), np.int64(-1)) if odd else (first, behind)


@step
def slot_near(a, inode_id, near):
    """Slot of an inode of the base image, which most likely is `near`; negative where it has none of that id."""
    return find_slot_near(_base_ids(a), base_slots_of(a), inode_id, near)


@step
def _name_of(a, inode_id, near):
    """(start, size, slot) of the name of an inode in INODE, size -1 for an id that the image does not have.

    `near` is the slot where it most likely is.
    """
    slot = slot_near(a, inode_id, near)
    if slot < 0:
        return np.int64(0), np.int64(-1), slot
    start, size = name_span(inodes_of(a), base_offset(a, slot))
    return np.int64(start), np.int64(size), slot


@step
def _in_order(a, first, behind):
    """Whether children are sorted by name, as they need not be: a NameNode up to 3.2 puts them in order."""
    buf = directories_of(a)
    last_start = np.int64(0)
    last_size = np.int64(-1)
    slot = np.int64(0)
    last = np.int64(0)
    pos = first
    while pos < behind:
        inode_id, pos = read_varint(buf, pos, behind)
        if pos < 0:
            return False
        start, size, slot = _name_of(a, inode_id, slot + inode_id - last)
        last = inode_id
        if size < 0:
            return False
        if last_size >= 0 and compare_names(inodes_of(a), last_start, last_size, inodes_of(a), start, size) >= 0:
            return False
        last_start = start
        last_size = size
    return True


@step
def open_directory(a, row):
    """Find the children that a directory has in the base image, once."""
    entry = rows_of(a)[row]
    number = find_id(directory_ids_of(a), entry["id"])
    if number < 0:
        entry["entry"] = NO_ENTRY
        entry["marks"] |= OPENED
        return
    first, behind = _children_span(directories_of(a), directory_offsets_of(a)[number])
    if first < 0:
        entry["entry"] = _UNKNOWN_ENTRY if first == -2 else _ODD_ENTRY
        return
    opened = a[OPENED_USED]
    opened_of(a)[opened, FIRST] = first
    opened_of(a)[opened, BEHIND] = behind
    for column in range(ORDERED, TABLE_SIZE + 1):
        opened_of(a)[opened, column] = 0
    a[OPENED_USED] = opened + 1
    entry["entry"] = opened + 1
    entry["marks"] |= OPENED


@step
def entry_may_change(a, directory):
    """Whether all that the image says of a directory is known: `DONE`, `UNUSUAL` where it is not, or `AGAIN`."""
    holder = rows_of(a)[directory]
    if holder["flags"] & UNKNOWN_FIELDS:
        return UNUSUAL
    if holder["slot"] >= 0 and holder["entry"] == 0:
        if a[OPENED_USED] == opened_of(a).shape[0]:
            return AGAIN
        open_directory(a, directory)
    return DONE if holder["entry"] != _UNKNOWN_ENTRY else UNUSUAL


@step
def _middle(packed, low, high):
    """Where the number in the middle of packed ones begins: behind the last byte of the one before it."""
    middle = low + (high - low) // 2
    while middle > low and octet(packed, middle - 1) >= 0x80:
        middle -= 1
    return middle


@step
def _ask_for_middle(a, ids, low, high, known, slot):
    """Ask for the record of the child in the middle of packed ones; `known` is an inode nearby, in `slot`."""
    if low < high:
        inode_id, _ = read_varint(directories_of(a), _middle(directories_of(a), low, high), high)
        near = slot + inode_id - known
        if is_in_slot(ids, base_slots_of(a), inode_id, near):
            prefetch(inodes_of(a), base_offset(a, near))


@step
def _find_child(a, first, behind, buf, start, size):
    """(id, slot) of the child called `buf[start:start + size]` among packed, sorted children; id 0 for none.

    It may be 0 where the children are not sorted, too, or one is not in the image. While a name is compared, the
    records of both children that may come next are on their way.
    """
    packed, inodes, ids = directories_of(a), inodes_of(a), _base_ids(a)
    low = first
    high = behind
    slot = np.int64(0)
    known = np.int64(0)
    while low < high:
        middle = _middle(packed, low, high)
        inode_id, following = read_varint(packed, middle, behind)
        if following < 0:
            break
        slot = slot_near(a, inode_id, slot + inode_id - known)
        if slot < 0:
            break
        known = inode_id
        _ask_for_middle(a, ids, low, middle, known, slot)
        _ask_for_middle(a, ids, following, high, known, slot)
        name_start, name_size = name_span(inodes, base_offset(a, slot))
        order = compare_names(inodes, name_start, name_size, buf, start, size)
        if order == 0:
            return inode_id, slot
        if order < 0:
            low = following
        else:
            high = middle
    return np.int64(0), slot


@step
def _names_read(size):
    """How many names a search reads among children of so many bytes, about."""
    names = 1
    while size > 4:
        size >>= 1
        names += 1
    return names


@step
def _has_table(a, number):
    """Whether a directory has a table of its names, or gets one now, because it was asked often enough."""
    about = opened_of(a)[number]
    if about[TABLE_SIZE] != 0:
        return about[TABLE_SIZE] > 0
    about[ASKED] += _names_read(about[BEHIND] - about[FIRST])
    if about[ASKED] * _BYTES_A_NAME < about[BEHIND] - about[FIRST]:
        return False
    return _make_table(a, number)


@step
def _make_table(a, number):
    """Make a table of a directory's names; whether there is one now. There may be no room for it yet."""
    about = opened_of(a)[number]
    if a[NAMED_WANTED]:
        return False
    packed = directories_of(a)
    children = np.int64(0)
    for pos in range(about[FIRST], about[BEHIND]):
        children += octet(packed, pos) < 0x80
    size = np.int64(4)
    while size < 2 * children:
        size *= 2
    if a[NAMED_USED] + size > named_of(a).size:
        a[NAMED_WANTED] = size
        return False
    about[TABLE] = a[NAMED_USED]
    about[TABLE_SIZE] = size if _fill_table(a, about[FIRST], about[BEHIND], a[NAMED_USED], size) else _NO_TABLE
    # what a table was begun with is no free place any more
    a[NAMED_USED] += size
    return about[TABLE_SIZE] > 0


@step
def _fill_table(a, first, behind, table, size):
    """Put packed children into an empty table; False where one is not in the image.

    A child's record is asked for some children before it is read: they may lie anywhere.
    """
    packed, inodes, named, waiting = directories_of(a), inodes_of(a), named_of(a), unread_of(a)
    for place in range(table, min(table + size, table + _MOST_ASKED), _PLACES_A_LINE):
        prefetch(named, place)
    count = np.int64(0)
    read = np.int64(0)
    slot = np.int64(0)
    last = np.int64(0)
    pos = first
    while read < count or pos < behind:
        if pos < behind:
            inode_id, pos = read_varint(packed, pos, behind)
            slot = slot_near(a, inode_id, slot + inode_id - last)
            if pos < 0 or slot < 0:
                return False
            last = inode_id
            offset = base_offset(a, slot)
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
def _find_named(a, number, buf, start, size):
    """(id, slot) of a child by the table of the names, id 0 where there is none."""
    inodes, named = inodes_of(a), named_of(a)
    table, mask = np.uint64(opened_of(a)[number, TABLE]), np.uint64(opened_of(a)[number, TABLE_SIZE] - 1)
    at = hash_bytes(np.uint64(0), buf, start, size) & mask
    while named[table + at] != 0:
        slot = np.int64(named[table + at]) - 1
        name_start, name_size = name_span(inodes, base_offset(a, slot))
        if name_size == size and same_bytes(inodes, name_start, buf, start, size):
            return _id_at(a, slot), slot
        at = (at + np.uint64(1)) & mask
    return np.int64(0), np.int64(0)


@step
def _id_at(a, slot):
    """Id of the inode in a slot."""
    if not base_slots_of(a).size:
        return packed_at(_base_ids(a), slot)
    buf = inodes_of(a)
    length, pos = read_varint(buf, base_offset(a, slot), buf.size)
    end = pos + length
    inode_id = np.int64(0)
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if tag == INode.id:
            inode_id, pos = read_varint(buf, pos, end)
        else:
            pos = skip_field(buf, pos, end, tag)
    return inode_id


@step
def base_child(a, directory, buf, start, size):
    """(id, slot) of a child in the base image of a directory that is opened; id 0 for none, `UNUSUAL` or `AGAIN`.

    That all children are in order counts only where a search finds none of the name.
    """
    holder = rows_of(a)[directory]
    number = holder["entry"] - 1
    if _has_table(a, number):
        return _find_named(a, number, buf, start, size)
    about = opened_of(a)[number]
    first, behind = about[FIRST], about[BEHIND]
    inode_id, slot = _find_child(a, first, behind, buf, start, size)
    if inode_id == 0 and about[ORDERED] == 0:
        if about[TABLE_SIZE] == 0 and behind - first >= _LEAST_BYTES:
            if _make_table(a, number):
                return _find_named(a, number, buf, start, size)
            if a[NAMED_WANTED] > 0:
                return np.int64(AGAIN), slot
        if not _in_order(a, first, behind):
            holder["entry"] = _ODD_ENTRY
            return np.int64(UNUSUAL), slot
        about[ORDERED] = 1
    return inode_id, slot
