"""Kernels over SNAPSHOT_DIFF and INODE_REFERENCE, and the way from an inode up to the root."""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import SYMLINK
from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import find_packed, find_slot, packed_at
from image_format.kernels.records import FILE_DIFF
from image_format.kernels.scan import find_id
from image_format.kernels.tags import (
    CreatedListEntry,
    DiffEntry,
    DirectoryDiff,
    DirEntry,
    INode,
    INodeDirectory,
    INodeFile,
    INodeReference,
)
from image_format.kernels.wire import DELIMITED, VARINT, WIRE_TYPE, read_varint, skip_field


@lean_kernel
def _frame(buf, pos):
    """(first byte, end) of the delimited message at `pos`; the end is negative where the bytes are damaged."""
    length, start = read_varint(buf, pos, buf.size)
    if start < 0 or length < 0 or length > buf.size - start:
        return 0, -1
    return start, start + length


@lean_kernel
def _number(buf, pos, end, wanted):
    """(value of the varint field with tag `wanted`, 0 without it; whether the message is whole)."""
    value = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos >= 0:
            if tag == wanted:
                value, pos = read_varint(buf, pos, end)
            else:
                pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return 0, False
    return value, True


@kernel
def scan_diffs(buf, pos, owners, offsets, count):
    """Walk the DiffEntry records of SNAPSHOT_DIFF, each with the diffs behind it; as `scan_directories`.

    Returns (rows filled, position, damaged).
    """
    while pos < buf.size:
        if count == owners.size:
            return count, pos, False
        start = pos
        body, end = _frame(buf, pos)
        if end < 0:
            return count, start, True
        kind, whole = _number(buf, body, end, DiffEntry.type)
        owner, whole2 = _number(buf, body, end, DiffEntry.inodeId)
        diffs, whole3 = _number(buf, body, end, DiffEntry.numOfDiff)
        if not (whole and whole2 and whole3) or owner <= 0 or diffs < 0:
            return count, start, True
        pos = end
        for _ in range(diffs):
            body, end = _frame(buf, pos)
            if end < 0:
                return count, start, True
            pos = end
            created, whole = _number(buf, body, end, DirectoryDiff.createdListSize)
            if not whole:
                return count, start, True
            if kind != FILE_DIFF:
                for _ in range(created):
                    _, pos = _frame(buf, pos)
                    if pos < 0:
                        return count, start, True
        owners[count] = owner
        offsets[count] = start
        count += 1
    return count, pos, False


@kernel
def scan_references(buf, pos, referred, offsets, count):
    """`scan_diffs` for the records of INODE_REFERENCE; the ids are those of the inodes referred to."""
    while pos < buf.size:
        if count == referred.size:
            return count, pos, False
        start = pos
        body, end = _frame(buf, pos)
        if end < 0:
            return count, start, True
        inode_id, whole = _number(buf, body, end, INodeReference.referredId)
        if not whole:
            return count, start, True
        pos = end
        referred[count] = inode_id
        offsets[count] = start
        count += 1
    return count, pos, False


@lean_kernel
def _field(buf, pos, end):
    """(tag of the field as if packed, first byte of its varints, end of the field).

    A field of neither form gives 0, one that is damaged -1.
    """
    tag, pos = read_varint(buf, pos, end)
    if pos < 0:
        return -1, 0, 0
    stop = skip_field(buf, pos, end, tag)
    if stop < 0:
        return -1, 0, 0
    if tag & WIRE_TYPE == DELIMITED:
        _, pos = read_varint(buf, pos, end)
    elif tag & WIRE_TYPE != VARINT:
        return 0, pos, stop
    return tag | DELIMITED, pos, stop


@kernel
def collect_parents(buf, ids, slots, referred, parents):
    """Fill `parents[slot]` with the slot of the directory that holds an inode now, plainly or by reference.

    Args:
        buf: INODE_DIR; ids, slots: of `IndexArrays`.
        referred: inode id by reference number.
        parents: -1 everywhere; stays so for inodes that no directory holds.

    Returns:
        Whether every entry was whole, and every id and number known.
    """
    pos = 0
    while pos < buf.size:
        body, end = _frame(buf, pos)
        if end < 0:
            return False
        parent, _ = _number(buf, body, end, DirEntry.parent)
        parent_slot = find_slot(ids, slots, parent)
        if parent_slot < 0:
            return False
        pos = body
        while pos < end:
            tag, value_pos, stop = _field(buf, pos, end)
            if tag < 0:
                return False
            if tag == DirEntry.children or tag == DirEntry.refChildren:
                while value_pos < stop:
                    child, value_pos = read_varint(buf, value_pos, stop)
                    if value_pos < 0:
                        return False
                    if tag == DirEntry.refChildren:
                        if child < 0 or child >= referred.size:
                            return False
                        child = referred[child]
                    slot = find_slot(ids, slots, child)
                    if slot < 0:
                        return False
                    parents[slot] = parent_slot
            pos = stop
        pos = end
    return True


