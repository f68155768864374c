"""Kernels over SNAPSHOT_DIFF and INODE_REFERENCE, and over the chain of directories above an inode.

`scan_diffs` is the only walk over SNAPSHOT_DIFF. It fills a row for each entry and for each diff; the other kernels
visit these rows.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.inode import SYMLINK
from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import find_packed, find_slot, packed_at
from image_format.kernels.readers import (
    ALONE,
    read_created_name,
    read_diff_entry,
    read_directory_diff,
    read_inode,
    read_parent,
    read_reference,
)
from image_format.kernels.records import DIRECTORY_DIFF, FILE_DIFF
from image_format.kernels.scan import find_id
from image_format.kernels.tags import DirectoryDiff, DirEntry, INode, INodeDirectory, INodeFile
from image_format.kernels.wire import DELIMITED, next_field, read_varint, record_span

ENTRY_DTYPE = np.dtype([("owner", "i8"), ("offset", "i8"), ("kind", "u1")], align=True)
"""Entry of SNAPSHOT_DIFF: inode id, offset of the DiffEntry, and type of the DiffEntry."""
DIFF_DTYPE = np.dtype(
    [
        ("owner", "i8"),
        ("offset", "i8"),
        ("snapshot", "u4"),
        ("created", "u4"),  # number of names in the created list, which follow a DirectoryDiff
        ("kind", "u1"),  # of the entry
        ("root", "u1"),  # whether the diff belongs to the snapshot's root
    ],
    align=True,
)
"""Diff: inode id, offset of the FileDiff or DirectoryDiff, and its numbers; rows are in the order of the section."""


@kernel
def scan_diffs(buf, pos, entries, count, diffs, used):
    """Index SNAPSHOT_DIFF from the entry at `pos`; fill `entries` from row `count`, and `diffs` from row `used`.

    Returns:
        (entries filled, diffs filled, position, damaged): the position is after the last entry, or at the entry that is
        damaged or does not fit into the arrays.
    """
    while pos < buf.size and count < entries.size:
        start = pos
        body, pos = record_span(buf, start)
        kind, owner, number, status = read_diff_entry(buf, body, pos)
        if pos < 0 or status < 0 or number < 0 or kind < FILE_DIFF or kind > DIRECTORY_DIFF:
            return count, used, start, True
        row = used
        for _ in range(number):
            if row == diffs.size:
                return count, used, start, False
            offset = pos
            body, pos = record_span(buf, offset)
            snapshot, root, created, status = read_directory_diff(buf, body, pos)
            if pos < 0 or status < 0 or created < 0:
                return count, used, start, True
            if kind == DIRECTORY_DIFF:
                for _ in range(created):
                    _, pos = record_span(buf, pos)
                    if pos < 0:
                        return count, used, start, True
            diff = diffs[row]
            diff["owner"] = owner
            diff["offset"] = offset
            diff["snapshot"] = snapshot
            diff["created"] = created if kind == DIRECTORY_DIFF else 0
            diff["kind"] = kind
            diff["root"] = root != 0
            row += 1
        used = row
        entry = entries[count]
        entry["owner"] = owner
        entry["offset"] = start
        entry["kind"] = kind
        count += 1
    return count, used, pos, False


@kernel
def scan_references(buf, pos, referred, offsets, count):
    """Index the records of INODE_REFERENCE from `pos`; fill inode ids and offsets from row `count`.

    Returns:
        (rows filled, position, damaged).
    """
    while pos < buf.size and count < referred.size:
        start = pos
        body, pos = record_span(buf, start)
        inode_id, _, _, _, _, status = read_reference(buf, body, pos)
        if pos < 0 or status < 0:
            return count, start, True
        referred[count] = inode_id
        offsets[count] = start
        count += 1
    return count, pos, False


@kernel
def collect_parents(buf, ids, slots, referred, parents):
    """Fill `parents[slot]` with the slot of the directory that contains an inode as a direct or referenced child.

    Args:
        buf, ids, slots: INODE_DIR, and columns of `IndexArrays`.
        referred: inode id by reference number.
        parents: -1 everywhere; unchanged for inodes that are not a child of any directory.

    Returns:
        Whether every entry was valid, and every id and number known.
    """
    pos = 0
    while pos < buf.size:
        body, end = record_span(buf, pos)
        parent, status = read_parent(buf, body, end)
        parent_slot = find_slot(ids, slots, parent)
        if end < 0 or status < 0 or parent_slot < 0:
            return False
        pos = body
        while pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            field = tag | DELIMITED
            while (field == DirEntry.children or field == DirEntry.refChildren) and at < pos:
                child, at = read_varint(buf, at, pos)
                if at < 0:
                    return False
                if field == DirEntry.refChildren:
                    if child < 0 or child >= referred.size:
                        return False
                    child = referred[child]
                slot = find_slot(ids, slots, child)
                if slot < 0:
                    return False
                parents[slot] = parent_slot
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
    """Return an array by slot: whether an inode is `top` or is below it, according to `parents`."""
    unknown, outside, inside = np.int8(0), np.int8(1), np.int8(2)
    known = np.zeros(parents.size, np.int8)
    known[top] = inside
    for start in range(parents.size):
        slot = start
        # The inodes of a cycle of directories are not below `top`.
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
    """Return whether a DirectoryDiff's copy has a namespace or space quota, but no storage type quotas."""
    found = False
    while 0 <= pos < end:
        tag, _, at, pos = next_field(buf, pos, end)
        if tag != DirectoryDiff.snapshotCopy:
            continue
        types = False
        limited = False
        while 0 <= at < pos:
            tag, value, _, at = next_field(buf, at, pos)
            if tag == INodeDirectory.nsQuota or tag == INodeDirectory.dsQuota:
                limited = limited or value != -1
            types = types or tag == INodeDirectory.typeQuotas
        found = limited and not types and at >= 0
    return found and pos >= 0


