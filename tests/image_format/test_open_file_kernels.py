"""Entries of FILES_UNDERCONSTRUCTION: what one kernel writes another reads, and the schema's parser as well."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import Place
from image_format.kernels.inode import INODE_DTYPE
from image_format.kernels.open_files import NO_PATH, count_entries, encode_entries, entry_sizes, read_entries
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from tests.depth import examples

NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)), min_size=1, max_size=300)


@examples(100)
@given(st.lists(st.tuples(NAMES, st.integers(0, 1 << 62), st.integers(0, 10)), min_size=1, max_size=12))
def test_rows_to_entries_and_back(inodes: list[tuple[str, int, int]]) -> None:
    names, rows = io.BytesIO(), np.zeros(len(inodes) + 1, INODE_DTYPE)
    paths = {0: ""}
    for row, (name, inode_id, above) in enumerate(inodes, 1):
        parent, data = above % row, name.encode()
        rows[row]["id"], rows[row]["parent"] = inode_id, parent
        rows[row]["name_offset"], rows[row]["name_length"] = names.tell(), len(data)
        names.write(data)
        paths[row] = f"{paths[parent]}/{name}"
    arena = np.frombuffer(names.getvalue(), np.uint8)
    sizes = np.zeros(len(inodes), np.int64)
    entry_sizes(rows, arena, np.arange(1, rows.size), sizes)
    assert (sizes != NO_PATH).tolist() == [paths[row].isascii() for row in range(1, rows.size)]

    wanted = 1 + np.flatnonzero(sizes != NO_PATH)
    plain = sizes[sizes != NO_PATH]
    out = np.zeros(int(plain.sum()) + 32 * wanted.size, np.uint8)
    section = out[: encode_entries(rows, arena, wanted, plain, out)]
    found = list(MessageReader(section, Place("x")).rest(pb.FileUnderConstructionEntry))
    expected = [(int(rows[row]["id"]), paths[row]) for row in wanted.tolist()]
    assert [(each.inodeId, each.fullPath) for each in found] == expected

    count = count_entries(section)
    offsets, ids, spans = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros((count, 2), np.int64)
    read_entries(section, offsets, ids, spans)
    read = [section[start : start + size].tobytes().decode() for start, size in spans.tolist()]
    assert list(zip(ids.tolist(), read, strict=True)) == expected