@kernel
def mark_upwards(parents, starts, marks):
    """Mark the slots `starts` and every directory above them, as far as `parents` leads."""
    for i in range(starts.size):
        slot = starts[i]
        while slot >= 0 and not marks[slot]:
            marks[slot] = True
            slot = parents[slot]


@kernel
def mark_below(parents, top):
    """Which slots are `top` or lie below it, as `parents` says."""
    unknown, outside, inside = np.int8(0), np.int8(1), np.int8(2)
    known = np.zeros(parents.size, np.int8)
    known[top] = inside
    for start in range(parents.size):
        slot = start
        # A way that leads back to itself is outside.
        while slot >= 0 and known[slot] == unknown:
            known[slot] = outside
            slot = parents[slot]
        if slot >= 0 and known[slot] == inside:
            slot = start
            while known[slot] != inside:
                known[slot] = inside
                slot = parents[slot]
    return known == inside


@lean_kernel
def _has_quota_only(buf, pos, end):
    """Whether the DirectoryDiff has a copy with a namespace or space quota, but without storage type quotas."""
    found = False
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return False
        stop = skip_field(buf, pos, end, tag)
        if stop < 0:
            return False
        if tag == DirectoryDiff.snapshotCopy:
            _, pos = read_varint(buf, pos, end)
            types = False
            limited = False
            while 0 <= pos < stop:
                tag, pos = read_varint(buf, pos, stop)
                if pos < 0:
                    return False
                if tag == INodeDirectory.nsQuota or tag == INodeDirectory.dsQuota:
                    quota, _ = read_varint(buf, pos, stop)
                    limited = limited or quota != -1
                types = types or tag == INodeDirectory.typeQuotas
                pos = skip_field(buf, pos, stop, tag)
            found = limited and not types
        pos = stop
    return found


@kernel
def copies_with_quota(buf, offsets):
    """Whether each entry of SNAPSHOT_DIFF at `offsets` has a directory diff as `_has_quota_only` says."""
    found = np.zeros(offsets.size, np.bool_)
    for i in range(offsets.size):
        body, end = _frame(buf, offsets[i])
        kind, _ = _number(buf, body, end, DiffEntry.type)
        diffs, _ = _number(buf, body, end, DiffEntry.numOfDiff)
        pos = end
        if kind == FILE_DIFF:
            continue
        for _ in range(diffs):
            body, end = _frame(buf, pos)
            if end < 0:
                break
            created, _ = _number(buf, body, end, DirectoryDiff.createdListSize)
            root, _ = _number(buf, body, end, DirectoryDiff.isSnapshotRoot)
            if root == 0 and _has_quota_only(buf, body, end):
                found[i] = True
            pos = end
            for _ in range(created):
                _, pos = _frame(buf, pos)
                if pos < 0:
                    break
            if pos < 0:
                break
    return found


@lean_kernel
def _is_link(buf, offset):
    """Whether the INode record at `offset` is a symlink."""
    body, end = _frame(buf, offset)
    kind, whole = _number(buf, body, end, INode.type)
    return not whole or kind == SYMLINK


@lean_kernel
def _is_known_copy(buf, pos, end):
    """Whether an INodeDirectory is whole, and this version knows its fields; what those hold may be anything."""
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0 or (
            tag != INodeDirectory.modificationTime
            and tag != INodeDirectory.nsQuota
            and tag != INodeDirectory.dsQuota
            and tag != INodeDirectory.permission
            and tag != INodeDirectory.acl
            and tag != INodeDirectory.xAttrs
            and tag != INodeDirectory.typeQuotas
        ):
            return False
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return False
    return True