@kernel
def copies_with_quota(buf, diffs):
    """Return an array by diff: whether `_has_quota_only` applies, and the diff does not belong to a snapshot's root."""
    found = np.zeros(diffs.size, np.bool_)
    for i in range(diffs.size):
        if diffs[i]["kind"] == DIRECTORY_DIFF and not diffs[i]["root"]:
            pos, end = record_span(buf, diffs[i]["offset"])
            found[i] = _has_quota_only(buf, pos, end)
    return found


@lean_kernel
def _is_link(buf, offset):
    """Return whether the INode record at `offset` is a symlink or is damaged."""
    pos, end = record_span(buf, offset)
    kind, _, status = read_inode(buf, pos, end)
    return status < 0 or kind == SYMLINK


@lean_kernel
def _is_known_copy(buf, pos, end):
    """Return whether an INodeDirectory is valid and has only known fields, regardless of their values."""
    while pos < end:
        tag, _, _, pos = next_field(buf, pos, end)
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
    return True


@lean_kernel
def _has_only_known(buf, pos, end, ids, slots, offsets, inodes):
    """Return whether a DirectoryDiff lists only plain inodes of the image as deleted, and has only known fields."""
    while 0 <= pos < end:
        tag, _, at, pos = next_field(buf, pos, end)
        if tag | DELIMITED == DirectoryDiff.deletedINode:
            while at < pos:
                inode_id, at = read_varint(buf, at, pos)
                slot = find_slot(ids, slots, inode_id) if at >= 0 else -1
                if slot < 0 or _is_link(inodes, packed_at(offsets, slot)):
                    return False
        elif tag == DirectoryDiff.snapshotCopy:
            if not _is_known_copy(buf, at, pos):
                return False
        elif (
            tag != DirectoryDiff.snapshotId
            and tag != DirectoryDiff.childrenSize
            and tag != DirectoryDiff.isSnapshotRoot
            and tag != DirectoryDiff.name
            and tag != DirectoryDiff.createdListSize
        ):
            return False
    return pos >= 0


