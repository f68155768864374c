"""Kernels that walk INODE_DIR and INODE_REFERENCE, and the tree they make."""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import DIRECTORY
from image_format.kernels.jit import kernel
from image_format.kernels.scan import compare_names, find_id
from image_format.kernels.tags import DirEntry, INodeReference
from image_format.kernels.wire import DELIMITED, read_varint, skip_field
from image_tools.verify.kernels.tags import read_tag, record_name

ENTRY_DAMAGED = 1
PARENT = 2
"""The parent is no inode, or no directory."""
PARENT_TWICE = 4
CHILD_MISSING = 8
CHILD_TWICE = 16
"""A child that this or an earlier entry lists already, or the root."""
UNSORTED = 32
"""Two neighbours out of order, or of one name."""
REFERENCE_RANGE = 64
REFERENCE_TWICE = 128
HAS_REFERENCES = 256
"""The entry has refChildren; no fault."""

WITH_NAME = 0
DST = 1


@kernel
def find_slot(ids, slots, inode_id):
    """Slot of an inode, -1 for none; `slots` is empty where the ids increase in file order."""
    found = find_id(ids, inode_id)
    return slots[found] if found >= 0 and slots.size > 0 else found


@kernel
def _parent(buf, pos, end):
    """DirEntry.parent, -1 for a record that is damaged."""
    parent = np.int64(0)
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return np.int64(-1)
        if tag == DirEntry.parent:
            parent, _ = read_varint(buf, pos, end)
        elif tag == DirEntry.children or tag == DirEntry.refChildren:
            _, pos = read_varint(buf, pos, end)
            if stop > pos and buf[stop - 1] >= 0x80:
                return np.int64(-1)
        pos = stop
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
    """Walk the DirEntry records of `dirs` from `pos`; fill one row an entry from `count` on.

    Args:
        parents, offsets, following, flags: results by entry: slot of the parent (-1 for none), offset, the next
            entry of the same parent (-1) and what is wrong.
        buf, ids, slots, records, kinds: the INODE section, its sorted ids, their slots, offset and kind by slot.
        owner: by slot, the slot of the directory that lists it first; -1 at the start, the root its own.
        entry_of: by slot, the directory's first entry; -1 at the start.
        reference_owner: by number of the reference, the slot of the directory that uses it first; -1.

    Returns:
        (entries, position, damaged) as `audit_inodes` does.
    """
    size = dirs.size
    while pos < size:
        if count == parents.size:
            return count, pos, False
        start = pos
        length, pos = read_varint(dirs, pos, size)
        if pos < 0 or length < 0 or length > size - pos:
            return count, start, True
        end = pos + length
        offsets[count] = start
        following[count] = -1
        parents[count] = -1
        parent = _parent(dirs, pos, end)
        if parent < 0:
            flags[count] = ENTRY_DAMAGED
        else:
            slot = find_slot(ids, slots, parent)
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
                    dirs, pos, end, slot, buf, ids, slots, records, owner, reference_owner
                )
        count += 1
        pos = end
    return count, pos, False


@kernel
def _audit_entry(dirs, pos, end, parent, buf, ids, slots, records, owner, reference_owner):
    """Flags of the children and references of one entry."""
    flags = 0
    name = np.int64(0)
    name_size = np.int64(-1)
    while pos < end:
        tag, pos = read_tag(dirs, pos, end)
        stop = skip_field(dirs, pos, end, tag)
        packed = tag | DELIMITED
        if packed == DirEntry.children or packed == DirEntry.refChildren:
            if tag == packed:
                _, pos = read_varint(dirs, pos, end)
            while pos < stop:
                value, pos = read_varint(dirs, pos, stop)
                if pos < 0:
                    return ENTRY_DAMAGED
                if packed == DirEntry.refChildren:
                    flags |= HAS_REFERENCES
                    if value < 0 or value >= reference_owner.size:
                        flags |= REFERENCE_RANGE
                    elif reference_owner[value] >= 0:
                        flags |= REFERENCE_TWICE
                    else:
                        reference_owner[value] = parent
                    continue
                slot = find_slot(ids, slots, value)
                if slot < 0:
                    flags |= CHILD_MISSING
                    continue
                if owner[slot] >= 0:
                    flags |= CHILD_TWICE
                else:
                    owner[slot] = parent
                start, length = record_name(buf, records[slot])
                if name_size >= 0 and compare_names(buf, name, name_size, buf, start, length) >= 0:
                    flags |= UNSORTED
                name = start
                name_size = length
        pos = stop
    return flags


@kernel
def audit_references(buf, pos, offsets, referred, kinds, snapshots, count, ids, slots):
    """Walk the INodeReference records of `buf` from `pos`; fill one row a record from `count` on.

    Args:
        offsets, referred, kinds, snapshots: results: offset, slot of the inode (-1 for none), `DST` or
            `WITH_NAME`, and dstSnapshotId or lastSnapshotId; -1 in `kinds` for a record that cannot be decoded.
        ids, slots: sorted inode ids and their slots.

    Returns:
        (records, position, damaged) as `audit_inodes` does.
    """
    size = buf.size
    while pos < size:
        if count == offsets.size:
            return count, pos, False
        start = pos
        length, pos = read_varint(buf, pos, size)
        if pos < 0 or length < 0 or length > size - pos:
            return count, start, True
        end = pos + length
        offsets[count] = start
        inode_id = np.int64(0)
        kind = WITH_NAME
        last = np.int64(0)
        dst = np.int64(0)
        while pos < end:
            tag, pos = read_tag(buf, pos, end)
            stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
            if stop < 0:
                kind = -1
                break
            if tag == INodeReference.referredId:
                inode_id, _ = read_varint(buf, pos, end)
            elif tag == INodeReference.dstSnapshotId:
                dst, _ = read_varint(buf, pos, end)
                kind = DST
            elif tag == INodeReference.lastSnapshotId:
                last, _ = read_varint(buf, pos, end)
            pos = stop
        referred[count] = find_slot(ids, slots, inode_id)
        kinds[count] = kind
        snapshots[count] = dst if kind == DST else last
        count += 1
        pos = end
    return count, pos, False


@kernel
def _push(slot, reached, kinds, stack, top):
    """Mark an inode; a directory is put on the stack, too. The new height."""
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
    """Set `reached` to 1 for the inode in slot `start` and all that it leads to.

    Args:
        stack: scratch with room for every directory.
        dirs, entry_of, offsets, following, flags: as `audit_directories` left them.
        referred: slot by number of the reference.
        sources, targets: edges of the deleted lists, from the directory's slot (ascending) to the inode's.
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
            length, pos = read_varint(dirs, offsets[entry], dirs.size)
            end = pos + length
            while pos < end and flags[entry] & ENTRY_DAMAGED == 0:
                tag, pos = read_tag(dirs, pos, end)
                stop = skip_field(dirs, pos, end, tag)
                packed = tag | DELIMITED
                if packed == DirEntry.children or packed == DirEntry.refChildren:
                    if tag == packed:
                        _, pos = read_varint(dirs, pos, end)
                    while pos < stop:
                        value, pos = read_varint(dirs, pos, stop)
                        child = np.int64(-1)
                        if packed == DirEntry.children:
                            child = find_slot(ids, slots, value)
                        elif 0 <= value < referred.size:
                            child = referred[value]
                        top = _push(child, reached, kinds, stack, top)
                pos = stop
            entry = following[entry]
