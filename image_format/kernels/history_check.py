"""Whether the lists in SNAPSHOT_DIFF lead to what the image has, looked at in one pass."""

from __future__ import annotations

import numpy as np

from image_format.kernels.history import _field, _frame, _number
from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import find_slot, packed_at
from image_format.kernels.records import FILE_DIFF
from image_format.kernels.scan import (
    DAMAGED,
    collect_children,
    compare_names,
    count_children,
    find_id,
    locate_name,
    name_span,
)
from image_format.kernels.tags import CreatedListEntry, DiffEntry, DirectoryDiff, INodeReference
from image_format.kernels.wire import octet, read_varint, skip_field

_EMPTY = 0


@lean_kernel
def _bytes_field(buf, pos, end, wanted):
    """(start, size) of the length-delimited field with tag `wanted`; the start is negative without it."""
    start = -1
    size = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1, 0
        if tag == wanted:
            size, start = read_varint(buf, pos, end)
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return -1, 0
    return start, size


@lean_kernel
def _hashed(buf, start, size):
    """62 bits of FNV-1a of a name, never 0."""
    value = np.uint64(14695981039346656037)
    for i in range(start, start + size):
        value = (value ^ np.uint64(octet(buf, i))) * np.uint64(1099511628211)
    return np.int64(value >> np.uint64(1)) | 1


@lean_kernel
def _put(table, value):
    at = (value >> 7) & (table.size - 1)
    while table[at] != _EMPTY and table[at] != value:
        at = (at + 1) & (table.size - 1)
    table[at] = value


@lean_kernel
def _has(table, value):
    at = (value >> 7) & (table.size - 1)
    while table[at] != _EMPTY:
        if table[at] == value:
            return True
        at = (at + 1) & (table.size - 1)
    return False


@lean_kernel
def _put_reference(table, number, references, starts, referred, ids, slots, offsets, buf):
    """Take up the name of a reference: its own, or its inode's; whether it leads to an inode."""
    if number < 0 or number >= starts.size:
        return False
    slot = find_slot(ids, slots, referred[number])
    if slot < 0:
        return False
    body, end = _frame(references, starts[number])
    start, size = _bytes_field(references, body, end, INodeReference.name)
    if start >= 0:
        _put(table, _hashed(references, start, size))
    else:
        start, size = name_span(buf, packed_at(offsets, slot))
        _put(table, _hashed(buf, start, size))
    return True


@lean_kernel
def _counts(diffs_buf, pos, diffs):
    """(created names, deleted entries) of all diffs of a directory, (-1, -1) where their bytes are damaged."""
    created = 0
    deleted = 0
    for _ in range(diffs):
        body, end = _frame(diffs_buf, pos)
        if end < 0:
            return -1, -1
        names, whole = _number(diffs_buf, body, end, DirectoryDiff.createdListSize)
        if not whole or names < 0:
            return -1, -1
        pos = body
        while pos < end:
            tag, value_pos, stop = _field(diffs_buf, pos, end)
            if tag < 0:
                return -1, -1
            if tag == DirectoryDiff.deletedINode or tag == DirectoryDiff.deletedINodeRef:
                while value_pos < stop:
                    _, value_pos = read_varint(diffs_buf, value_pos, stop)
                    if value_pos < 0:
                        return -1, -1
                    deleted += 1
            pos = stop
        pos = end
        for _ in range(names):
            _, pos = _frame(diffs_buf, pos)
            if pos < 0:
                return -1, -1
        created += names
    return created, deleted


