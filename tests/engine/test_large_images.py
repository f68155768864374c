"""Images that do not fit in the page cache are read without the page cache, with the same results and faults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import section_delta
from engine.merge import merge
from engine.replay import path_pages
from engine.replay.kernels import open_files
from engine.scan_verification import ScanVerification
from engine.section_delta import SectionCuts, spliced
from engine.warm_namespace import WarmNamespace
from image_format import direct_reader, index, inode_scan, reader
from image_format.direct_reader import DirectReader, SectionReads
from image_format.errors import DigestMismatchError, RecordError
from image_format.index import Bytes
from image_format.index_arrays import IndexArrays
from image_format.known_digests import remember_digest
from image_format.md5_file import md5_of_file, md5_path, write_md5_file
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.loadable import check_loadable
from journal.ops import EditOp
from tests.engine.image_builder import BASE_TXID, ImageBuilder, delimited, numbered
from tests.engine.op_makers import delete, mkdir, rename
from tests.engine.replay_scenes import needs_kernels

EDITS: Sequence[EditOp] = [mkdir("/new", 20001), rename("/d3/f1", "/new/f1"), delete("/d5"), delete("/d0/f2")]


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make every image large, in small pieces; return a list that receives the position of each direct read."""
    starts: list[int] = []
    read = DirectReader.read

    def counted(self: DirectReader, start: int, stop: int) -> Bytes | None:
        starts.append(start)
        return read(self, start, stop)

    monkeypatch.setattr(reader, "exceeds_page_cache", lambda size: True)
    # reads through the page cache, since the file system of the temporary folder may not support direct reads
    monkeypatch.setattr(direct_reader, "_DIRECT", os.O_CLOEXEC)
    monkeypatch.setattr(DirectReader, "read", counted)
    monkeypatch.setattr(inode_scan, "PIECE", 300)
    monkeypatch.setattr(inode_scan, "_WINDOW_SLACK", 300)
    monkeypatch.setattr(section_delta, "_WINDOW", 500)
    monkeypatch.setattr(index, "_NAMES_AT_ONCE", 2)
    return starts


def image(folder: Path, long_name: int = 0, layout_version: int = -67, *, unsorted: bool = False) -> Path:
    """Save an image of eight directories with four files each; a long record takes several pieces."""
    folder.mkdir()
    builder = ImageBuilder(layout_version)
    builder.unsorted = unsorted
    for directory in range(8):
        builder.directory(f"/d{directory}")
        for number in (2, 3, 0, 1) if unsorted else range(4):
            builder.file(f"/d{directory}/f{number}")
    if long_name:
        builder.file(f"/d7/{'x' * long_name}")
    return builder.save(folder)


def merged(base: Path, folder: Path, edits: Sequence[EditOp] = EDITS) -> bytes:
    folder.mkdir()
    return merge(base, numbered(edits, BASE_TXID), [folder]).saved.paths[0].read_bytes()


@pytest.mark.parametrize(("long_name", "unsorted"), [(0, False), (2000, False), (0, True)])
def test_merge_around_the_cache_writes_the_same_image(
    tmp_path: Path, request: pytest.FixtureRequest, long_name: int, unsorted: bool
) -> None:
    base = image(tmp_path / "base", long_name, unsorted=unsorted)
    through = merged(base, tmp_path / "through")
    reads: list[int] = request.getfixturevalue("around")
    assert merged(base, tmp_path / "around") == through
    assert len(set(reads)) > 5


