"""Kernels that walk delimited records, to find their ends and the places where sub-sections of a section can end."""

from __future__ import annotations

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.readers import read_diff_entry, read_directory_diff
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import next_field, octet, read_varint, record_span
from image_format.proto import fsimage_pb2 as pb

BY_RECORD, BY_CHILDREN, BY_DIFF_LIST = 0, 1, 2
"""Kinds of counted items: INODE records after the header, children of DirEntry records, or lists of SNAPSHOT_DIFF."""

DIFF_ENTRY = 0
FILE_DIFF: int = pb.DiffEntry.FILEDIFF
DIRECTORY_DIFF: int = pb.DiffEntry.DIRECTORYDIFF
CREATED_ENTRY = 3
"""Kinds of records in SNAPSHOT_DIFF."""

DIFF_STATE = 4
"""Size of the array that describes a position in SNAPSHOT_DIFF: type, diffs left, created entries left, inode id."""


@kernel
def last_boundary(buf, pos, limit):
    """Return the end of the last record that starts at or after `pos` and ends at or before `limit`.

    The first record is included even if it ends after `limit`.

    Returns:
        (position, damaged): if damaged, the record at the position has no valid length or exceeds the buffer.
    """
    size = buf.size
    start = pos
    while pos < size and (pos < limit or pos == start):
        _, stop = record_span(buf, pos)
        if stop < 0:
            return pos, True
        if stop > limit and pos > start:
            return pos, False
        pos = stop
    return pos, False


@kernel
def next_in_diffs(buf, pos, end, state):
    """Advance `state` by the SNAPSHOT_DIFF record in `buf[pos:end]`; return (its kind, damaged).

    `state` has `DIFF_STATE` numbers, all 0 at the start of the section. A list of diffs is complete if `state[1]` and
    `state[2]` are 0.
    """
    if state[2] > 0:
        state[2] -= 1
        return CREATED_ENTRY, False
    if state[1] > 0:
        state[1] -= 1
        if state[0] == FILE_DIFF:
            return FILE_DIFF, False
        _, _, created, status = read_directory_diff(buf, pos, end)
        state[2] = created
        return DIRECTORY_DIFF, status < 0 or created < 0
    kind, inode_id, diffs, status = read_diff_entry(buf, pos, end)
    state[0] = kind
    state[1] = diffs
    state[3] = inode_id
    return DIFF_ENTRY, status < 0 or diffs < 0 or kind < FILE_DIFF or kind > DIRECTORY_DIFF


@lean_kernel
def _children(buf, pos, end):
    """Return the number of children and refChildren in the body of a DirEntry; negative if the body is damaged."""
    found = 0
    while pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return pos
        if tag == DirEntry.children or tag == DirEntry.refChildren:
            for i in range(start, pos):
                found += octet(buf, i) < 0x80
        elif tag == DirEntry.children_unpacked or tag == DirEntry.refChildren_unpacked:
            found += 1
    return found


@kernel
def cut_records(buf, pos, mode, step, progress, state, cuts):
    """Walk the complete records of `buf` from `pos` and record where sub-sections end.

    Args:
        mode, step: kind of the counted items, such as `BY_RECORD`, and their number in one sub-section.
        progress: two numbers that persist between calls: the count since the last cut, and the number of records so
            far.
        state: position in SNAPSHOT_DIFF; see `next_in_diffs`.
        cuts: result: positions in `buf`.

    Returns:
        (number of cuts, position, damaged). The position is the start of the first incomplete record, or of the next
        record if `cuts` is full.
    """
    size = buf.size
    count = 0
    while pos < size and count < cuts.size:
        length, body = read_varint(buf, pos, size)
        if body < 0:
            return count, pos, size - pos >= 10
        if length < 0:
            return count, pos, True
        if length > size - body:
            return count, pos, False
        end = body + length
        weight = 1
        whole = True
        if mode == BY_CHILDREN:
            weight = _children(buf, body, end)
            if weight < 0:
                return count, pos, True
        elif mode == BY_DIFF_LIST:
            kind, damaged = next_in_diffs(buf, body, end, state)
            if damaged:
                return count, pos, True
            weight = 1 if kind == DIFF_ENTRY else 0
            whole = state[1] == 0 and state[2] == 0
        elif progress[1] == 0:
            weight = 0
        progress[0] += weight
        progress[1] += 1
        pos = end
        if whole and progress[0] >= step:
            cuts[count] = pos
            count += 1
            progress[0] = 0
    return count, pos, False