@kernel
def first_misfit(
    diffs_buf,
    owners,
    starts,
    directories,
    directory_ids,
    directory_offsets,
    references,
    reference_starts,
    referred,
    ids,
    slots,
    offsets,
    buf,
    deleted_ids,
):
    """Id of the first directory whose diffs lead nowhere or are in no order, 0 where there is none.

    A deleted inode and a reference have to be in the image, and a created name has to be one of a child, or of what a
    later diff has as deleted. Deleted names are compared by hashes of 62 bits.

    Args:
        diffs_buf, owners, starts: SNAPSHOT_DIFF, the inode id and the offset of each entry.
        directories, directory_ids, directory_offsets: INODE_DIR and where the entry of each directory is.
        references, reference_starts, referred: INODE_REFERENCE, offset and inode id by number.
        ids, slots, offsets, buf: of `IndexArrays`, and INODE.
        deleted_ids: takes the inode ids in deleted lists, as many as there is room for.

    Returns:
        (id, how many deleted inode ids there are).
    """
    total = 0
    for i in range(owners.size):
        body, end = _frame(diffs_buf, starts[i])
        kind, _ = _number(diffs_buf, body, end, DiffEntry.type)
        diffs, _ = _number(diffs_buf, body, end, DiffEntry.numOfDiff)
        if kind == FILE_DIFF or diffs == 0:
            continue
        first = end
        created, deleted = _counts(diffs_buf, first, diffs)
        if created < 0:
            return owners[i], total
        if created == 0 and deleted == 0:
            continue
        at = find_id(directory_ids, owners[i]) if created else -1
        plain = 0
        held = 0
        if at >= 0:
            plain, held = count_children(directories, directory_offsets[at])
            if plain < 0:
                return owners[i], total
        children = np.empty(plain, np.int64)
        numbers = np.empty(held, np.int64)
        if at >= 0:
            _, damaged = collect_children(directories, directory_offsets[at], children, numbers)
            if damaged:
                return owners[i], total
        room = 8
        while room < 2 * (deleted + held):
            room *= 2
        table = np.zeros(room, np.int64)
        for number in numbers:
            if not _put_reference(table, number, references, reference_starts, referred, ids, slots, offsets, buf):
                return owners[i], total
        pos = first
        for _ in range(diffs):
            body, end = _frame(diffs_buf, pos)
            names, _ = _number(diffs_buf, body, end, DirectoryDiff.createdListSize)
            pos = end
            last = -1
            last_size = 0
            for _ in range(names):
                entry, pos = _frame(diffs_buf, pos)
                start, size = _bytes_field(diffs_buf, entry, pos, CreatedListEntry.name)
                if start < 0:
                    return owners[i], total
                if last >= 0 and compare_names(diffs_buf, last, last_size, diffs_buf, start, size) >= 0:
                    return owners[i], total
                last = start
                last_size = size
                if _has(table, _hashed(diffs_buf, start, size)):
                    continue
                where, hit = locate_name(children, ids, slots, offsets, buf, diffs_buf, start, size)
                if where == DAMAGED:
                    return owners[i], total
                if not hit:
                    return owners[i], total
            behind = pos
            last = -1
            pos = body
            while pos < end:
                tag, value_pos, stop = _field(diffs_buf, pos, end)
                deleted = tag == DirectoryDiff.deletedINode or tag == DirectoryDiff.deletedINodeRef
                while deleted and value_pos < stop:
                    value, value_pos = read_varint(diffs_buf, value_pos, stop)
                    if tag == DirectoryDiff.deletedINodeRef:
                        if not _put_reference(
                            table, value, references, reference_starts, referred, ids, slots, offsets, buf
                        ):
                            return owners[i], total
                        continue
                    slot = find_slot(ids, slots, value)
                    if slot < 0:
                        return owners[i], total
                    start, size = name_span(buf, packed_at(offsets, slot))
                    if last >= 0 and compare_names(buf, last, last_size, buf, start, size) >= 0:
                        return owners[i], total
                    last = start
                    last_size = size
                    _put(table, _hashed(buf, start, size))
                    if total < deleted_ids.size:
                        deleted_ids[total] = value
                    total += 1
                pos = stop
            pos = behind
    return 0, total


@kernel
def reference_keys(buf, starts, keys):
    """Fill `keys` with lastSnapshotId of each reference that is a name in snapshots, -1 for any other."""
    for i in range(starts.size):
        body, end = _frame(buf, starts[i])
        start, _ = _bytes_field(buf, body, end, INodeReference.name)
        last, _ = _number(buf, body, end, INodeReference.lastSnapshotId)
        keys[i] = last if start >= 0 else -1