@kernel
def older_diffs(buf, start, end, ids, slots, offsets, inodes, snapshots):
    """Return the offset of the diffs after the newest diff in a directory's entry, or -1 if they are not plain.

    Each plain diff belongs to an older snapshot than the previous diff. A plain diff, including its copy, has no field
    that this version does not know, and `_has_quota_only` does not apply to its copy. If a diff belongs to a snapshot's
    root, the snapshot exists. Deleted lists contain only files and directories of the image, and created lists only
    names.

    Args:
        start, end: bounds of the entry with its diffs.
        ids, slots, offsets, inodes: columns of `IndexArrays`, and INODE.
        snapshots: ascending ids of all snapshots.
    """
    body, pos = record_span(buf, start)
    _, _, diffs, _ = read_diff_entry(buf, body, pos)
    found = -1
    last = np.int64(0)
    for number in range(diffs):
        body, stop = record_span(buf, pos)
        snapshot, root, created, status = read_directory_diff(buf, body, stop)
        if stop < 0 or status < 0:
            return -1
        if number > 0 and (
            snapshot >= last
            or (root != 0 and find_id(snapshots, snapshot) < 0)
            or (root == 0 and _has_quota_only(buf, body, stop))
            or not _has_only_known(buf, body, stop, ids, slots, offsets, inodes)
        ):
            return -1
        pos = stop
        for _ in range(created):
            body, pos = record_span(buf, pos)
            name, _, status = read_created_name(buf, body, pos)
            if pos < 0 or (number > 0 and (status != ALONE or name < 0)):
                return -1
        if number == 0:
            found = pos
        last = snapshot
    return found if pos == end and diffs > 1 else -1


@kernel
def directory_holders(buf, holders):
    """Fill `holders[number]` with the id of the directory whose children include a reference."""
    pos = 0
    while pos < buf.size:
        body, end = record_span(buf, pos)
        parent, status = read_parent(buf, body, end)
        if end < 0 or status < 0:
            return False
        pos = body
        while pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            while tag | DELIMITED == DirEntry.refChildren and at < pos:
                reference, at = read_varint(buf, at, pos)
                if at < 0 or reference < 0 or reference >= holders.size:
                    return False
                holders[reference] = parent
    return True


@kernel
def diff_holders(buf, diffs, holders, snapshots):
    """Fill `holders[number]` with the negative id of the inode whose diffs list a reference as deleted.

    `snapshots[number]` receives the snapshot id of that diff. Return whether all lists are valid and all numbers known.
    """
    for i in range(diffs.size):
        pos, end = record_span(buf, diffs[i]["offset"])
        while diffs[i]["kind"] == DIRECTORY_DIFF and pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            while tag | DELIMITED == DirectoryDiff.deletedINodeRef and at < pos:
                reference, at = read_varint(buf, at, pos)
                if at < 0 or reference < 0 or reference >= holders.size:
                    return False
                holders[reference] = -diffs[i]["owner"]
                snapshots[reference] = diffs[i]["snapshot"]
    return True


@kernel
def deleted_by(buf, diffs, wanted, found):
    """Fill `found[i]` with the id of the last inode whose diffs list number `i` of `wanted` as deleted.

    Args:
        wanted: ascending, packed inode ids.

    Returns:
        Whether all lists are valid.
    """
    for i in range(diffs.size):
        pos, end = record_span(buf, diffs[i]["offset"])
        while diffs[i]["kind"] == DIRECTORY_DIFF and pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            while tag | DELIMITED == DirectoryDiff.deletedINode and at < pos:
                inode_id, at = read_varint(buf, at, pos)
                if at < 0:
                    return False
                place = find_packed(wanted, inode_id)
                if place >= 0:
                    found[place] = diffs[i]["owner"]
    return True


@lean_kernel
def _has_uc(buf, pos, end):
    """Return whether an INodeFile has fileUC."""
    while 0 <= pos < end:
        tag, _, _, pos = next_field(buf, pos, end)
        if tag == INodeFile.fileUC:
            return pos >= 0
    return False


@lean_kernel
def is_open_file(buf, offset):
    """Return whether the INode record at `offset` is a file under construction."""
    found = False
    pos, end = record_span(buf, offset)
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if tag == INode.file:
            found = _has_uc(buf, start, pos)
    return found


@kernel
def open_files(buf, offsets):
    """Return the result of `is_open_file` for the record at each of the packed `offsets`."""
    found = np.zeros(offsets.low.size, np.bool_)
    for i in range(found.size):
        found[i] = is_open_file(buf, packed_at(offsets, i))
    return found
