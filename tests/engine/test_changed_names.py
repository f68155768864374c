"""The names that differ from the base image, grouped by directory without sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.namespace.links import ChildLinks
from image_format.inode_table import NO_ROW, InodeTable
from image_format.kernels.inode import DIRECTORY, DROPPED

LAYOUT = -67
DIRECTORIES = 5

names = st.lists(
    st.tuples(
        st.integers(0, DIRECTORIES - 1), st.binary(min_size=1, max_size=4), st.integers(NO_ROW, 99), st.booleans()
    ),
    unique_by=lambda each: each[:2],
    max_size=30,
)


@given(names, st.sets(st.integers(0, DIRECTORIES - 1)))
def test_changed_names_of_existing_directories(given: list[tuple[int, bytes, int, bool]], dropped: set[int]) -> None:
    table = InodeTable(LAYOUT)
    for row in range(DIRECTORIES):
        table.add(16386 + row, DIRECTORY, b"")
    links = ChildLinks(table)
    for directory, name, row, changed in given:
        links.set(directory, name, row, changed=changed)
    table.flags[list(dropped)] |= DROPPED
    wanted: dict[int, list[tuple[bytes, int]]] = {}
    for directory, name, row, changed in given:
        if changed and directory not in dropped:
            wanted.setdefault(directory, []).append((name, row))
    found = links.changes()
    assert found.directories.tolist() == sorted(wanted)
    assert found.bounds.tolist() == [0, *np.cumsum([len(wanted[each]) for each in sorted(wanted)]).tolist()]
    listed = [
        (table.names[start : start + size].tobytes(), row)
        for (start, size), row in zip(found.spans.tolist(), found.holders.tolist(), strict=True)
    ]
    assert listed == [each for directory in sorted(wanted) for each in wanted[directory]]