@lean_kernel
def _has_only_known(buf, pos, end, ids, slots, offsets, inodes, snapshots):
    """Whether a DirectoryDiff has nothing but plain inodes of the image as deleted, and a root's has its snapshot."""
    snapshot = np.int64(0)
    root = np.int64(0)
    while pos < end:
        tag, value_pos, stop = _field(buf, pos, end)
        if tag == DirectoryDiff.deletedINode:
            while value_pos < stop:
                inode_id, value_pos = read_varint(buf, value_pos, stop)
                slot = find_slot(ids, slots, inode_id) if value_pos >= 0 else -1
                if slot < 0 or _is_link(inodes, packed_at(offsets, slot)):
                    return False
        elif tag == DirectoryDiff.isSnapshotRoot | DELIMITED:
            root, _ = read_varint(buf, value_pos, stop)
        elif tag == DirectoryDiff.snapshotId | DELIMITED:
            snapshot, _ = read_varint(buf, value_pos, stop)
        elif tag == DirectoryDiff.snapshotCopy:
            if not _is_known_copy(buf, value_pos, stop):
                return False
        elif (
            tag != DirectoryDiff.childrenSize | DELIMITED
            and tag != DirectoryDiff.createdListSize | DELIMITED
            and tag != DirectoryDiff.name
        ):
            return False
        pos = stop
    return root == 0 or find_id(snapshots, snapshot) >= 0


@lean_kernel
def _is_name_alone(buf, pos, end):
    """Whether a CreatedListEntry is a name and nothing else."""
    tag, following = read_varint(buf, pos, end)
    return following >= 0 and tag == CreatedListEntry.name and skip_field(buf, following, end, tag) == end


@kernel
def older_diffs(buf, start, end, ids, slots, offsets, inodes, snapshots):
    """Where the diffs behind the newest one begin in a directory's entry, if they are plain; else -1.

    They are plain where each is of an older snapshot than the one before it, none has a copy as `copies_with_quota`
    looks for, a field that this version does not know, its copy included, or is of the root of a snapshot that there is
    not, and deleted lists have nothing but files and directories that the image has.

    Args:
        start, end: of the entry, with the diffs behind it.
        ids, slots, offsets: of `IndexArrays`; inodes: INODE.
        snapshots: ids of all snapshots, ascending.
    """
    body, pos = _frame(buf, start)
    diffs, _ = _number(buf, body, pos, DiffEntry.numOfDiff)
    found = -1
    last = 0
    for number in range(diffs):
        body, stop = _frame(buf, pos)
        if stop < 0:
            return -1
        snapshot, _ = _number(buf, body, stop, DirectoryDiff.snapshotId)
        created, _ = _number(buf, body, stop, DirectoryDiff.createdListSize)
        root, _ = _number(buf, body, stop, DirectoryDiff.isSnapshotRoot)
        plain = number == 0 or (
            snapshot < last
            and _has_only_known(buf, body, stop, ids, slots, offsets, inodes, snapshots)
            and (root != 0 or not _has_quota_only(buf, body, stop))
        )
        pos = stop
        for _ in range(created):
            body, stop = _frame(buf, pos)
            if stop < 0 or (number > 0 and not _is_name_alone(buf, body, stop)):
                return -1
            pos = stop
        if not plain:
            return -1
        if number == 0:
            found = pos
        last = snapshot
    return found if pos == end and diffs > 1 else -1


@kernel
def diffs_by_snapshot(buf, offsets, entries, snapshots):
    """Fill (index in `offsets`, snapshot id) for each diff of the entries there, with id -1 for an entry without diffs.

    Returns:
        How many there are; only as many as there is room for are filled in.
    """
    count = 0
    for i in range(offsets.size):
        body, end = _frame(buf, offsets[i])
        kind, _ = _number(buf, body, end, DiffEntry.type)
        diffs, _ = _number(buf, body, end, DiffEntry.numOfDiff)
        pos = end
        for number in range(max(diffs, 1)):
            snapshot = -1
            if number < diffs:
                body, pos = _frame(buf, pos)
                snapshot, _ = _number(buf, body, pos, DirectoryDiff.snapshotId)
                created, _ = _number(buf, body, pos, DirectoryDiff.createdListSize)
                if pos < 0:
                    return count
                for _ in range(created if kind != FILE_DIFF else 0):
                    _, pos = _frame(buf, pos)
                    if pos < 0:
                        return count
            if count < entries.size:
                entries[count] = i
                snapshots[count] = snapshot
            count += 1
    return count


