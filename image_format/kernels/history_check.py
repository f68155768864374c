"""Checks in one pass that the lists in SNAPSHOT_DIFF lead to inodes, references and names of the image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import Columns, find_slot, packed_at
from image_format.kernels.readers import ABSENT, read_created_name, read_reference
from image_format.kernels.records import DIRECTORY_DIFF
from image_format.kernels.scan import (
    DAMAGED,
    collect_children,
    compare_names,
    count_children,
    find_id,
    locate_name,
    name_span,
)
from image_format.kernels.tags import DirectoryDiff
from image_format.kernels.wire import DELIMITED, next_field, octet, read_varint, record_span

NO_SNAPSHOT = -1
"""Key of a DstReference."""

_EMPTY = 0
_UINT32 = (1 << 32) - 1

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]


class Directories(NamedTuple):
    """INODE_DIR, the ascending ids of the directories with an entry, and the offset of each entry."""

    buf: Bytes
    ids: Ids
    offsets: Ids


class References(NamedTuple):
    """INODE_REFERENCE, and the offset and inode id of each reference by its number."""

    buf: Bytes
    offsets: Ids
    referred: Ids


class Inodes(NamedTuple):
    """INODE, and the columns of `IndexArrays`."""

    buf: Bytes
    ids: Columns
    slots: npt.NDArray[np.uint32]
    offsets: Columns


@lean_kernel
def _hashed(buf, start, size):
    """Return 62 bits of FNV-1a of a name, never 0."""
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
def _put_reference(table, number, references, inodes):
    """Add the name of a reference to a table; return whether the reference leads to an inode.

    The name of a DstReference is its inode's name.
    """
    if number < 0 or number >= references.offsets.size:
        return False
    slot = find_slot(inodes.ids, inodes.slots, references.referred[number])
    if slot < 0:
        return False
    pos, end = record_span(references.buf, references.offsets[number])
    _, start, size, present, _, _ = read_reference(references.buf, pos, end)
    if present == ABSENT and start >= 0:
        _put(table, _hashed(references.buf, start, size))
    else:
        start, size = name_span(inodes.buf, packed_at(inodes.offsets, slot))
        _put(table, _hashed(inodes.buf, start, size))
    return True


@lean_kernel
def _deleted_count(buf, offset):
    """Return the number of inodes and references that the diff at `offset` lists as deleted; -1 if it is damaged."""
    count = np.int64(0)
    pos, end = record_span(buf, offset)
    while 0 <= pos < end:
        tag, _, at, pos = next_field(buf, pos, end)
        field = tag | DELIMITED
        while (field == DirectoryDiff.deletedINode or field == DirectoryDiff.deletedINodeRef) and at < pos:
            _, at = read_varint(buf, at, pos)
            if at < 0:
                return np.int64(-1)
            count += 1
    return count if pos >= 0 else np.int64(-1)


@lean_kernel
def _created_fit(buf, diff, table, children, inodes):
    """Return whether the created names of a diff are in order, and each name is in `table` or belongs to a child."""
    _, pos = record_span(buf, diff["offset"])
    last = np.int64(-1)
    last_size = np.int64(0)
    for _ in range(diff["created"]):
        body, pos = record_span(buf, pos)
        start, size, _ = read_created_name(buf, body, pos)
        if start < 0 or (last >= 0 and compare_names(buf, last, last_size, buf, start, size) >= 0):
            return False
        last = start
        last_size = size
        if not _has(table, _hashed(buf, start, size)):
            where, hit = locate_name(children, inodes.ids, inodes.slots, inodes.offsets, inodes.buf, buf, start, size)
            if where == DAMAGED or not hit:
                return False
    return True


@lean_kernel
def _deleted_fit(buf, diff, table, references, inodes, deleted_ids, total):
    """Add a diff's deleted names to `table`; return (whether all are in order and lead to inodes, new `total`)."""
    last = np.int64(-1)
    last_size = np.int64(0)
    pos, end = record_span(buf, diff["offset"])
    while pos < end:
        tag, _, at, pos = next_field(buf, pos, end)
        field = tag | DELIMITED
        while field == DirectoryDiff.deletedINodeRef and at < pos:
            number, at = read_varint(buf, at, pos)
            if not _put_reference(table, number, references, inodes):
                return False, total
        while field == DirectoryDiff.deletedINode and at < pos:
            inode_id, at = read_varint(buf, at, pos)
            slot = find_slot(inodes.ids, inodes.slots, inode_id)
            if slot < 0:
                return False, total
            start, size = name_span(inodes.buf, packed_at(inodes.offsets, slot))
            if last >= 0 and compare_names(inodes.buf, last, last_size, inodes.buf, start, size) >= 0:
                return False, total
            last = start
            last_size = size
            _put(table, _hashed(inodes.buf, start, size))
            if total < deleted_ids.size:
                deleted_ids[total] = inode_id
            total += 1
    return True, total


@kernel
def first_misfit(buf, diffs, directories, references, inodes, deleted_ids):
    """Return the id of the first directory with dangling or unordered names in its diffs, or 0.

    The image must contain each deleted inode and each reference. A created name must be a child's name, or a name that
    a later diff lists as deleted. Deleted names are compared by hashes of 62 bits.

    Args:
        buf, diffs: SNAPSHOT_DIFF, and the rows of `history.DIFF_DTYPE`.
        directories, references, inodes: the sections to which diffs refer.
        deleted_ids: result: the inode ids in deleted lists, as many as fit.

    Returns:
        (id, number of deleted inode ids).
    """
    total = 0
    behind = np.int64(0)
    while behind < diffs.size:
        first = behind
        owner = diffs[first]["owner"]
        created = np.int64(0)
        deleted = np.int64(0)
        while behind < diffs.size and diffs[behind]["owner"] == owner:
            if diffs[behind]["kind"] == DIRECTORY_DIFF:
                created += diffs[behind]["created"]
                count = _deleted_count(buf, diffs[behind]["offset"])
                if count < 0:
                    return owner, total
                deleted += count
            behind += 1
        if created == 0 and deleted == 0:
            continue
        at = find_id(directories.ids, owner) if created else -1
        plain = 0
        held = 0
        if at >= 0:
            plain, held = count_children(directories.buf, directories.offsets[at])
            if plain < 0:
                return owner, total
        children = np.empty(plain, np.int64)
        numbers = np.empty(held, np.int64)
        if at >= 0:
            _, damaged = collect_children(directories.buf, directories.offsets[at], children, numbers)
            if damaged:
                return owner, total
        size = 8
        while size < 2 * (deleted + held):
            size *= 2
        table = np.zeros(size, np.int64)
        for number in numbers:
            if not _put_reference(table, number, references, inodes):
                return owner, total
        for row in range(first, behind):
            if not _created_fit(buf, diffs[row], table, children, inodes):
                return owner, total
            fits, total = _deleted_fit(buf, diffs[row], table, references, inodes, deleted_ids, total)
            if not fits:
                return owner, total
    return 0, total


@kernel
def reference_keys(buf, starts, keys):
    """Fill `keys` with lastSnapshotId of each name in snapshots, or `NO_SNAPSHOT` for a record with dstSnapshotId."""
    for i in range(starts.size):
        pos, end = record_span(buf, starts[i])
        _, _, _, present, last, _ = read_reference(buf, pos, end)
        keys[i] = last & _UINT32 if present == ABSENT else NO_SNAPSHOT
