"""`checkpointer merge --layout`, `--allow-unknown-layout`, and the sub-sections of merged images."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.merge import merge
from engine.settings import MergeSettings
from hadoop_common.storage_info import parse_version
from image_format.codecs import CODECS, codec_class_name
from image_format.layout import NEWEST_LAYOUT
from image_format.md5_file import write_md5_file
from image_format.reader import ImageFile
from image_format.sub_section_rules import SubSectionRule, sub_section_faults, sub_sections_of
from image_format.summary import is_sub_section
from image_tools.convert import convert_image
from image_tools.convert.small_sections import erasure_coding_section
from journal.binary_codec import encode_op
from journal.ops import (
    AddCachePoolOp,
    CachePoolInfo,
    EditOp,
    EnableErasureCodingPolicyOp,
    EndLogSegmentOp,
    SetQuotaByStorageTypeOp,
    SetStoragePolicyOp,
    SetXAttrOp,
    StartLogSegmentOp,
    XAttr,
)
from journal.segment_file import SegmentTransactions
from journal.segment_format import encode_header
from tests.checkpointer.upgrade_cases import UPGRADES, layout_after
from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import BASE_TXID, ImageBuilder, Saved, numbered
from tests.engine.op_makers import mkdir, times
from tests.recorded_cases import PLAIN_CASES, RECORDED, Case, imgcmp
from tests.site_files import write_site

PLAIN_OLD = [case for case in PLAIN_CASES if case.id.startswith("hadoop-2.7.3/")]
SUB_SECTIONED = Case(RECORDED / "hadoop-3.4.1" / "sub-sections")
CODED = Case(RECORDED / "hadoop-3.4.1" / "erasure-coding")
VERSION_TEXT = "namespaceID=7\nclusterID=CID-a\ncTime=0\nstorageType=NAME_NODE\nblockpoolID=BP-1\nlayoutVersion={}\n"


@pytest.mark.recorded
@pytest.mark.parametrize("case", UPGRADES, ids=lambda case: case.id)
def test_merge_to_a_new_layout_equals_an_upgrade_by_hadoop(case: Case, tmp_path: Path) -> None:
    current = case.copy_to(tmp_path)
    layout = layout_after(case)
    version = (current / "VERSION").read_bytes()
    code, out, err = run_cli("merge", tmp_path, "--layout", str(layout), "--as-hadoop", "--json")
    assert code == 0, err
    reported = json.loads(out)
    assert (reported["layoutVersion"], reported["versionFileLayout"]) == (layout, case.info["before_layoutVersion"])
    assert f"VERSION still has {case.info['before_layoutVersion']}" in err
    assert (current / "VERSION").read_bytes() == version
    assert case.differences(Path(reported["image"])) == []


@pytest.mark.recorded
@pytest.mark.parametrize("case", PLAIN_OLD[::3], ids=lambda case: case.id)
def test_merge_at_a_new_layout_equals_merge_and_conversion(case: Case, tmp_path: Path) -> None:
    """Merging at -67 has the same result as merging and then converting, except where Hadoop 3 replays differently."""
    case.copy_to(tmp_path)
    merged = merge_directory(plan_directory(tmp_path), MergeSettings(layout_version=-67)).saved.paths[0]
    converted = tmp_path / "converted"
    with ImageFile.open(case.image("after")) as image, converted.open("wb") as out:
        convert_image(image, out.write, layout_version=-67)
    expected, actual = imgcmp.Image(str(converted)), imgcmp.Image(str(merged))
    assert (actual.layout, actual.mask) == (-67, 3)
    assert set(actual.inodes) == set(expected.inodes)
    assert actual.dirs == expected.dirs
    assert actual.ec == expected.ec


@pytest.mark.recorded
def test_merge_is_refused_if_the_layout_cannot_represent_the_image(tmp_path: Path) -> None:
    CODED.copy_to(tmp_path)
    before = fingerprint(tmp_path)
    code, _, err = run_cli("merge", tmp_path, "--layout", "-63")
    assert code == 5
    assert "layout version -63 cannot represent" in err
    assert fingerprint(tmp_path) == before


NVDIMM_QUOTA = SetQuotaByStorageTypeOp(src="/d", storage_type=5, ds_quota=7)
NO_QUOTA = SetQuotaByStorageTypeOp(src="/d", storage_type=5, ds_quota=-1)
POOL = AddCachePoolOp(pool=CachePoolInfo("p", "eve", "staff", max_relative_expiry=5))


@pytest.mark.parametrize(
    ("layout", "op", "lost"),
    [
        (-66, NVDIMM_QUOTA, "directories with a quota for NVDIMM storage (1, the first is inode 20000)"),
        (-66, SetStoragePolicyOp(path="/d", policy_id=14), "inodes with storage policy ALL_NVDIMM (1, "),
        (-63, SetStoragePolicyOp(path="/d", policy_id=1), "inodes with storage policy PROVIDED (1, "),
        (-63, POOL, "the maximum relative expiry of cache pool p"),
        (-63, EnableErasureCodingPolicyOp(policy_name="RS-6-3-1024k"), "enabled or user-defined: id 1"),
    ],
)
def test_merge_is_refused_if_the_layout_cannot_represent_the_edits(
    layout: int, op: EditOp, lost: str, tmp_path: Path
) -> None:
    builder = ImageBuilder(-67)
    builder.sections["ERASURE_CODING"] = erasure_coding_section()
    current = directory(tmp_path, builder, [mkdir("/d", 20000), op])
    before = fingerprint(tmp_path)
    for options in ((), ("--dry-run",)):
        code, _, err = run_cli("merge", tmp_path, "--layout", str(layout), *options)
        assert code == 5
        assert f"layout version {layout} cannot represent " in err
        assert lost in err
        assert str(current / "fsimage_") in err
        assert fingerprint(tmp_path) == before
    assert run_cli("merge", tmp_path).code == 0


def test_features_that_edits_remove_do_not_prevent_an_older_layout(tmp_path: Path) -> None:
    directory(tmp_path, ImageBuilder(-67), [mkdir("/d", 20000), NVDIMM_QUOTA, NO_QUOTA])
    code, out, err = run_cli("merge", tmp_path, "--layout", "-66", "--json")
    assert code == 0, err
    reported = json.loads(out)
    assert reported["layoutVersion"] == -66
    assert Saved(Path(reported["image"]).read_bytes()).summary.layoutVersion == -66 & 0xFFFFFFFF


def test_codec_that_older_releases_lack_is_replaced(tmp_path: Path) -> None:
    zstd, default = codec_class_name("zstd"), codec_class_name("default")
    current = directory(tmp_path, ImageBuilder(-67), [mkdir("/d", 20000)])
    (path,) = (each for each in current.glob("fsimage_*") if each.suffix != ".md5")
    with ImageFile.open(path) as image:
        packed = bytearray()
        convert_image(image, packed.extend, codec=zstd)
    path.write_bytes(packed)
    write_md5_file(path, hashlib.md5(packed).digest())
    code, _, err = run_cli("image", "convert", path, tmp_path / "x", "--layout", "-63")
    assert (code, "releases of layout version -63 lack ZStandardCodec" in err) == (5, True)
    assert "Add --codec default." in err
    assert not (tmp_path / "x").exists()
    assert run_cli("image", "convert", path, tmp_path / "x", "--layout", "-63", "--codec", "zstd").code == 0
    for layout, codec in (("-64", zstd), ("-63", default)):
        merged = Path(json.loads(run_cli("merge", tmp_path, "--layout", layout, "--json").out)["image"])
        with ImageFile.open(merged) as image:
            assert (image.layout_version, image.codec) == (int(layout), codec)
        merged.unlink()


def test_layouts_out_of_range_are_rejected(tmp_path: Path) -> None:
    directory(tmp_path, ImageBuilder(-67), [mkdir("/d", 20000)])
    before = fingerprint(tmp_path)
    for layout in (str(NEWEST_LAYOUT - 1), "-59", "5"):
        code, _, err = run_cli("merge", tmp_path, "--layout", layout)
        assert code == 2
        assert f"is not in the range {NEWEST_LAYOUT}<=x<=-60" in err
    assert fingerprint(tmp_path) == before


def test_layout_option_is_checked_without_new_edits(tmp_path: Path) -> None:
    directory(tmp_path, ImageBuilder(-67), [mkdir("/d", 20000)])
    assert run_cli("merge", tmp_path).code == 0
    idle = run_cli("merge", tmp_path, "--layout", "-63")
    assert ("nothing to merge" in idle.out, "--layout is not applied" in idle.err) == (True, True)
    assert run_cli("merge", tmp_path, "--layout", "67").code == 2


# ---- made-up directories -----------------------------------------------------------------------------------


def directory(
    root: Path, builder: ImageBuilder, edits: list[EditOp], *, version: int = 0, edits_layout: int = 0
) -> Path:
    """Make a storage directory of the builder's image and one finalized segment of `edits`; return `current`."""
    current = root / "current"
    builder.save(current)
    layout = edits_layout or builder.layout_version
    ops = numbered([StartLogSegmentOp(), *edits, EndLogSegmentOp()], BASE_TXID)
    name = f"edits_{BASE_TXID + 1:019d}-{BASE_TXID + len(ops):019d}"
    (current / name).write_bytes(encode_header(layout) + b"".join(encode_op(op, layout) for op in ops))
    (current / "VERSION").write_text(VERSION_TEXT.format(builder.layout_version))
    return current


