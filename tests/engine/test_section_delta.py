"""The changes of INODE, listed without ordinary memory for each changed or removed inode."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.section_delta import InodeDelta, SectionCuts, inode_cuts, merged_inodes, runs
from image_format import array_allocator
from image_format.array_allocator import ArrayAllocator
from image_format.packed import Packed

COUNT = 1 << 14
_RECORD = 7
"""Size of each record of `index_of`."""


def index_of(slots: int) -> Any:
    offsets = Packed.of(np.arange(slots) * _RECORD + 3)
    end = np.zeros(3 + slots * _RECORD, np.uint8)
    return mock.Mock(offsets=offsets, slot_count=slots, inode_buffer=end, records_start=3)


def cuts_of(dropped: np.ndarray, changed: np.ndarray, allocator: ArrayAllocator) -> SectionCuts:
    """Return the cuts for marks of removed and of changed inodes; the new record of slot n has n bytes."""
    slots = np.flatnonzero(changed & ~dropped)
    spans = np.stack([slots * 100, slots * 101], axis=1)
    delta = InodeDelta(slots, np.zeros(0, np.uint8), spans, runs(dropped, allocator))
    return inode_cuts(index_of(dropped.size), delta, allocator)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.integers(1, 8))
def test_cuts_are_changed_records_and_runs_of_removed_records(marks: list[tuple[bool, bool]], piece: int) -> None:
    dropped, changed = (np.array([each[i] for each in marks], np.bool_) for i in range(2))
    expected: list[tuple[int, int, int, int]] = []
    for slot, (is_dropped, is_changed) in enumerate(marks):
        start, end = 3 + slot * _RECORD, 3 + (slot + 1) * _RECORD
        if is_dropped and slot and marks[slot - 1][0]:
            expected[-1] = (expected[-1][0], end, 0, 0)
        elif is_dropped:
            expected.append((start, end, 0, 0))
        elif is_changed:
            expected.append((start, end, slot * 100, slot * 101))
    with mock.patch.object(array_allocator, "_PIECE", piece):
        cuts = cuts_of(dropped, changed, ArrayAllocator())
    assert [tuple(row) for row in np.concatenate([cuts.places, cuts.spans], axis=1).tolist()] == expected


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20), st.data())
def test_ranges_of_slots_are_merged_as_the_whole_section(marks: list[tuple[bool, bool]], data: st.DataObject) -> None:
    """Each task of Spark merges a range of slots."""
    dropped, changed = (np.array([each[i] for each in marks], np.bool_) for i in range(2))
    index = index_of(dropped.size)
    index.inode_buffer[:] = np.arange(index.inode_buffer.size) % 251
    slots = np.flatnonzero(changed & ~dropped)
    # the records of the changed inodes are not in the order of the slots
    starts = 3 * (slots.size - 1 - np.arange(slots.size))
    new = np.arange(3 * slots.size, dtype=np.uint8)
    delta = InodeDelta(slots, new, np.stack([starts, starts + 3], axis=1), runs(dropped, ArrayAllocator()))
    edges = sorted({0, dropped.size, *data.draw(st.lists(st.integers(0, dropped.size), max_size=3))})

    def merged(delta: InodeDelta, first: int, behind: int) -> bytes:
        return b"".join(map(bytes, merged_inodes(index, delta, first, behind)))

    whole = merged(delta, 0, dropped.size)
    assert b"".join(merged(delta.between(*each), *each) for each in pairwise(edges)) == whole
    old = [index.inode_buffer[3 + _RECORD * slot :][:_RECORD].tobytes() for slot in range(dropped.size)]
    for slot, start in zip(slots.tolist(), starts.tolist(), strict=True):
        old[slot] = new[start : start + 3].tobytes()
    assert whole == b"".join(record for record, gone in zip(old, dropped.tolist(), strict=True) if not gone)


def test_cuts_take_no_memory_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_allocator, "_PIECE", 1 << 8)
    allocator = ArrayAllocator(0, smallest=1 << 13)
    marks = np.random.default_rng(1).integers(0, 3, COUNT)
    slots, index = np.flatnonzero(marks == 1), index_of(COUNT)
    spans, dropped = np.zeros((slots.size, 2), np.int64), marks == 2
    # loads the kernel
    inode_cuts(index, InodeDelta(slots[:1], spans[:0], spans[:1], spans[:0]), allocator)
    tracemalloc.start()
    try:
        cuts = inode_cuts(index, InodeDelta(slots, spans[:0], spans, runs(dropped, allocator)), allocator)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cuts.places) > COUNT // 2
    assert most < 2 * COUNT