@kernel
def directory_holders(buf, holders):
    """Fill `holders[number]` with the id of the directory that has this reference among its children."""
    pos = 0
    while pos < buf.size:
        body, end = _frame(buf, pos)
        if end < 0:
            return False
        parent, _ = _number(buf, body, end, DirEntry.parent)
        pos = body
        while pos < end:
            tag, value_pos, stop = _field(buf, pos, end)
            if tag < 0:
                return False
            while tag == DirEntry.refChildren and value_pos < stop:
                reference, value_pos = read_varint(buf, value_pos, stop)
                if value_pos < 0 or reference < 0 or reference >= holders.size:
                    return False
                holders[reference] = parent
            pos = stop
        pos = end
    return True


@kernel
def diff_holders(buf, owners, offsets, holders, snapshots):
    """Fill `holders[number]` with the negative id of the inode in whose diffs this reference is deleted.

    `snapshots[number]` becomes the id of that diff's snapshot. `owners` and `offsets` are what `scan_diffs` filled.
    """
    for i in range(owners.size):
        pos = offsets[i]
        body, end = _frame(buf, pos)
        kind, _ = _number(buf, body, end, DiffEntry.type)
        diffs, _ = _number(buf, body, end, DiffEntry.numOfDiff)
        pos = end
        if kind == FILE_DIFF:
            continue
        for _ in range(diffs):
            body, end = _frame(buf, pos)
            if end < 0:
                return False
            created, _ = _number(buf, body, end, DirectoryDiff.createdListSize)
            snapshot, _ = _number(buf, body, end, DirectoryDiff.snapshotId)
            pos = body
            while pos < end:
                tag, value_pos, stop = _field(buf, pos, end)
                if tag < 0:
                    return False
                while tag == DirectoryDiff.deletedINodeRef and value_pos < stop:
                    reference, value_pos = read_varint(buf, value_pos, stop)
                    if value_pos < 0 or reference < 0 or reference >= holders.size:
                        return False
                    holders[reference] = -owners[i]
                    snapshots[reference] = snapshot
                pos = stop
            pos = end
            for _ in range(created):
                _, pos = _frame(buf, pos)
                if pos < 0:
                    return False
    return True


@kernel
def deleted_by(buf, owners, offsets, wanted, found):
    """Fill `found[i]` with the id of an inode that has number `i` of `wanted` in a deleted list of its diffs.

    Args:
        wanted: inode ids, ascending and packed.
    """
    for i in range(owners.size):
        body, end = _frame(buf, offsets[i])
        kind, _ = _number(buf, body, end, DiffEntry.type)
        diffs, _ = _number(buf, body, end, DiffEntry.numOfDiff)
        pos = end
        if kind == FILE_DIFF:
            continue
        for _ in range(diffs):
            body, end = _frame(buf, pos)
            if end < 0:
                return False
            created, _ = _number(buf, body, end, DirectoryDiff.createdListSize)
            pos = body
            while pos < end:
                tag, value_pos, stop = _field(buf, pos, end)
                if tag < 0:
                    return False
                while tag == DirectoryDiff.deletedINode and value_pos < stop:
                    inode_id, value_pos = read_varint(buf, value_pos, stop)
                    if value_pos < 0:
                        return False
                    at = find_packed(wanted, inode_id)
                    if at >= 0:
                        found[at] = owners[i]
                pos = stop
            pos = end
            for _ in range(created):
                _, pos = _frame(buf, pos)
                if pos < 0:
                    return False
    return True


@lean_kernel
def _has_uc(buf, pos, end):
    """Whether the INodeFile has fileUC."""
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0 or tag == INodeFile.fileUC:
            return pos >= 0
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return False
    return False


@lean_kernel
def is_open_file(buf, offset):
    """Whether the INode record at `offset` is a file under construction."""
    found = False
    pos, end = _frame(buf, offset)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            break
        stop = skip_field(buf, pos, end, tag)
        if stop < 0:
            break
        if tag == INode.file:
            _, pos = read_varint(buf, pos, end)
            found = _has_uc(buf, pos, stop)
        pos = stop
    return found


@kernel
def open_files(buf, offsets):
    """`is_open_file` for the record at each of the packed `offsets`."""
    found = np.zeros(offsets.low.size, np.bool_)
    for i in range(found.size):
        found[i] = is_open_file(buf, packed_at(offsets, i))
    return found
