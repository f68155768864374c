"""Kernels that walk INODE_DIR and INODE_REFERENCE, and the tree that they form."""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY
from image_format.kernels.jit import kernel
from image_format.kernels.readers import ABSENT, read_reference
from image_format.kernels.scan import compare_names, find_id, name_span
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, next_field, read_varint, record_span
from image_tools.loadable.kernels.records import is_reference

ENTRY_DAMAGED = 1
PARENT = 2
"""The parent is missing, or is not a directory."""
PARENT_TWICE = 4
CHILD_MISSING = 8
CHILD_TWICE = 16
"""A child that this entry or an earlier entry already lists, or the root."""
UNSORTED = 32
"""Two neighbours out of order, or with the same name."""
REFERENCE_RANGE = 64
REFERENCE_TWICE = 128
HAS_REFERENCES = 256
"""The entry has refChildren, which is not a fault."""

WITH_NAME = 0
DST = 1


@kernel
def slot_of_id(ids, slots, inode_id):
    """Return the slot of an inode, or -1; `slots` is empty if the ids increase in file order."""
    found = find_id(ids, inode_id)
    return slots[found] if found >= 0 and slots.size > 0 else found


@kernel
def _parent(buf, pos, end):
    """Return DirEntry.parent, -1 for a damaged record."""
    parent = np.int64(0)
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return np.int64(-1)
        if tag == DirEntry.parent:
            parent = value
        elif (tag == DirEntry.children or tag == DirEntry.refChildren) and pos > start and buf[pos - 1] >= 0x80:
            return np.int64(-1)
    return parent


@kernel
def audit_directories(
    dirs,
    pos,
    parents,
    offsets,
    following,
    flags,
    count,
    buf,
    ids,
    slots,
    records,
    kinds,
    owner,
    entry_of,
    reference_owner,
):
    """Walk the DirEntry records of `dirs` from `pos`; fill a row for each entry from `count`.

    Args:
        parents, offsets, following, flags: results by entry: slot of the parent (or -1), offset, the next
            entry of the same parent (or -1), and the faults.
        buf, ids, slots, records, kinds: the INODE section, its sorted ids, their slots, offset and kind by slot.
        owner: by slot, the slot of the first directory that lists the inode; initially -1, but the root's slot for the
            root.
        entry_of: a directory's first entry, by slot; -1 at the start.
        reference_owner: by reference number, the slot of the first directory that uses the reference; initially -1.

    Returns:
        (entries, position, damaged) as in `audit_inodes`.
    """
    while pos < dirs.size and count < parents.size:
        start = pos
        body, pos = record_span(dirs, start)
        if body < 0:
            return count, start, True
        offsets[count] = start
        following[count] = -1
        parents[count] = -1
        parent = _parent(dirs, body, pos)
        if parent < 0:
            flags[count] = ENTRY_DAMAGED
        else:
            slot = slot_of_id(ids, slots, parent)
            if slot < 0 or kinds[slot] != DIRECTORY:
                flags[count] = PARENT
            else:
                parents[count] = slot
                found = 0
                if entry_of[slot] >= 0:
                    found = PARENT_TWICE
                    following[count] = following[entry_of[slot]]
                    following[entry_of[slot]] = count
                else:
                    entry_of[slot] = count
                flags[count] = found | _audit_entry(
                    dirs, body, pos, slot, buf, ids, slots, records, owner, reference_owner
                )
        count += 1
    return count, pos, False


@kernel
def _audit_entry(dirs, pos, end, parent, buf, ids, slots, records, owner, reference_owner):
    """Return the flags of the children and references of an entry."""
    flags = 0
    name = np.int64(0)
    name_size = np.int64(-1)
    while pos < end:
        tag, _, at, pos = next_field(dirs, pos, end)
        field = tag | DELIMITED
        while (field == DirEntry.children or field == DirEntry.refChildren) and at < pos:
            value, at = read_varint(dirs, at, pos)
            if at < 0:
                return ENTRY_DAMAGED
            if field == DirEntry.refChildren:
                flags |= HAS_REFERENCES
                if value < 0 or value >= reference_owner.size:
                    flags |= REFERENCE_RANGE
                elif reference_owner[value] >= 0:
                    flags |= REFERENCE_TWICE
                else:
                    reference_owner[value] = parent
                continue
            slot = slot_of_id(ids, slots, value)
            if slot < 0:
                flags |= CHILD_MISSING
                continue
            if owner[slot] >= 0:
                flags |= CHILD_TWICE
            else:
                owner[slot] = parent
            start, length = name_span(buf, records[slot])
            if name_size >= 0 and compare_names(buf, name, name_size, buf, start, length) >= 0:
                flags |= UNSORTED
            name = start
            name_size = length
    return flags


@kernel
def audit_references(buf, pos, offsets, referred, kinds, snapshots, count, ids, slots):
    """Walk the INodeReference records of `buf` from `pos`; fill a row for each record from `count`.

    Args:
        offsets, referred, kinds, snapshots: results: offset, slot of the inode (or -1), `DST` or
            `WITH_NAME`, and dstSnapshotId or lastSnapshotId; -1 in `kinds` for a record that fails `is_reference`.
        ids, slots: sorted inode ids and their slots.

    Returns:
        (records, position, damaged) as in `audit_inodes`.
    """
    while pos < buf.size and count < offsets.size:
        start = pos
        body, pos = record_span(buf, start)
        if body < 0:
            return count, start, True
        inode_id, _, _, dst, last, _ = read_reference(buf, body, pos)
        offsets[count] = start
        referred[count] = slot_of_id(ids, slots, inode_id)
        kinds[count] = -1 if not is_reference(buf, body, pos) else WITH_NAME if dst == ABSENT else DST
        snapshots[count] = last if dst == ABSENT else dst
        count += 1
    return count, pos, False


@kernel
def _push(slot, reached, kinds, stack, top):
    """Mark an inode, and push a directory on the stack; return the new height."""
    if slot < 0 or reached[slot]:
        return top
    reached[slot] = 1
    if kinds[slot] != DIRECTORY:
        return top
    stack[top] = slot
    return top + 1


@kernel
def mark_reachable(
    start, reached, kinds, stack, dirs, entry_of, offsets, following, flags, ids, slots, referred, sources, targets
):
    """Set `reached` to 1 for the inode in slot `start` and all inodes below it.

    Args:
        stack: scratch with space for every directory.
        dirs, entry_of, offsets, following, flags: arguments of `audit_directories`, after the call.
        referred: slot of the inode, by number of the reference.
        sources, targets: edges of the deleted lists, from the directory's slot (ascending) to the inode's slot.
    """
    top = _push(start, reached, kinds, stack, 0)
    while top > 0:
        top -= 1
        slot = stack[top]
        edge = np.searchsorted(sources, slot)
        while edge < sources.size and sources[edge] == slot:
            top = _push(targets[edge], reached, kinds, stack, top)
            edge += 1
        entry = np.int64(entry_of[slot])
        while entry >= 0:
            pos, end = record_span(dirs, offsets[entry])
            while pos < end and flags[entry] & ENTRY_DAMAGED == 0:
                tag, _, at, pos = next_field(dirs, pos, end)
                field = tag | DELIMITED
                while (field == DirEntry.children or field == DirEntry.refChildren) and at < pos:
                    value, at = read_varint(dirs, at, pos)
                    child = np.int64(-1)
                    if field == DirEntry.children:
                        child = slot_of_id(ids, slots, value)
                    elif 0 <= value < referred.size:
                        child = referred[value]
                    top = _push(child, reached, kinds, stack, top)
            entry = following[entry]
