from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import BadMagicError, ImageFormatError, SummaryError, TruncatedImageError
from image_format.proto.fsimage_pb2 import FileSummary
from image_format.summary import (
    MAGIC,
    Section,
    build_summary,
    check_magic,
    encode_trailer,
    is_sub_section,
    parse_file,
    summary_length,
)
from tests.image_format.image_support import build_image, minimal_sections

layout_versions = st.integers(-(2**31), -1)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(lambda name: not is_sub_section(name))


def image_of(sections: list[Section], body: int = 100, **fields: object) -> bytes:
    summary = build_summary(-63, "", sections)
    for field, value in fields.items():
        setattr(summary, field, value)
    return MAGIC + bytes(body) + encode_trailer(summary)


@given(
    layout_versions,
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.dictionaries(names, st.integers(0, 50), max_size=6),
)
def test_round_trip(layout_version: int, codec: str, lengths: dict[str, int]) -> None:
    sections, offset = [], len(MAGIC)
    for name, length in lengths.items():
        sections.append(Section(name, offset, length))
        offset += length
    summary = build_summary(layout_version, codec, sections)
    parsed = parse_file(memoryview(MAGIC + bytes(offset - 8) + encode_trailer(summary)))
    assert parsed.layout_version == layout_version
    assert parsed.codec == codec
    assert list(parsed.sections) == sections
    assert parsed.message == summary


def test_layout_version_is_a_five_byte_varint() -> None:
    assert encode_trailer(build_summary(-63, "", [])) == bytes.fromhex("08080110c1ffffff0f00000009")


def test_unknown_fields_of_the_template_are_kept() -> None:
    template = FileSummary()
    entry = FileSummary.Section(name="INODE", offset=8, length=1).SerializeToString() + b"\xe0\x03\x05"
    template.ParseFromString(b"\x08\x01\x10\xc1\xff\xff\xff\x0f\x22" + bytes([len(entry)]) + entry + b"\xe0\x03\x09")
    made = build_summary(-63, "", [Section("INODE", 8, 20), Section("NEW", 28, 1)], template)
    plain = build_summary(-63, "", [Section("INODE", 8, 20), Section("NEW", 28, 1)])
    assert made.SerializeToString() != plain.SerializeToString()
    assert len(made.SerializeToString()) == len(plain.SerializeToString()) + 6
    assert made.sections[0].length == 20


def test_the_codec_of_the_template_is_not_copied() -> None:
    template = build_summary(-63, "org.example.Codec", [])
    assert not build_summary(-63, "", [], template).HasField("codec")


@pytest.mark.parametrize("size", range(8))
def test_a_short_file_is_truncated(size: int) -> None:
    with pytest.raises(TruncatedImageError, match=f"the file has {size} bytes"):
        check_magic(MAGIC[:size])


def test_a_wrong_magic_is_an_error() -> None:
    with pytest.raises(BadMagicError, match="HDFSIMG9"):
        parse_file(memoryview(b"HDFSIMG9" + bytes(40)))


@pytest.mark.parametrize(
    ("name", "hint"), [("some-file", "edits info"), ("fsimage_0000000000000000009", "intact copy")]
)
def test_an_edit_log_segment_is_recognized_and_refused(name: str, hint: str) -> None:
    with pytest.raises(BadMagicError, match="it is an edit log segment of layout -63") as caught:
        check_magic(b"\xff\xff\xff\xc1" + bytes(4), file=f"/data/{name}")
    assert hint in caught.value.hint


@pytest.mark.parametrize("length", [0, -1, -(2**31)])
def test_length_must_be_positive(length: int) -> None:
    with pytest.raises(SummaryError, match=f"length is {length}"):
        summary_length(length.to_bytes(4, "big", signed=True), 100)


def test_a_summary_length_beyond_the_file_is_an_error() -> None:
    with pytest.raises(TruncatedImageError, match="length 89 exceeds the file"):
        summary_length(bytes([0, 0, 0, 89]), 100)
    assert summary_length(bytes([0, 0, 0, 88]), 100) == 88


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ([Section("INODE", 7, 1)], "outside the section area"),
        ([Section("INODE", 8, 101)], "outside the section area"),
        ([Section("INODE", 2**63, 1)], "outside the section area"),
        ([Section("INODE", 9, 2**64 - 1)], "outside the section area"),
        ([Section("INODE_SUB", 100, 20)], "outside the section area"),
        ([Section("INODE", 8, 1), Section("INODE", 9, 1)], "listed twice"),
        ([Section("A", 8, 10), Section("B", 17, 10)], "overlaps A"),
        ([Section("B", 17, 10), Section("A", 8, 10)], "overlaps A"),
        ([Section("A", 8, 100), Section("C", 20, 0), Section("B", 30, 10)], "overlaps A"),
    ],
)
def test_impossible_sections_are_an_error(sections: list[Section], message: str) -> None:
    with pytest.raises(SummaryError, match=message):
        parse_file(memoryview(image_of(sections)), "fsimage_x")


def test_sub_sections_repeat_and_overlap_their_parent() -> None:
    sections = [Section("INODE_SUB", 8, 5), Section("INODE_SUB", 13, 5), Section("INODE", 8, 10)]
    assert parse_file(memoryview(image_of(sections))).sections == tuple(sections)


def test_empty_sections_share_an_offset() -> None:
    sections = [Section("A", 8, 0), Section("B", 8, 10), Section("C", 18, 0), Section("D", 18, 1)]
    assert parse_file(memoryview(image_of(sections))).sections == tuple(sections)


def test_another_on_disk_version_is_refused() -> None:
    with pytest.raises(SummaryError, match="on-disk version 2 is not supported"):
        parse_file(memoryview(image_of([], ondiskVersion=2)))


@pytest.mark.parametrize("body", [b"", b"\x08\x01", b"\x10\x01"])
def test_missing_required_fields_are_an_error(body: bytes) -> None:
    data = MAGIC + bytes([len(body)]) + body + (len(body) + 1).to_bytes(4, "big")
    with pytest.raises(SummaryError, match="lacks a required field"):
        parse_file(memoryview(data))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (b"\x1a\x02\xff\xfe", "FileSummary.codec is not UTF-8"),
        (b"\x22\x02\x0a\x00", "has no name"),
        (b"\x22\x03\x0a\x01\xff", "FileSummary.Section.name is not UTF-8"),
    ],
)
def test_names_that_are_not_utf8_are_an_error(extra: bytes, message: str) -> None:
    body = b"\x08\x01\x10\xc1\xff\xff\xff\x0f" + extra
    data = MAGIC + bytes([len(body)]) + body + (len(body) + 1).to_bytes(4, "big")
    with pytest.raises(SummaryError, match=message):
        parse_file(memoryview(data))


def test_bytes_between_summary_and_length_are_an_error() -> None:
    body = b"\x08\x01\x10\xc1\xff\xff\xff\x0f"
    data = MAGIC + bytes([len(body)]) + body + b"\x00" + (len(body) + 2).to_bytes(4, "big")
    with pytest.raises(SummaryError, match="contains 1 byte between the FileSummary and its length"):
        parse_file(memoryview(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    for candidate in (data, MAGIC + data, MAGIC + data + len(data).to_bytes(4, "big")):
        with suppress(ImageFormatError):
            parse_file(memoryview(candidate), "fsimage_x")


@given(st.data())
def test_every_truncated_file_is_refused(data: st.DataObject) -> None:
    whole = build_image(minimal_sections())
    with pytest.raises(ImageFormatError):
        parse_file(memoryview(whole)[: data.draw(st.integers(0, len(whole) - 1))])
