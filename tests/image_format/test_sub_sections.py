"""Sub-sections: divided as in Hadoop, reported if a parallel load would fail, and read in compressed images."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.codecs import find_codec
from image_format.errors import CodecError, RecordError
from image_format.index import ImageIndex
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.section_cutter import SectionCutter
from image_format.sub_section_rules import (
    SubSectionRule,
    can_have_sub_sections,
    sub_section_faults,
    sub_section_target,
    sub_sections_of,
    wanted_sub_sections,
)
from image_format.summary import Section
from image_format.writer import ImageWriter
from tests.image_format.image_support import CODEC_NAMES, RECORDED, delimited, minimal_sections

HADOOP_3 = RECORDED / "hadoop-3.4.1"
SUB_SECTIONED = sorted(
    path
    for name in ("sub-sections*", "erasure-coding-*", "random-*-sub-*")
    for path in HADOOP_3.glob(f"{name}/*/fsimage_*")
    if path.suffix != ".md5"
)
COMPRESSING = tuple(filter(None, CODEC_NAMES))


def odd(name: str) -> Path:
    return next(path for path in (HADOOP_3 / "odd" / name / "before").glob("fsimage_*") if path.suffix != ".md5")


def cut(name: str, data: bytes, target: int, inodes: int, step: int) -> list[tuple[int, int]]:
    cutter = SectionCutter(name, target, inodes)
    for start in range(0, len(data), step):
        cutter.feed(data[start : start + step])
    return cutter.finish()


@pytest.mark.parametrize("path", SUB_SECTIONED, ids=lambda path: "-".join(path.parts[-3:-1]))
@pytest.mark.parametrize("step", [1, 100, 1 << 20])
def test_inodes_and_directories_are_divided_where_hadoop_divides_them(path: Path, step: int) -> None:
    with ImageFile.open(path) as image:
        target = sub_section_target(image.sections)
        inodes = ImageIndex(image).slot_count
        for section in image.sections:
            if section.name in ("INODE", "INODE_DIR"):
                slices = cut(section.name, bytes(image.stored_bytes(section)), target, inodes, step)
                expected = sub_sections_of(image.sections, section)
                assert [(section.offset + start, size) for start, size in slices] == [
                    (part.offset, part.length) for part in expected
                ]


@pytest.mark.parametrize("path", SUB_SECTIONED, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_snapshot_diffs_are_divided_between_inodes(path: Path) -> None:
    with ImageFile.open(path) as image:
        data = image.section("SNAPSHOT_DIFF")
        if data is None:
            return
        body = data.tobytes()
        slices = cut("SNAPSHOT_DIFF", body, 4, ImageIndex(image).slot_count, 50)
        assert 1 <= len(slices) <= 4
        for start, size in slices:
            # a slice that begins or ends within a list is not a valid section
            cut("SNAPSHOT_DIFF", body[start : start + size], 1, 1, 1000)


@given(children=st.lists(st.integers(0, 300), max_size=40), target=st.integers(1, 12), step=st.integers(1, 400))
def test_slices_contain_whole_records_and_cover_the_section(children: list[int], target: int, step: int) -> None:
    entries = [
        pb.DirEntry(parent=i + 1, children=range(1, count + 1), refChildren=range(count % 3))
        for i, count in enumerate(children)
    ]
    data = delimited(entries)
    total = sum(children) + sum(count % 3 for count in children)
    slices = cut("INODE_DIR", data, target, total, step)
    assert slices == cut("INODE_DIR", data, target, total, len(data) + 1)
    position = 0
    for start, size in slices:
        assert start == position
        assert size > 0
        cut("INODE_DIR", data[start : start + size], 1, 1, 1000)
        position += size
    assert position == len(data)
    assert len(slices) <= target + 1


def test_a_truncated_or_damaged_section_is_an_error() -> None:
    data = delimited([pb.DirEntry(parent=1, children=[5, 6])])
    with pytest.raises(RecordError, match="ends within a record"):
        cut("INODE_DIR", data[:-1], 2, 2, 3)
    with pytest.raises(RecordError, match="damaged"):
        cut("INODE_DIR", b"\xff" * 40, 2, 2, 3)
    entry = delimited([pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=7, numOfDiff=1)])
    with pytest.raises(RecordError, match="ends within a record"):
        cut("SNAPSHOT_DIFF", entry, 2, 2, 100)
    assert cut("INODE_DIR", b"", 4, 10, 1) == []


# ---- faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("sub-sections-partial", "INODE_SUB entries do not cover section INODE exactly"),
        ("sub-sections-unordered", "INODE_DIR_SUB entries are not in the order of their offsets"),
    ],
)
def test_faulty_sub_sections_are_logged_and_the_section_is_read(
    name: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), ImageFile.open(odd(name)) as image:
        assert ImageIndex(image).slot_count == 198
    assert fault in caplog.text
    assert "cannot use them" in caplog.text


@pytest.mark.parametrize("name", ["sub-sections-first", "sub-sections-last"])
def test_sub_sections_may_be_anywhere_in_the_summary(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with ImageFile.open(odd(name)) as image:
        assert sub_section_faults(image.sections) == []
    assert caplog.text == ""


def test_sub_section_entries_without_a_section_are_a_fault() -> None:
    entries = [Section("INODE", 8, 10), Section("OTHER_SUB", 8, 10), Section("OTHER_SUB", 18, 1)]
    assert sub_section_faults(entries) == ["the OTHER_SUB entries belong to no section"]


def test_layouts_and_codecs_that_can_have_sub_sections() -> None:
    assert can_have_sub_sections(-66, "")
    assert not can_have_sub_sections(-65, "")
    assert not can_have_sub_sections(-67, "some.Codec")
    assert can_have_sub_sections(-67, "some.Codec", compressed=True)
    assert not can_have_sub_sections(-65, "some.Codec", compressed=True)
    entries = [Section("INODE_SUB", 8, 10)] * 3 + [Section("INODE_DIR_SUB", 8, 10)] * 2
    rule = SubSectionRule(target=12, threshold=100)
    assert wanted_sub_sections(entries, 99, -67, "", rule) == 3
    assert wanted_sub_sections(entries, 100, -67, "", rule) == 12
    assert wanted_sub_sections(entries, 100, -67, "", None) == 3
    assert wanted_sub_sections([], 99, -67, "", rule) == 0
    assert wanted_sub_sections(entries, 100, -65, "", rule) == 0
    assert wanted_sub_sections(entries, 100, -67, "some.Codec", rule) == 0
    packed = SubSectionRule(target=12, threshold=100, compressed=True)
    assert wanted_sub_sections(entries, 100, -67, "some.Codec", packed) == 12
    assert wanted_sub_sections(entries, 99, -67, "some.Codec", packed) == 3
    assert sub_section_target(entries[3:]) == 2


# ---- compressed slices -------------------------------------------------------------------------------------


def compressed_in_slices(codec: str, slices: int) -> tuple[bytes, dict[str, bytes]]:
    """Return an image whose INODE section is several compressed streams, as NameNodes newer than 3.4.1 write it."""
    out = bytearray()
    writer = ImageWriter(out.extend, -67, codec)
    sections = dict(minimal_sections())
    for name, body in sections.items():
        bounds = [len(body) * i // slices for i in range(slices + 1)] if name == "INODE" else [0, len(body)]
        streams = []
        for start, end in itertools.pairwise(bounds):
            stream = find_codec(codec).compressor()
            streams.append(bytes(stream.compress(body[start:end])) + stream.finish())
        starts = [sum(map(len, streams[:i])) for i in range(len(streams))]
        listed = list(zip(starts, map(len, streams), strict=True)) if name == "INODE" else []
        writer.copy_section(name, b"".join(streams), listed)
    writer.finish()
    return bytes(out), sections


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_section_of_several_streams_is_read_completely(codec: str, tmp_path: Path) -> None:
    data, sections = compressed_in_slices(codec, 3)
    path = tmp_path / "image"
    path.write_bytes(data)
    with ImageFile.open(path, verify_md5=False) as image:
        assert {name: bytes(image.section_bytes(name)) for name in sections} == sections


def test_slices_are_decompressed_in_one_call_or_the_error_gives_the_offset(tmp_path: Path) -> None:
    data, sections = compressed_in_slices("org.apache.hadoop.io.compress.GzipCodec", 3)
    path = tmp_path / "image"
    path.write_bytes(data)
    with ImageFile.open(path, verify_md5=False) as image:
        image.decompress(["INODE", "INODE_DIR", "SNAPSHOT_DIFF"])
        assert bytes(image.section_bytes("INODE")) == sections["INODE"]
        second = [part for part in image.sections if part.name == "INODE_SUB"][1]
    path.write_bytes(data[: second.offset] + b"\x00" + data[second.offset + 1 :])
    with ImageFile.open(path, verify_md5=False) as image:
        for read in (lambda: image.decompress(["INODE_DIR", "INODE"]), lambda: image.section("INODE")):
            with pytest.raises(CodecError, match=f"section INODE, offset {second.offset}"):
                read()
