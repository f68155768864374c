"""Entries of FILES_UNDERCONSTRUCTION: another kernel and the protobuf parser read what one kernel writes."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import BufferOrigin
from image_format.kernels.inode import INODE_DTYPE
from image_format.kernels.open_files import (
    NO_PATH,
    UNREAD_DTYPE,
    count_entries,
    encode_entries,
    entry_sizes,
    read_entries,
)
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from tests.depth import examples

NAMES = st.one_of(
    st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)), min_size=1, max_size=300).map(
        str.encode
    ),
    st.binary(min_size=1, max_size=9).map(lambda name: name.replace(b"/", b"-")),
)


def is_utf8(path: bytes) -> bool:
    return path.decode(errors="replace").encode() == path


@examples(100)
@given(st.lists(st.tuples(NAMES, st.integers(0, 1 << 62), st.integers(0, 10)), min_size=1, max_size=12))
def test_rows_to_entries_round_trip(inodes: list[tuple[bytes, int, int]]) -> None:
    names, rows = io.BytesIO(), np.zeros(len(inodes) + 1, INODE_DTYPE)
    paths = {0: b""}
    for row, (name, inode_id, above) in enumerate(inodes, 1):
        parent = above % row
        rows[row]["id"], rows[row]["parent"] = inode_id, parent
        rows[row]["name_offset"], rows[row]["name_length"] = names.tell(), len(name)
        names.write(name)
        paths[row] = paths[parent] + b"/" + name
    arena = np.frombuffer(names.getvalue(), np.uint8)
    # each directory also contains a file without a row
    unread, entries = np.zeros(rows.size, UNREAD_DTYPE), np.frombuffer(b"/d/part", np.uint8)
    unread["id"], unread["directory"] = np.arange(rows.size) << 40, np.arange(rows.size)
    unread["name_offset"], unread["name_length"] = 3, 4
    paths.update({~number: paths[number] + b"/part" for number in range(rows.size)})
    wanted = np.concatenate([np.arange(1, rows.size), ~np.arange(rows.size)])
    sizes = np.zeros(wanted.size, np.int64)
    files = rows, arena, unread, entries
    entry_sizes(*files, wanted, sizes)
    assert (sizes != NO_PATH).tolist() == [is_utf8(paths[row]) for row in wanted.tolist()]

    wanted, plain = wanted[sizes != NO_PATH], sizes[sizes != NO_PATH]
    out = np.zeros(int(plain.sum()) + 32 * wanted.size, np.uint8)
    section = out[: encode_entries(*files, wanted, plain, out)]
    found = list(MessageReader(section, BufferOrigin("x")).rest(pb.FileUnderConstructionEntry))
    ids = {row: int(rows[row]["id"] if row >= 0 else unread[~row]["id"]) for row in wanted.tolist()}
    expected = [(ids[row], paths[row].decode()) for row in wanted.tolist()]
    assert [(each.inodeId, each.fullPath) for each in found] == expected

    count = count_entries(section)
    offsets, numbers, spans = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros((count, 2), np.int64)
    read_entries(section, offsets, numbers, spans)
    read = [section[start : start + size].tobytes().decode() for start, size in spans.tolist()]
    assert list(zip(numbers.tolist(), read, strict=True)) == expected
