"""The XML dump, compared with the output of the real OfflineImageViewer of each release."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.java_numbers import signed32, signed64
from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_tools.dump.records import PROGRESS_STEP, ImageRecords
from image_tools.dump.values import mode_symbols, utc_millis
from image_tools.dump.xml_dump import XmlForm, dump_xml, form_of
from image_tools.dump.xml_elements import number, text
from tests.image_format.image_support import RECORDED, build_image, delimited, minimal_sections, store
from tests.image_tools.dump_support import Viewed, joined, open_image, recorded_views, xml_of

HADOOP_3 = RECORDED / "hadoop-3.4.1"


@pytest.mark.recorded
@pytest.mark.parametrize("view", recorded_views(large=True), ids=lambda view: view.id)
def test_the_dump_equals_the_viewers_output_byte_for_byte(view: Viewed) -> None:
    got, expected = xml_of(view.image, view.form, view.release), view.expected()
    if got != expected:
        # shows the elements that differ; `==` of megabytes shows nothing useful
        lines = [sorted(text.replace("><", ">\n<").split("\n")) for text in (got, expected)]
        assert lines[0] == lines[1]
        pytest.fail("same elements in another order")


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["unknown-section-last", "unknown-section-second"])
def test_unknown_sections_are_omitted(name: str) -> None:
    """Hadoop's viewer stops at the section; the case was made from another case by adding the section."""
    view = Viewed(HADOOP_3 / "odd" / name / "oiv_before.xml.gz")
    assert not view.complete
    plain = Viewed(HADOOP_3 / "snapshots-rename-references" / "oiv_after.xml.gz")
    assert xml_of(view.image) == plain.expected()
    with open_image(view.image) as image:
        assert ImageRecords(image).unknown_sections == ["FUTURE_SECTION"]


@pytest.mark.recorded
def test_the_form_follows_the_layout_version() -> None:
    old = Viewed(HADOOP_3 / "upgrade-from-2.7.3" / "oiv_before.xml.gz")
    assert xml_of(old.image) == xml_of(old.image, XmlForm.RELEASE_2) != old.expected()
    assert "perferredBlockSize" in xml_of(old.image)
    assert form_of(-63) is XmlForm.RELEASE_2
    assert form_of(-64) is form_of(-67) is form_of(-70) is XmlForm.RELEASE_3


# ---- elements ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a<b>&\"'", "a&lt;b&gt;&amp;&quot;&apos;"),
        ("back\\slash", "back\\005c;slash"),
        ("\x00\x1f\t\n\r", "\\0000;\\001f;\t\n\r"),
        ("\ufffe\uffff\ufffd😀", "\\fffe;\\ffff;\ufffd😀"),
        (b"\xff.", "\ufffd."),
    ],
)
def test_special_characters_are_escaped(value: str | bytes, expected: str) -> None:
    assert text("t", value) == f"<t>{expected}</t>"


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r")))
def test_an_xml_parser_restores_the_text(value: str) -> None:
    parsed = ElementTree.fromstring(text("name", value)).text or ""
    assert re.sub(r"\\([0-9a-f]{4});", lambda found: chr(int(found[1], 16)), parsed) == value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_are_formatted_as_in_java(value: int) -> None:
    assert signed64(value & (1 << 64) - 1) == value
    assert signed32(value & 0xFFFFFFFF) == ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
    assert number("n", value) == f"<n>{value}</n>"
    assert re.fullmatch(r"\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}", utc_millis(value))


def test_dates_are_formatted_as_in_java() -> None:
    assert utc_millis(0) == "1970-01-01T00:00:00.000"
    assert utc_millis(-1) == "1969-12-31T23:59:59.999"
    assert utc_millis((1 << 63) - 1) == "292278994-08-17T07:12:55.807"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o755, "rwxr-xr-x"), (0, "---------"), (0o1777, "rwxrwxrwt"), (0o1776, "rwxrwxrwT"), (0o7124, "--x-w-r-T")],
)
def test_mode_symbols(mode: int, expected: str) -> None:
    assert mode_symbols(mode) == expected


# ---- images made here ---------------------------------------------------------------------------------------


def image_with(tmp_path: Path, changed: dict[str, bytes], layout_version: int = -63) -> Path:
    sections = dict(minimal_sections()) | changed
    return store(tmp_path, build_image(list(sections.items()), layout_version=layout_version))


def inode_section(count: int, *inodes: pb.INode) -> bytes:
    return delimited([pb.INodeSection(lastInodeId=16385, numInodes=count), *inodes])


def test_a_newer_layout_with_unknown_fields_is_printed(tmp_path: Path) -> None:
    future = encode_delimited(pb.INodeSection(lastInodeId=16385, numInodes=1))
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385, name=b"").SerializeToString() + b"\xf8\x01\x05"
    section = future + bytes([len(root)]) + root
    path = image_with(tmp_path, {"INODE": section}, layout_version=-90)
    got = xml_of(path)
    assert "<layoutVersion>-90</layoutVersion>" in got
    assert "<inode><id>16385</id><type>DIRECTORY</type><name></name></inode>" in got


def test_an_inode_without_user_and_group_names(tmp_path: Path) -> None:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385)
    root.directory.permission = 0o1777
    path = image_with(tmp_path, {"INODE": inode_section(1, root)})
    assert "<permission>null:null:rwxrwxrwt</permission>" in xml_of(path, XmlForm.RELEASE_2)
    assert "<permission>null:null:1777</permission>" in xml_of(path, XmlForm.RELEASE_3)


def test_a_string_missing_from_the_table_is_an_error(tmp_path: Path) -> None:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385)
    root.directory.permission = 9 << 40
    with pytest.raises(RecordError, match="serial 9"):
        xml_of(image_with(tmp_path, {"INODE": inode_section(1, root)}))


@pytest.mark.parametrize("count", [0, 2])
def test_a_count_different_from_the_headers_is_an_error(tmp_path: Path, count: int) -> None:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385)
    with pytest.raises(RecordError, match=f"header counts {count} inodes, found 1"):
        xml_of(image_with(tmp_path, {"INODE": inode_section(count, root)}))


@pytest.mark.parametrize(
    ("section", "head"),
    [
        ("SNAPSHOT", pb.SnapshotSection(numSnapshots=1)),
        ("SNAPSHOT_DIFF", pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=1, numOfDiff=1)),
        ("SECRET_MANAGER", pb.SecretManagerSection(numKeys=1)),
        ("CACHE_MANAGER", pb.CacheManagerSection(nextDirectiveId=1, numPools=1, numDirectives=0)),
    ],
)
@pytest.mark.parametrize("form", list(XmlForm))
def test_a_section_that_ends_early_is_an_error(
    tmp_path: Path, section: str, head: pb.SnapshotSection, form: XmlForm
) -> None:
    path = image_with(tmp_path, {section: encode_delimited(head)})
    with pytest.raises(RecordError, match=rf"{section}.*the section ends where a \w+ is expected"):
        xml_of(path, form)


def test_progress_counts_inodes(tmp_path: Path) -> None:
    count = PROGRESS_STEP + 1
    inodes = [pb.INode(type=pb.INode.FILE, id=16385 + i) for i in range(count)]
    reported: list[int] = []
    with open_image(image_with(tmp_path, {"INODE": inode_section(count, *inodes)})) as image:
        text = joined(dump_xml(ImageRecords(image, reported.append)))
    assert reported == [PROGRESS_STEP, count]
    assert text.count("<inode>") == count