@needs_kernels
def test_directories_of_open_files_are_searched_by_several_threads(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ImageBuilder(-67)
    leases = []
    for number in range(40):
        builder.directory(f"/d{number}")
        builder.directory(f"/d{number}/e")
        path = f"/d{number}/e/f"
        file = builder.file(path, open_by="client")
        leases.append(pb.FileUnderConstructionEntry(inodeId=file.id, fullPath=path))
    builder.sections["FILES_UNDERCONSTRUCTION"] = delimited(leases)
    base = builder.save(tmp_path)
    edits = [mkdir("/new", 20001), rename("/d3/e/f", "/new/f"), delete("/d5")]
    through = merged(base, tmp_path / "through", edits)
    found = []

    def counted(*arguments: object) -> None:
        found.append(open_files.follow_paths(*arguments))

    monkeypatch.setattr(path_pages, "follow_paths", counted)
    request.getfixturevalue("around")
    assert merged(base, tmp_path / "around", edits) == through
    assert len(found) > 1
    assert sum(found) == 40


def damaged(base: Path, position: int, value: int) -> None:
    data = bytearray(base.read_bytes())
    data[position] = value
    base.write_bytes(data)


def record_of(base: Path, name: bytes) -> int:
    """Return the offset of the body of the record with this name."""
    with ImageFile.open(base) as opened:
        for record in opened.records("INODE"):
            if name in bytes(record.body):
                return (opened.place("INODE").base or 0) + record.end - len(record.body)
    raise AssertionError(name)


@pytest.mark.usefixtures("around")
def test_wrong_digest_is_detected(tmp_path: Path) -> None:
    base = image(tmp_path / "base")
    position = record_of(base, b"f3")
    damaged(base, base.read_bytes().index(b"f3", position), ord("g"))
    with pytest.raises(DigestMismatchError, match="its MD5 is"):
        merged(base, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.usefixtures("around")
def test_wrong_digest_of_an_image_that_this_process_wrote_is_detected(tmp_path: Path) -> None:
    base = image(tmp_path / "base")
    digest = md5_of_file(base)
    damaged(base, base.read_bytes().index(b"f3", record_of(base, b"f3")), ord("g"))
    # A bad disk returns other bytes although the file's times are unchanged.
    remember_digest(base, digest)
    with pytest.raises(DigestMismatchError, match="its MD5 is"):
        merged(base, tmp_path / "out")


@pytest.mark.usefixtures("around")
def test_unloadable_record_is_detected(tmp_path: Path) -> None:
    base = image(tmp_path / "base")
    position = record_of(base, b"d6")
    # an unknown type
    damaged(base, position + 1, 9)
    md5_path(base).unlink()
    write_md5_file(base, md5_of_file(base))
    with ImageFile.open(base) as opened, pytest.raises(RecordError) as expected:
        check_loadable(opened)
    with pytest.raises(RecordError) as found:
        merged(base, tmp_path / "out")
    assert str(found.value) == str(expected.value)
    assert f"offset {position - 1}:" in str(found.value)


@pytest.mark.usefixtures("around")
def test_digest_from_a_scan_equals_the_digest_of_the_file(tmp_path: Path) -> None:
    base = image(tmp_path / "base")
    with WarmNamespace() as warm:
        warm.load(base)
        warm.hand_over().image.close()
    with ImageFile.open(base, verify_md5=False) as opened:
        assert opened.known_digest() == md5_of_file(base)


def test_sums_are_computed_through_the_page_cache(tmp_path: Path, around: list[int]) -> None:
    with WarmNamespace(keeps_sums=True) as warm:
        warm.load(image(tmp_path / "base"))
        assert around == []


def test_an_image_to_convert_is_read_through_the_cache(tmp_path: Path, around: list[int]) -> None:
    with WarmNamespace() as warm:
        warm.load(image(tmp_path / "base", layout_version=-66), cluster=-67)
        assert around == []
        warm.load(image(tmp_path / "newer"), cluster=-67)
        assert around


@given(st.data())
def test_windows_of_a_section_give_the_same_bytes(data: st.DataObject) -> None:
    section = np.frombuffer(data.draw(st.binary(max_size=60)), np.uint8)
    start = data.draw(st.integers(0, section.size))
    bounds = sorted(data.draw(st.lists(st.integers(start, section.size), max_size=12)))
    places = np.array(bounds[: len(bounds) // 2 * 2], np.int64).reshape(-1, 2)
    fresh = np.frombuffer(data.draw(st.binary(max_size=20)), np.uint8)
    ends = st.integers(0, fresh.size)
    spans = np.array([sorted((data.draw(ends), data.draw(ends))) for _ in places], np.int64).reshape(-1, 2)
    cuts = SectionCuts(places, fresh, spans)
    expected, position = b"", start
    for (first, stop), (begin, end) in zip(places.tolist(), spans.tolist(), strict=True):
        expected += section[position:first].tobytes() + fresh[begin:end].tobytes()
        position = stop
    expected += section[position:].tobytes()
    window, chunk = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    unread = data.draw(st.booleans())

    class Reads(SectionReads):
        def __init__(self) -> None: ...

        def read(self, start: int, stop: int) -> Bytes | None:
            return None if unread else section[start:stop].copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(section_delta, "_WINDOW", window)
        patch.setattr(section_delta, "COPY_CHUNK", chunk)
        for reads in (None, Reads()):
            assert b"".join(bytes(piece) for piece in spliced(section, start, cuts, reads)) == expected


def test_scan_records_the_type_of_each_inode(tmp_path: Path, around: list[int]) -> None:
    base = image(tmp_path / "base")
    with ImageFile.open(base) as opened:
        opened.read_around_cache()
        scan = ScanVerification(opened)
        arrays = IndexArrays.scan(opened, inspector=scan)
        kinds = [scan.inodes.kinds[slot >> 2] >> 2 * (slot & 3) & 3 for slot in range(arrays.ids.size)]
        expected = [pb.INode.FromString(bytes(record.body)).type for record in list(opened.records("INODE"))[1:]]
        assert kinds == expected
        assert scan.inodes.fault is None
    assert around
