"""Kernel that walks SNAPSHOT_DIFF and finds where each inode's list of diffs lies."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel
from image_format.kernels.records import DIRECTORY_DIFF
from image_format.kernels.tags import DiffEntry, DirectoryDiff
from image_format.kernels.wire import DELIMITED, read_varint, skip_field
from image_tools.verify.kernels.tags import read_tag


@kernel
def _frame(buf, pos):
    """(start, end) of the delimited message at `pos`, start -1 where its frame is cut."""
    length, start = read_varint(buf, pos, buf.size)
    if start < 0 or length < 0 or length > buf.size - start:
        return np.int64(-1), np.int64(-1)
    return np.int64(start), np.int64(start + length)


@kernel
def _skip_directory_diff(buf, pos, references):
    """Position behind a DirectoryDiff and its created names, -1 for damage; adds 1 for each reference used."""
    pos, end = _frame(buf, pos)
    if pos < 0:
        return np.int64(-1)
    created = np.int64(0)
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
        if stop < 0:
            return np.int64(-1)
        if tag == DirectoryDiff.createdListSize:
            created, _ = read_varint(buf, pos, end)
        elif tag | DELIMITED == DirectoryDiff.deletedINodeRef:
            if tag == DirectoryDiff.deletedINodeRef:
                _, pos = read_varint(buf, pos, end)
            while pos < stop:
                value, pos = read_varint(buf, pos, stop)
                if pos < 0:
                    return np.int64(-1)
                if 0 <= value < references.size:
                    references[value] += 1
        pos = stop
    for _ in range(created):
        start, end = _frame(buf, end)
        if start < 0:
            return np.int64(-1)
    return np.int64(end)


@kernel
def audit_diffs(buf, pos, ids, offsets, count, references):
    """Walk the DiffEntry records of `buf` from `pos`, each with its diffs; fill one row an entry from `count` on.

    Args:
        ids, offsets: results: inode id and offset of the DiffEntry.
        references: by number of the reference, updated: how often deleted lists use it.

    Returns:
        (entries, position, damaged): position is the section's end, where the arrays were full, or where an
        entry starts that is damaged or whose diffs are.
    """
    while pos < buf.size:
        if count == ids.size:
            return count, pos, False
        first = np.int64(pos)
        start, end = _frame(buf, pos)
        if start < 0:
            return count, first, True
        inode_id = np.int64(0)
        kind = np.int64(0)
        diffs = np.int64(0)
        at = start
        while at < end:
            tag, at = read_tag(buf, at, end)
            stop = skip_field(buf, at, end, tag) if at >= 0 else at
            if stop < 0:
                return count, first, True
            if tag == DiffEntry.type:
                kind, _ = read_varint(buf, at, end)
            elif tag == DiffEntry.inodeId:
                inode_id, _ = read_varint(buf, at, end)
            elif tag == DiffEntry.numOfDiff:
                diffs, _ = read_varint(buf, at, end)
            at = stop
        at = end
        for _ in range(diffs):
            if kind == DIRECTORY_DIFF:
                at = _skip_directory_diff(buf, at, references)
            else:
                start, at = _frame(buf, at)
            if at < 0:
                return count, first, True
        ids[count] = inode_id
        offsets[count] = first
        count += 1
        pos = at
    return count, np.int64(pos), False
