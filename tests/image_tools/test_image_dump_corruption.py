"""Rows of missing inodes, compared with DetectCorruption of Hadoop 3.3."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import RecordError
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump import corruption
from image_tools.dump.corruption import COLUMNS, dump_corruption
from image_tools.dump.kernels.corruption import CHILD, DIRECTORY, REFERENCE, find_missing
from image_tools.dump.records import ImageRecords
from tests.image_format.image_support import RECORDED, build_image, delimited, minimal_sections, store
from tests.image_tools.dump_support import Viewed, open_image

HEAD = "\t".join(COLUMNS)
FILE, FOLDER = pb.INode.FILE, pb.INode.DIRECTORY


def rows_of(path: Path, delimiter: str = "\t") -> list[str]:
    with open_image(path) as image:
        return "".join(dump_corruption(ImageRecords(image), delimiter)).splitlines()


def node(inode_id: int, kind: pb.INode.Type, name: str) -> pb.INode:
    inode = pb.INode(type=kind, id=inode_id, name=name.encode())
    (inode.directory if kind == FOLDER else inode.file).permission = 0
    return inode


def image_of(folder: Path, inodes: list[pb.INode], entries: list[pb.DirEntry], referred: tuple[int, ...] = ()) -> Path:
    sections = dict(minimal_sections())
    sections["INODE"] = delimited([pb.INodeSection(numInodes=len(inodes)), *inodes])
    sections["INODE_DIR"] = delimited(entries)
    sections["INODE_REFERENCE"] = delimited([pb.INodeReference(referredId=each) for each in referred])
    return store(folder, build_image(list(sections.items())))


@pytest.mark.recorded
def test_a_sound_image_has_no_rows() -> None:
    assert rows_of(Viewed(RECORDED / "hadoop-2.7.3" / "snapshots-rename-references" / "oiv_after.xml.gz").image) == [
        HEAD
    ]


def test_missing_inodes_are_listed(tmp_path: Path) -> None:
    inodes = [
        *(node(16385, FOLDER, ""), node(5, FOLDER, "b,c"), node(4, FOLDER, "a"), node(6, FOLDER, "x\ny")),
        *(node(7, FOLDER, "gone"), node(8, FILE, "f")),
    ]
    entries = [
        pb.DirEntry(parent=16385, children=[4, 90]),
        pb.DirEntry(parent=4, children=[5, 91], refChildren=[0]),
        pb.DirEntry(parent=5, children=[6, 92, 93]),
        pb.DirEntry(parent=6, children=[94]),
        pb.DirEntry(parent=7, children=[95]),
        pb.DirEntry(parent=91, children=[8, 96]),
        pb.DirEntry(parent=97, children=[]),
        pb.DirEntry(parent=98, children=[]),
    ]
    assert rows_of(image_of(tmp_path, inodes, entries, (98,))) == [
        HEAD,
        "MissingChild\t16385\tfalse\t/\tMissing\t\tNode\t1",
        'MissingChild\t5\tfalse\t/a\t4\t"b,c"\tNode\t2',
        "MissingChild\t4\tfalse\t/\t16385\ta\tNode\t1",
        'MissingChild\t6\tfalse\t"/a/b,c"\t5\t"x%x0Ay"\tNode\t1',
        "MissingChild\t7\ttrue\t\tMissing\tgone\tNode\t1",
        "CorruptNode\t90\ttrue\t\t16385\t\tUnknown\t0",
        "CorruptNodeWithMissingChild\t91\ttrue\t\t4\t\tUnknown\t1",
        *(
            f"CorruptNode\t{each}\ttrue\t\t{above}\t\tUnknown\t0"
            for each, above in ((92, 5), (93, 5), (94, 6), (95, 7))
        ),
        "CorruptNode\t96\ttrue\t\t91\t\tUnknown\t0",
        "CorruptNode\t97\ttrue\t\tMissing\t\tUnknown\t0",
        "CorruptNode\t98\ttrue\t\t4\t\tRef\t0",
    ]


def test_more_rows_than_the_first_buffer_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corruption, "_FIRST_ROWS", 2)
    entries = [pb.DirEntry(parent=16385, children=range(100, 200)), pb.DirEntry(parent=5, children=range(200, 203))]
    rows = rows_of(image_of(tmp_path, [node(16385, FOLDER, ""), node(5, FOLDER, "a")], entries), "|")
    assert len(rows) == 1 + 2 + 103
    assert rows[1] == "MissingChild|16385|false|/|Missing||Node|100"


def test_a_damaged_directory_entry_is_an_error(tmp_path: Path) -> None:
    path = image_of(tmp_path, [node(16385, FOLDER, "")], [pb.DirEntry(parent=16385, refChildren=[3])])
    with pytest.raises(RecordError, match="damaged directory entry"):
        rows_of(path)


_ENTRIES = st.builds(
    pb.DirEntry,
    parent=st.integers(1, 9),
    children=st.lists(st.integers(1, 9), max_size=4),
    refChildren=st.lists(st.integers(0, 2), max_size=2),
)


@given(st.lists(_ENTRIES, max_size=4), st.sets(st.integers(1, 9)), st.booleans())
def test_the_kernel_finds_missing_inodes(entries: list[pb.DirEntry], ids: set[int], compiled: bool) -> None:
    buffer = np.frombuffer(delimited(entries), np.uint8)
    referred, out = np.array([2, 5, 8]), np.zeros((99, 3), np.int64)
    walk = find_missing if compiled else find_missing.plainly
    assert walk(buffer, 0, Packed.of(np.array(sorted(ids), np.int64)), referred, out)[0] == buffer.size
    expected = [
        row
        for entry in entries
        for row in (
            (DIRECTORY, entry.parent, entry.parent),
            *((CHILD, child, entry.parent) for child in entry.children),
            *((REFERENCE, int(referred[number]), entry.parent) for number in entry.refChildren),
        )
        if row[1] not in ids
    ]
    assert [tuple(row) for row in out[: len(expected)].tolist()] == expected
