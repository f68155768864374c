"""Kernels that convert the records of INODE, SNAPSHOT and SNAPSHOT_DIFF in place; see `attributes`."""

from __future__ import annotations

from image_format.kernels.attributes import (
    DAMAGED,
    DIFF_BLOCKS,
    OK,
    convert_directory,
    convert_file,
    convert_inode,
    note,
)
from image_format.kernels.jit import kernel
from image_format.kernels.records import DIRECTORY_DIFF, FILE_DIFF, next_in_diffs
from image_format.kernels.tags import DirectoryDiff, FileDiff, Snapshot
from image_format.kernels.wire import next_field, record_span


@kernel
def convert_inodes(buf, pos, rules):
    """Convert the INode records from `pos` to the end of `buf`, which is writable and contains complete records.

    Returns:
        (position, fault): `OK` at the end, `DAMAGED` for a damaged record at the position, or `NO_STRING` for a record
        with a serial that the string table lacks.
    """
    while pos < buf.size:
        start = pos
        body, pos = record_span(buf, start)
        fault = convert_inode(buf, body, pos, rules) if body >= 0 else DAMAGED
        if fault:
            return start, fault
    return pos, OK


@kernel
def convert_snapshots(buf, pos, rules):
    """Convert the Snapshot records after the header of SNAPSHOT, as `convert_inodes` converts inodes."""
    while pos < buf.size:
        record = pos
        pos, end = record_span(buf, record)
        if pos < 0:
            return record, DAMAGED
        while pos < end:
            tag, _, start, pos = next_field(buf, pos, end)
            if pos < 0:
                return record, DAMAGED
            if tag == Snapshot.root:
                fault = convert_inode(buf, start, pos, rules)
                if fault:
                    return record, fault
    return pos, OK


@kernel
def convert_diffs(buf, pos, rules, state):
    """Convert the records of SNAPSHOT_DIFF, as `convert_inodes` does; `next_in_diffs` describes `state`."""
    while pos < buf.size:
        record = pos
        pos, end = record_span(buf, record)
        if pos < 0:
            return record, DAMAGED
        kind, damaged = next_in_diffs(buf, pos, end, state)
        if damaged:
            return record, DAMAGED
        copy = FileDiff.snapshotCopy if kind == FILE_DIFF else DirectoryDiff.snapshotCopy
        while pos < end and kind in (FILE_DIFF, DIRECTORY_DIFF):
            tag, _, start, pos = next_field(buf, pos, end)
            if pos < 0:
                return record, DAMAGED
            fault = OK
            if tag == copy:
                if kind == FILE_DIFF:
                    fault = convert_file(buf, start, pos, rules, state[3])
                else:
                    fault = convert_directory(buf, start, pos, rules, state[3])
            elif tag == FileDiff.blocks and kind == FILE_DIFF:
                note(rules.found, DIFF_BLOCKS, state[3])
            if fault:
                return record, fault
        pos = end
    return pos, OK
