"""Images made from XML, including the XML of Hadoop 3.4.1, have the same meaning as the original images."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import ImageFormatError
from image_format.layout import NEWEST_LAYOUT
from image_tools.dump.xml_dump import XmlForm
from image_tools.dump.xml_elements import escaped
from image_tools.load.image import load_image
from image_tools.load.messages import ElementFields, ImageTextError
from tests.cli_runner import run_cli
from tests.depth import deep
from tests.image_tools.dump_support import xml_of
from tests.recorded_cases import RECORDED, imgcmp

CASES = sorted(
    path
    for path in RECORDED.glob("hadoop-3.4.1/*/oiv_after.xml.gz")
    if "rolling-upgrade" not in path.parent.name and "medium" not in path.parent.name
)
SMALL = RECORDED / "webhdfs-3.4.2" / "fsimage_0000000000000000024"


def image_of(case: Path) -> Path:
    return next(each for each in (case / "after").glob("fsimage_*") if each.suffix != ".md5")


def loaded(xml: bytes, target: Path) -> int:
    with target.open("wb") as out:
        return load_image(io.BytesIO(xml), lambda piece: out.write(piece) and None)


def cases() -> list[Path]:
    chosen = {"acl-xattr", "cache", "encryption-zone", "erasure-coding", "open-files-leases", "quotas-storage-policy"}
    chosen |= {"snapshots-rename-references", "symlinks"}
    return [path for path in CASES if deep() or path.parent.name in chosen]


@pytest.mark.recorded
@pytest.mark.parametrize("path", cases(), ids=lambda path: path.parent.name)
def test_a_dumped_and_loaded_image_equals_the_original(path: Path, tmp_path: Path) -> None:
    image, target = image_of(path.parent), tmp_path / "image"
    for xml in (gzip.decompress(path.read_bytes()), xml_of(image, XmlForm.RELEASE_3).encode()):
        txid = loaded(xml, target)
        assert txid == int(image.name.rpartition("_")[2])
        assert list(imgcmp.compare(imgcmp.Image(str(image)), imgcmp.Image(str(target)))) == []


def test_load_command_writes_image_and_digest(tmp_path: Path) -> None:
    xml, target = tmp_path / "x.xml", tmp_path / "fsimage_0000000000000000024"
    xml.write_text(run_cli("image", "dump", SMALL).out)
    done = run_cli("image", "load", xml, target, "--codec", "gzip")
    assert (done.code, done.err) == (0, "")
    assert run_cli("image", "verify", target).code == 0
    assert run_cli("image", "diff", SMALL, target).out.startswith("the same")
    assert run_cli("image", "load", xml, target).code == 6
    assert run_cli("image", "load", xml, tmp_path / "fsimage_0000000000000000025").code == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == [target.name, f"{target.name}.md5", "x.xml"]


def test_an_image_that_no_namenode_loads_is_not_written(tmp_path: Path) -> None:
    xml = tmp_path / "x.xml"
    # the directory /t is its own child
    xml.write_text(run_cli("image", "dump", SMALL).out.replace("<child>16387</child>", "<child>16386</child>"))
    done = run_cli("image", "load", xml, tmp_path / "image")
    assert done.code == 3
    assert "a NameNode would not load the image" in done.err
    assert "next: Correct the XML." in done.err
    assert [each.name for each in tmp_path.iterdir()] == ["x.xml"]


def test_a_missing_directory_is_named_in_the_next_step(tmp_path: Path) -> None:
    xml = tmp_path / "x.xml"
    xml.write_text(run_cli("image", "dump", SMALL).out)
    done = run_cli("image", "load", xml, tmp_path / "none" / "image")
    assert done.code == 6
    assert "next: Check that the directory exists" in done.err


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b"HDFSIMG1" + bytes(50), "the file is an fsimage"),
        (b"\xff\xff\xff\xc1\x00\x00\x00\x00", "the file is an edit log segment of layout -63"),
        (b"<?xml version='1.0'?><EDITS>", "the file is the XML of an edit log"),
        (b"\x1f\x8b\x08", "the file is a gzip file"),
    ],
)
def test_the_error_names_a_file_of_another_kind(content: bytes, problem: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(content)
    outcome = run_cli("image", "load", source, tmp_path / "image")
    assert (outcome.code, f"{source}: {problem}" in outcome.err) == (3, True), outcome.err
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("fsimage>", "image>", "expected <fsimage>"),
        ("<layoutVersion>-67", f"<layoutVersion>{NEWEST_LAYOUT - 1}", f"layout version {NEWEST_LAYOUT - 1}"),
        ("<type>DIRECTORY</type>", "<type>SOCKET</type>", "not a type of inode"),
        ("<mtime>", "<mtime>x", "not a number of 64 bits"),
        ("<name></name>", "<name></name><colour>red</colour>", "an unknown element <colour>"),
        ("root:supergroup:0755", "root", "does not have the form user:group:0755"),
        ("root:supergroup:0755", "root:0755", "does not have the form user:group:0755"),
        ("<numInodes>", "<numInodes>9", "declares 9"),
        ("<count>2</count>", "<count>3</count>", "declares 3 diffs but has 2"),
        ("</fsimage>", "", "not well-formed"),
        ("INodeSection>", "INodesSection>", "is unknown"),
        ("<NameSection>", "<NameSection><txid>1</txid>", "2 elements <txid>"),
    ],
)
def test_other_documents_are_refused(before: str, after: str, problem: str, tmp_path: Path) -> None:
    changed = xml_of(SMALL).replace(before, after)
    with pytest.raises(ImageTextError, match=problem):
        loaded(changed.encode(), tmp_path / "image")


def test_utf_16_is_refused(tmp_path: Path) -> None:
    """In UTF-16, the byte of a carriage return is a part of characters such as U+010D."""
    with pytest.raises(ImageTextError, match="not UTF-8"):
        loaded(xml_of(SMALL).encode("utf-16"), tmp_path / "image")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_round_trip(text: str) -> None:
    document = f"<a><t>{escaped(text)}</t></a>".encode().replace(b"\r", b"&#13;")
    assert ElementFields(ElementTree.fromstring(document)).text("t") == text


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(ImageFormatError):
        load_image(io.BytesIO(data), lambda piece: None)