@pytest.mark.parametrize("layout", range(NEWEST_LAYOUT, -59))
@pytest.mark.parametrize("source", [-60, -63, -64, -67])
def test_every_layout_can_be_merged_to_every_other(source: int, layout: int, tmp_path: Path) -> None:
    builder = ImageBuilder(source)
    builder.file("/f")
    current = directory(tmp_path, builder, [mkdir("/d", 20000), times("/f", mtime=7)])
    code, out, err = run_cli("merge", tmp_path, "--layout", str(layout), "--json")
    assert code == 0, err
    reported = json.loads(out)
    image = Saved(Path(reported["image"]).read_bytes())
    assert image.summary.layoutVersion == layout & 0xFFFFFFFF
    assert ("/d" in image, image.mtime("/f")) == (True, 7)
    assert image.status(image["/d"].directory.permission) == image.status(image["/"].directory.permission)
    assert ("VERSION still has" in err) == (source != layout)
    assert parse_version((current / "VERSION").read_bytes(), "").layout_version == source
    assert run_cli("merge", tmp_path).code == 0


@pytest.mark.parametrize("layout", [-56, -59])
def test_layouts_too_old_to_merge_are_rejected(layout: int, tmp_path: Path) -> None:
    directory(tmp_path, ImageBuilder(layout), [mkdir("/d", 20000)], edits_layout=-60)
    code, _, err = run_cli("merge", tmp_path)
    assert code == 5
    assert f"layout version {layout} is older than the oldest version that can be merged" in err


