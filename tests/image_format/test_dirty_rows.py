"""The rows that a new image must contain, selected without sorting where their ids ascend."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from image_format.inode_table import InodeTable
from image_format.kernels.inode import DIRTY, DROPPED, FILE

LAYOUT = -67

inodes = st.lists(
    st.tuples(st.integers(16386, 1 << 40), st.booleans(), st.sampled_from([0, DIRTY, DROPPED, DIRTY | DROPPED])),
    unique_by=lambda each: each[0],
    max_size=20,
)


@given(inodes, st.booleans())
def test_dirty_rows_are_in_order_of_their_ids(rows: list[tuple[int, bool, int]], ascending: bool) -> None:
    table = InodeTable(LAYOUT)
    given = sorted(rows) if ascending else rows
    for inode_id, is_new, flags in given:
        row = table.add(inode_id, FILE, b"")
        table.slot[row] = -1 if is_new else row
        table.flags[row] = flags
    dirty = table.dirty_rows()
    for found, new in ((dirty.old, False), (dirty.new, True)):
        wanted = sorted(inode_id for inode_id, is_new, flags in given if is_new is new and flags == DIRTY)
        assert table.id[found].tolist() == wanted
        assert found.dtype == np.int64
