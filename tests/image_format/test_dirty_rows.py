"""The rows that a new image must contain, selected and encoded without ordinary memory for each row."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format import array_allocator
from image_format.array_allocator import ArrayAllocator
from image_format.inode_features import Features
from image_format.inode_table import InodeTable
from image_format.kernels.inode import DIRTY, DROPPED, FILE

LAYOUT = -67
COUNT = 1 << 13

inodes = st.lists(
    st.tuples(
        st.integers(16386, 1 << 40),
        st.integers(0, (1 << 32) - 1),
        st.booleans(),
        st.sampled_from([0, DIRTY, DROPPED, DIRTY | DROPPED]),
    ),
    unique_by=(lambda each: each[0], lambda each: each[1]),
    max_size=20,
)


@given(inodes, st.booleans())
def test_changed_rows_are_in_order_of_their_slots_and_new_rows_of_their_ids(
    rows: list[tuple[int, int, bool, int]], ascending: bool
) -> None:
    table = InodeTable(LAYOUT)
    given = sorted(rows) if ascending else rows
    for inode_id, slot, is_new, flags in given:
        row = table.add(inode_id, FILE, b"")
        table.slot[row] = -1 if is_new else slot
        table.flags[row] = flags
    dirty = table.dirty_rows()
    old = sorted(slot for _, slot, is_new, flags in given if not is_new and flags == DIRTY)
    new = sorted(inode_id for inode_id, _, is_new, flags in given if is_new and flags == DIRTY)
    assert table.slot[dirty.old].tolist() == old
    assert table.id[dirty.new].tolist() == new
    assert dirty.old.dtype == dirty.new.dtype == np.int64


def changed_inodes() -> InodeTable:
    """Return changed base inodes in a random order of slots, a few of them with extended features."""
    table = InodeTable(LAYOUT, allocator=ArrayAllocator(0, smallest=1 << 12))
    for number in range(3):
        table.add(number + 1, FILE, b"name")
    table.reserve_rows(COUNT)
    table.rows[3:COUNT] = table.rows[0]
    table.count = COUNT
    table.id[:COUNT] = np.arange(COUNT) + 16386
    table.slot[:COUNT] = np.random.default_rng(1).permutation(COUNT)
    table.flags[:COUNT] = DIRTY
    for row in range(0, COUNT, COUNT // 8):
        table.set_features(row, Features(acl=(1, 2)))
    return table


def test_changed_rows_take_no_memory_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of 8 bytes for each row would be a fault."""
    monkeypatch.setattr(array_allocator, "_PIECE", 1 << 8)
    table = changed_inodes()
    # loads or compiles the kernels
    table.encode(table.dirty_rows().old[:10])
    tracemalloc.start()
    try:
        records = table.encode(rows := table.dirty_rows().old)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # half of such an array, because other threads allocate too
    assert most < 4 * COUNT
    for number in range(0, COUNT, COUNT // 64):
        assert records.record(number) == table.encode(rows[number : number + 1]).record(0)
