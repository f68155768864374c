"""Kernels that convert the records of INODE, SNAPSHOT and SNAPSHOT_DIFF in place; see `attributes`."""

from __future__ import annotations

from image_format.kernels.attributes import (
    DAMAGED,
    DIFF_BLOCKS,
    OK,
    convert_directory,
    convert_file,
    convert_inode,
    length_delimited,
    note,
)
from image_format.kernels.jit import kernel
from image_format.kernels.records import DIRECTORY_DIFF, FILE_DIFF, next_in_diffs
from image_format.kernels.tags import DirectoryDiff, FileDiff, Snapshot
from image_format.kernels.wire import read_varint, skip_field


@kernel
def convert_inodes(buf, pos, users, groups, xattrs, special, found):
    """Walk the INode records from `pos` to the end of `buf`.

    Args:
        buf: whole records, writable.
        users, groups, xattrs: the new serial by the old one, 0 where the old table has none; empty to change none.
        special: packed xattr names of the erasure coding policy, of snapshots marked as deleted and of the storage
            policy; -1 where the string table lacks one.
        found: `FINDINGS` rows of (count, first inode id).

    Returns:
        (position, fault): fault 0 at the end; 1 for the damaged record at the position, 2 for one with a serial
        that the string table does not have.
    """
    while pos < buf.size:
        start = pos
        pos, end = length_delimited(buf, pos, buf.size)
        if pos < 0:
            return start, DAMAGED
        fault = convert_inode(buf, pos, end, users, groups, xattrs, special, found)
        if fault:
            return start, fault
        pos = end
    return pos, OK


@kernel
def convert_snapshots(buf, pos, users, groups, xattrs, special, found):
    """`convert_inodes` for the Snapshot records of SNAPSHOT, behind its header."""
    while pos < buf.size:
        record = pos
        pos, end = length_delimited(buf, pos, buf.size)
        if pos < 0:
            return record, DAMAGED
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            start = pos
            if pos >= 0:
                pos = skip_field(buf, pos, end, tag)
            if pos < 0:
                return record, DAMAGED
            if tag == Snapshot.root:
                start, stop = length_delimited(buf, start, end)
                fault = convert_inode(buf, start, stop, users, groups, xattrs, special, found)
                if fault:
                    return record, fault
    return pos, OK


@kernel
def convert_diffs(buf, pos, users, groups, xattrs, special, found, state):
    """`convert_inodes` for the records of SNAPSHOT_DIFF; `state` as in `next_in_diffs`."""
    while pos < buf.size:
        record = pos
        pos, end = length_delimited(buf, pos, buf.size)
        if pos < 0:
            return record, DAMAGED
        kind, damaged = next_in_diffs(buf, pos, end, state)
        if damaged:
            return record, DAMAGED
        copy = FileDiff.snapshotCopy if kind == FILE_DIFF else DirectoryDiff.snapshotCopy
        holds_copy = kind in (FILE_DIFF, DIRECTORY_DIFF)
        while pos < end and holds_copy:
            tag, pos = read_varint(buf, pos, end)
            start = pos
            if pos >= 0:
                pos = skip_field(buf, pos, end, tag)
            if pos < 0:
                return record, DAMAGED
            fault = OK
            if tag == copy:
                start, stop = length_delimited(buf, start, end)
                if kind == FILE_DIFF:
                    fault = convert_file(buf, start, stop, users, groups, xattrs, special, state[3], found)
                else:
                    fault = convert_directory(buf, start, stop, users, groups, xattrs, special, state[3], found)
            elif tag == FileDiff.blocks and kind == FILE_DIFF:
                note(found, DIFF_BLOCKS, state[3])
            if fault:
                return record, fault
        pos = end
    return pos, OK