# ---- unknown layouts ---------------------------------------------------------------------------------------


def test_unknown_layouts_require_the_option(tmp_path: Path) -> None:
    builder = ImageBuilder(-70)
    builder.file("/f")
    builder.sections["FUTURE_SECTION"] = b"what may this be"
    directory(tmp_path, builder, [mkdir("/d", 20000)], edits_layout=-67)
    before = fingerprint(tmp_path)
    code, _, err = run_cli("merge", tmp_path)
    assert code == 5
    assert "-70 is newer than the newest known version" in err
    assert "--allow-unknown-layout" in err
    assert fingerprint(tmp_path) == before
    code, out, err = run_cli("merge", tmp_path, "--allow-unknown-layout", "--json")
    assert code == 0, err
    image = Saved(Path(json.loads(out)["image"]).read_bytes())
    assert image.summary.layoutVersion == -70 & 0xFFFFFFFF
    assert image.sections["FUTURE_SECTION"] == b"what may this be"
    assert "/d" in image


def test_unknown_layouts_are_not_converted(tmp_path: Path) -> None:
    directory(tmp_path, ImageBuilder(-70), [mkdir("/d", 20000)], edits_layout=-67)
    code, _, err = run_cli("merge", tmp_path, "--allow-unknown-layout", "--layout", "-67")
    assert code == 5
    assert "newer than the newest known version" in err


def test_edits_of_an_unknown_layout_are_rejected(tmp_path: Path) -> None:
    current = directory(tmp_path, ImageBuilder(-70), [mkdir("/d", 20000)], edits_layout=-67)
    segment = next(current.glob("edits_*"))
    segment.write_bytes((-70).to_bytes(4, "big", signed=True) + segment.read_bytes()[4:])
    code, _, err = run_cli("merge", tmp_path, "--allow-unknown-layout")
    assert code == 5
    assert "-70 is not one of" in err


# ---- sub-sections ------------------------------------------------------------------------------------------


def files(count: int) -> ImageBuilder:
    builder = ImageBuilder(-67)
    for number in range(count):
        builder.file(f"/f{number}")
    return builder


def merged(tmp_path: Path, builder: ImageBuilder, rule: SubSectionRule | None = None, codec: str = "") -> Path:
    directory(tmp_path, builder, [mkdir("/d", 20000), times("/f1", mtime=5)])
    plan = plan_directory(tmp_path)
    ops = SegmentTransactions(plan.segments, plan.image_txid + 1)
    return merge(plan.image, ops, [plan.folder], MergeSettings(codec=codec, sub_sections=rule)).saved.paths[0]


def count_of(path: Path, name: str) -> int:
    with ImageFile.open(path) as image:
        assert sub_section_faults(image.sections) == []
        section = next(entry for entry in image.sections if entry.name == name)
        return len(sub_sections_of(image.sections, section))


