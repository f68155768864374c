"""Kernels that walk delimited records: where they end, and where a section can be cut into sub-sections."""

from __future__ import annotations

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.tags import DiffEntry, DirectoryDiff, DirEntry
from image_format.kernels.wire import VARINT_ERROR, read_varint, skip_field
from image_format.proto import fsimage_pb2 as pb

BY_RECORD, BY_CHILDREN, BY_DIFF_LIST = 0, 1, 2
"""What counts: INODE records behind the header, children of DirEntry records, lists of SNAPSHOT_DIFF."""

DIFF_ENTRY = 0
FILE_DIFF: int = pb.DiffEntry.FILEDIFF
DIRECTORY_DIFF: int = pb.DiffEntry.DIRECTORYDIFF
CREATED_ENTRY = 3
"""The records of SNAPSHOT_DIFF."""

DIFF_STATE = 4
"""Size of the array that remembers the place in SNAPSHOT_DIFF: type, diffs left, created entries left, inode id."""


@kernel
def last_boundary(buf, pos, limit):
    """End of the last record that starts at or behind `pos` and ends at or before `limit`.

    A first record that is longer is taken whole. Returns (position, damaged): where damaged, a record starts at
    the position whose length is no varint or does not fit the buffer.
    """
    size = buf.size
    start = pos
    while pos < size and (pos < limit or pos == start):
        length, body = read_varint(buf, pos, size)
        if body < 0 or length < 0 or length > size - body:
            return pos, True
        if body + length > limit and pos > start:
            return pos, False
        pos = body + length
    return pos, False


@lean_kernel
def _varint_field(buf, pos, end, wanted, default):
    """Value of the last field with the tag `wanted` in a message, as (value, damaged)."""
    value = default
    damaged = False
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos >= 0 and tag == wanted:
            value, pos = read_varint(buf, pos, end)
        elif pos >= 0:
            pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            damaged = True
            pos = end
    return value, damaged


@kernel
def next_in_diffs(buf, pos, end, state):
    """Take note of the SNAPSHOT_DIFF record in `pos`..`end`; returns (its kind, damaged).

    `state` has `DIFF_STATE` numbers, zeros at the section's start; a list is complete where its second and third are 0.
    """
    if state[2] > 0:
        state[2] -= 1
        return CREATED_ENTRY, False
    if state[1] > 0:
        state[1] -= 1
        if state[0] == FILE_DIFF:
            return FILE_DIFF, False
        created, damaged = _varint_field(buf, pos, end, DirectoryDiff.createdListSize, 0)
        state[2] = created
        return DIRECTORY_DIFF, damaged or created < 0
    kind, damaged = _varint_field(buf, pos, end, DiffEntry.type, 0)
    diffs, also_damaged = _varint_field(buf, pos, end, DiffEntry.numOfDiff, 0)
    state[3], _ = _varint_field(buf, pos, end, DiffEntry.inodeId, 0)
    state[0] = kind
    state[1] = diffs
    return DIFF_ENTRY, damaged or also_damaged or diffs < 0 or kind < FILE_DIFF or kind > DIRECTORY_DIFF


@lean_kernel
def _children(buf, pos, end):
    """Number of children and refChildren in the body of a DirEntry, negative where it is damaged."""
    found = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        start = pos
        if pos >= 0:
            pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            found = VARINT_ERROR
            pos = end
        elif tag == DirEntry.children or tag == DirEntry.refChildren:
            _, start = read_varint(buf, start, end)
            for i in range(start, pos):
                found += buf[i] < 0x80
        elif tag == DirEntry.children_unpacked or tag == DirEntry.refChildren_unpacked:
            found += 1
    return found


@kernel
def cut_records(buf, pos, mode, step, progress, state, cuts):
    """Walk the complete records of `buf` from `pos` and note where a sub-section ends.

    Args:
        mode: what counts, `BY_RECORD` and so on; step: how much of it makes a sub-section.
        progress: two numbers that live on between calls: what counted since the last cut, records so far.
        state: place in SNAPSHOT_DIFF, see `next_in_diffs`.
        cuts: takes positions in `buf`.

    Returns:
        (cuts noted, position, damaged). The position is that of the first record which is not complete, or the
        next one where `cuts` is full.
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
