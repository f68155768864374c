"""Values that recorded images lack: damaged text, impossible times, unknown policies, very long paths."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from pipeline.host_image import HostImage
from pipeline.sources import readers
from pipeline.sources.readers import READERS
from pipeline.sources.table_reader import MAX_PARTS, TablePart
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.pipeline.oiv_tables import Row
from tests.pipeline.recorded_inodes import read

PERMISSION = 1 << 40 | 2 << 16 | 0o644


def image_of(folder: Path, files: list[pb.INode]) -> Path:
    """Return the root with these files in it; their ids start at 16386."""
    sections = dict(minimal_sections())
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, directory=pb.INodeDirectory(permission=PERMISSION))
    for number, file in enumerate(files):
        file.id = 16386 + number
    header = pb.INodeSection(lastInodeId=16385 + len(files), numInodes=1 + len(files))
    sections["INODE"] = delimited([header, root, *files])
    sections["INODE_DIR"] = delimited([pb.DirEntry(parent=16385, children=[file.id for file in files])])
    return store(folder, build_image(list(sections.items())))


def file_of(name: bytes, **fields: int) -> pb.INode:
    return pb.INode(type=pb.INode.FILE, id=1, name=name, file=pb.INodeFile(permission=PERMISSION, **fields))


def rows_of(folder: Path, files: list[pb.INode]) -> list[Row]:
    return read(image_of(folder, files), folder / "scratch")[1:]


def test_names_that_are_not_utf_8_are_decoded_as_in_java(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, [file_of(b"a\xff"), file_of("é".encode()), file_of(b"b")])
    assert [row["name"] for row in rows] == ["a\ufffd", "é", "b"]
    assert [row["path"] for row in rows] == ["/a\ufffd", "/é", "/b"]


def test_a_time_beyond_the_timestamp_range_is_null(tmp_path: Path) -> None:
    times = [0, 1, (1 << 64) - 1, (1 << 63) - 1, 1 << 63]
    rows = rows_of(tmp_path, [file_of(b"f%d" % i, modificationTime=each) for i, each in enumerate(times)])
    second = datetime(1970, 1, 1, tzinfo=UTC)
    assert [row["mtime"] for row in rows[:2]] == [second, second.replace(microsecond=1000)]
    assert rows[2]["mtime"] == datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
    assert [row["mtime"] for row in rows[3:]] == [None, None]


def test_policies_without_a_name_are_shown_by_number(tmp_path: Path) -> None:
    made = [
        file_of(b"a"),
        file_of(b"b", storagePolicyID=0),
        file_of(b"c", storagePolicyID=9),
        file_of(b"d", erasureCodingPolicyID=99, replication=3),
        file_of(b"e", erasureCodingPolicyID=2),
    ]
    rows = rows_of(tmp_path, made)
    assert [row["storage_policy"] for row in rows] == [None, None, "9", None, None]
    assert [row["ec_policy"] for row in rows] == [None, None, None, "99", "RS-3-2-1024k"]
    assert [row["replication"] for row in rows] == [0, 0, 0, 0, 0]


def test_a_missing_owner_is_null_and_an_unknown_owner_an_error(tmp_path: Path) -> None:
    nobody = file_of(b"a")
    nobody.file.permission = 0o1777 | 2 << 16
    (row,) = rows_of(tmp_path, [nobody])
    assert (row["owner"], row["group"], row["permission"]) == (None, "supergroup", 0o1777)
    nobody.file.permission = 7 << 40
    with pytest.raises(RecordError, match="no user has serial 7"):
        rows_of(tmp_path, [nobody])


def test_batches_are_smaller_if_paths_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = dict(minimal_sections())
    long = pb.INode(type=pb.INode.DIRECTORY, id=16386, name=b"d" * 100, directory=pb.INodeDirectory(permission=0))
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, directory=pb.INodeDirectory(permission=0))
    files = [pb.INode(type=pb.INode.FILE, id=16387 + i, name=b"%d" % i, file=pb.INodeFile()) for i in range(9)]
    sections["INODE"] = delimited([pb.INodeSection(lastInodeId=16400, numInodes=11), root, long, *files])
    below = pb.DirEntry(parent=16386, children=[file.id for file in files])
    sections["INODE_DIR"] = delimited([pb.DirEntry(parent=16385, children=[16386]), below])
    host = HostImage.open(store(tmp_path, build_image(list(sections.items()))), tmp_path / "scratch")

    def batches() -> list[list[str]]:
        found = READERS["inodes"].read(host, TablePart(0, 1), ("path",))
        return [batch.column(0).to_pylist() for batch in found]

    (whole,) = batches()
    monkeypatch.setattr(readers, "_PATH_BYTES", 250)
    cut = batches()
    assert [path for batch in cut for path in batch] == whole
    assert max(map(len, cut)) <= 3
    assert len(cut) > 3


def test_parts_do_not_change_the_rows(tmp_path: Path) -> None:
    image = image_of(tmp_path, [file_of(b"f%02d" % i, modificationTime=i * 1000) for i in range(50)])
    host = HostImage.open(image, tmp_path / "scratch")
    reader = READERS["inodes"]
    parts = reader.parts(host.image, 4)
    batches = [batch for part in parts for batch in reader.read(host, part, reader.table.names)]
    assert [row for batch in batches for row in batch.to_pylist()] == read(image, tmp_path / "scratch")


def test_parts_together_cover_all_rows() -> None:
    for count in (0, 1, 7, 100):
        for of in (1, 3, 8):
            cuts = [TablePart(number, of).cut(count) for number in range(of)]
            assert [slot for cut in cuts for slot in cut] == list(range(count))
    assert MAX_PARTS == 10_000
