"""`checkpointer image convert`, and the image commands on unknown layouts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from hadoop_common.text_layout import byte_count
from image_format.codecs import CODEC_SHORT_NAMES
from image_format.layout import NEWEST_LAYOUT
from image_format.md5_file import md5_of_file, md5_path, read_md5_file
from image_format.reader import ImageFile
from image_format.summary import is_sub_section
from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import ImageBuilder
from tests.recorded_cases import RECORDED, Case, imgcmp

CASE = Case(RECORDED / "hadoop-2.7.3" / "acl-xattr")
CODED = Case(RECORDED / "hadoop-3.4.1" / "erasure-coding")


@pytest.mark.parametrize("name", CODEC_SHORT_NAMES)
def test_codecs_can_be_given_by_short_names(name: str, tmp_path: Path) -> None:
    target = tmp_path / "image"
    code, out, err = run_cli("image", "convert", CASE.image("before"), target, "--codec", name, "--json")
    assert (code, err) == (0, "")
    reported = json.loads(out)
    assert reported["codec"] == CODEC_SHORT_NAMES[name]
    assert reported["md5"] == md5_of_file(target).hex() == read_md5_file(target).hex()
    assert reported["size"] == target.stat().st_size
    assert imgcmp.compare(imgcmp.Image(str(CASE.image("before"))), imgcmp.Image(str(target))) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image", "image.md5"]


def test_layout_and_codec_class_name_are_accepted(tmp_path: Path) -> None:
    target = tmp_path / CASE.image("before").name
    codec = "org.apache.hadoop.io.compress.Lz4Codec"
    code, out, _ = run_cli("image", "convert", CASE.image("before"), target, "--layout", "-67", "--codec", codec)
    assert code == 0
    assert "layout -67, Lz4Codec" in out
    with ImageFile.open(target) as image:
        assert (image.layout_version, image.codec) == (-67, codec)


def test_number_of_sub_sections_is_an_option(tmp_path: Path) -> None:
    target = tmp_path / "image"
    assert run_cli("image", "convert", CODED.image("before"), target, "--sub-sections", "4").code == 0
    with ImageFile.open(target) as image:
        assert sum(is_sub_section(entry.name) for entry in image.sections) >= 4
    packed = ("image", "convert", target, tmp_path / "x", "--sub-sections", "4", "--codec", "gzip")
    code, _, err = run_cli(*packed)
    assert code == 5
    assert "add --parallel-compressed for newer NameNodes" in err
    assert run_cli(*packed, "--parallel-compressed").code == 0
    with ImageFile.open(tmp_path / "x") as image:
        assert sum(is_sub_section(entry.name) for entry in image.sections) >= 4


def test_a_lossy_conversion_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    code, out, err = run_cli("image", "convert", CODED.image("after"), tmp_path / "x", "--layout", "-63")
    assert (code, out) == (5, "")
    assert "layout version -63 cannot represent erasure-coded files" in err
    assert "next: " in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_required_space_is_checked_first(free: int, tmp_path: Path) -> None:
    source, target = CASE.image("before"), tmp_path / "image"
    with mock.patch("hadoop_common.disk_space.shutil.disk_usage", return_value=SimpleNamespace(free=free)):
        code, _, err = run_cli("image", "convert", source, target)
    needed = byte_count(source.stat().st_size)
    short = "" if free else ": this may be too little"
    assert err.splitlines()[0] == f"space in {tmp_path}: about {needed} needed, {byte_count(free)} free{short}"
    # the free space determines the result, whatever the estimate is
    assert (code, target.exists()) == (0, True)


@pytest.mark.parametrize("existing", ["image", "image.md5"])
def test_existing_files_are_replaced_only_with_force(existing: str, tmp_path: Path) -> None:
    (tmp_path / existing).write_text("precious")
    before = fingerprint(tmp_path)
    code, _, err = run_cli("image", "convert", CASE.image("before"), tmp_path / "image")
    assert code == 6
    assert f"{existing} already exists" in err
    assert fingerprint(tmp_path) == before
    assert run_cli("image", "convert", CASE.image("before"), tmp_path / "image", "--force").code == 0
    assert (tmp_path / "image").read_bytes() == CASE.image("before").read_bytes()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    source = CASE.image("before")
    assert run_cli("image", "convert", source, tmp_path / "x", "--sub-sections", "-1").code == 2
    code, _, err = run_cli("image", "convert", source, tmp_path / "fsimage_0000000000000000001")
    assert code == 2
    assert "names transaction 1" in err
    code, _, err = run_cli("image", "convert", source, tmp_path / "x", "--codec", "rar")
    assert code == 5
    assert "codec 'rar' is not known" in err
    code, _, err = run_cli("image", "convert", source, tmp_path / "x", "--layout", str(NEWEST_LAYOUT - 1))
    assert code == 2
    assert run_cli("image", "convert", source, tmp_path / "none" / "x").code == 6
    assert list(tmp_path.iterdir()) == []


def test_the_digest_of_the_source_is_verified(tmp_path: Path) -> None:
    source = tmp_path / CASE.image("before").name
    data = bytearray(CASE.image("before").read_bytes())
    data[40] ^= 1
    source.write_bytes(data)
    md5_path(source).write_bytes(md5_path(CASE.image("before")).read_bytes())
    assert run_cli("image", "convert", source, tmp_path / "x").code == 3
    md5_path(source).unlink()
    source.write_bytes(CASE.image("before").read_bytes())
    code, _, err = run_cli("image", "convert", source, tmp_path / "x")
    assert code == 0
    assert "has no .md5 file" in err


def test_an_image_that_no_namenode_loads_is_refused(tmp_path: Path) -> None:
    builder = ImageBuilder(-67)
    builder.info.lastAllocatedBlockId = 7
    code, _, err = run_cli("image", "convert", builder.save(tmp_path / "in"), tmp_path / "x", "--codec", "gzip")
    assert (code, "section NS_INFO" in err, "`checkpointer image verify`" in err) == (3, True, True), err
    linked = Case(RECORDED / "hadoop-3.5.0" / "symlinks").image("after")
    code, _, err = run_cli("image", "convert", linked, tmp_path / "x", "--layout", "-66")
    assert (code, "image verify" in err) == (3, True), err
    assert not (tmp_path / "x").exists()


# ---- unknown layouts ---------------------------------------------------------------------------------------


def test_unknown_layouts_are_copied(unknown: Path, tmp_path: Path) -> None:
    code, _, err = run_cli("image", "convert", unknown, tmp_path / "copy")
    assert code == 0
    assert "layout version -70" in err
    assert (tmp_path / "copy").read_bytes() == unknown.read_bytes()
    code, _, err = run_cli("image", "convert", unknown, tmp_path / "other", "--layout", "-67")
    assert code == 5
    assert "-70 is newer than the newest known version" in err


def test_images_before_the_protobuf_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "fsimage_0000000000000000007"
    path.write_bytes(b"\xff\xff\xff\xd0" + bytes(200))
    for command in (["info", path], ["convert", path, tmp_path / "x"]):
        code, _, err = run_cli("image", *command)
        assert code == 5
        assert "in the format of Hadoop before 2.4 (layout version -48)" in err