@pytest.mark.parametrize(
    ("rule", "codec", "expected"),
    [
        (SubSectionRule(4, 42), "", 4),
        (SubSectionRule(4, 43), "", 0),
        (SubSectionRule(1, 1), "", 1),
        (SubSectionRule(100, 1), "", 42),
        (SubSectionRule(4, 1), "org.apache.hadoop.io.compress.GzipCodec", 0),
        (SubSectionRule(4, 1, compressed=True), "org.apache.hadoop.io.compress.GzipCodec", 4),
        (SubSectionRule(4, 1, compressed=True), "org.apache.hadoop.io.compress.SnappyCodec", 4),
        (SubSectionRule(4, 43, compressed=True), "org.apache.hadoop.io.compress.GzipCodec", 0),
        (None, "", 0),
    ],
)
def test_large_images_get_sub_sections_where_hadoop_loads_in_parallel(
    rule: SubSectionRule | None, codec: str, expected: int, tmp_path: Path
) -> None:
    image = merged(tmp_path, files(40), rule, codec)
    assert count_of(image, "INODE") == expected
    imgcmp.Image(str(image))


@pytest.mark.parametrize("codec", [name for name in CODECS if name])
def test_compressed_image_with_sub_sections_has_equal_sections(codec: str, tmp_path: Path) -> None:
    rule = SubSectionRule(4, 1, compressed=True)
    (tmp_path / "plain").mkdir()
    (tmp_path / "packed").mkdir()
    with (
        ImageFile.open(merged(tmp_path / "plain", files(40), rule)) as plain,
        ImageFile.open(merged(tmp_path / "packed", files(40), rule, codec)) as packed,
    ):
        assert [entry.name for entry in packed.sections] == [entry.name for entry in plain.sections]
        for entry in plain.sections:
            if not is_sub_section(entry.name):
                assert packed.section_bytes(entry.name) == plain.section_bytes(entry.name)


@pytest.mark.parametrize(("wanted", "expected"), [("true", 3), ("false", 0)])
def test_sub_sections_of_compressed_images_follow_the_configuration(wanted: str, expected: int, tmp_path: Path) -> None:
    values = {
        "dfs.image.compress": "true",
        "dfs.image.parallel.load": "true",
        "dfs.image.parallel.target.sections": "3",
        "dfs.image.parallel.inode.threshold": "10",
        "checkpointer.image.parallel-compressed": wanted,
    }
    conf = write_site(tmp_path / "conf", values)
    directory(tmp_path, files(40), [mkdir("/d", 20000)])
    code, out, err = run_cli("merge", tmp_path, "--conf", conf, "--json")
    assert code == 0, err
    image = Path(json.loads(out)["image"])
    assert count_of(image, "INODE") == expected
    with ImageFile.open(image) as opened:
        assert opened.codec == "org.apache.hadoop.io.compress.DefaultCodec"


def test_sub_sections_follow_the_configuration(tmp_path: Path) -> None:
    sections = "dfs.image.parallel.target.sections"
    values = {"dfs.image.parallel.load": "true", sections: "3", "dfs.image.parallel.inode.threshold": "10"}
    conf = write_site(tmp_path / "conf", values)
    directory(tmp_path, files(40), [mkdir("/d", 20000)])
    code, out, err = run_cli("merge", tmp_path, "--conf", conf, "--json")
    assert code == 0, err
    assert count_of(Path(json.loads(out)["image"]), "INODE") == 3
    write_site(conf, {**values, sections: "0"})
    code, _, err = run_cli("merge", tmp_path, "--conf", conf)
    assert code == 2
    assert sections in err


def test_sub_sections_of_the_old_image_are_kept(tmp_path: Path) -> None:
    plain = files(40)
    with ImageFile.open(plain.save(tmp_path / "plain")) as image:
        out = bytearray()
        convert_image(image, out.extend, sub_sections=5)
    directory(tmp_path / "a", plain, [mkdir("/d", 20000)])
    target = next((tmp_path / "a" / "current").glob("fsimage_" + "?" * 19))
    with ImageFile.open(target) as image:
        assert not any(entry.name == "INODE_SUB" for entry in image.sections)
    store_over(target, bytes(out))
    image_path = merge_directory(plan_directory(tmp_path / "a")).saved.paths[0]
    assert count_of(image_path, "INODE") == 5
    imgcmp.Image(str(image_path))


def store_over(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    write_md5_file(path, hashlib.md5(data).digest())


def test_operations_up_to_the_configured_size_are_merged(tmp_path: Path) -> None:
    large = SetXAttrOp(src="/d", xattrs=(XAttr(0, "a", bytes(2000)),))
    directory(tmp_path, files(40), [mkdir("/d", 20000), large])
    for limit, expected in (("1k", 4), ("4k", 0)):
        conf = write_site(tmp_path / "conf", {"dfs.namenode.max.op.size": limit})
        code, _, err = run_cli("merge", tmp_path, "--conf", conf, "--json")
        assert code == expected, err
        assert ("larger than dfs.namenode.max.op.size, 1024" in err) == (expected != 0)
