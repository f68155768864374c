"""Conversion of recorded images: codecs, layouts and special cases, compared by imgcmp and by the bytes of sections."""

from __future__ import annotations

from pathlib import Path

import pytest

from image_format.codecs import CODECS, find_codec
from image_format.errors import UnsupportedCodecError, UnsupportedConversionError, UnsupportedLayoutError
from image_format.layout import MIN_MERGE_LAYOUT, NEWEST_LAYOUT
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.string_table import StringKind, StringTable
from image_format.sub_section_rules import sub_section_faults
from image_format.summary import is_sub_section
from image_format.varint import encode_delimited
from image_tools.convert import at_layout, convert_image, plan_conversion
from image_tools.convert.strings import convert_strings
from image_tools.verify.checker import verify_image
from tests.image_format.image_support import CODEC_NAMES, RECORDED, image_id, recorded_images
from tests.tools import imgcmp

pytestmark = pytest.mark.recorded

LAYOUTS = range(NEWEST_LAYOUT, MIN_MERGE_LAYOUT + 1)
IMAGES = recorded_images()
ODD = [path for path in IMAGES if "odd" in path.parts and path.parent.name == "before"]
ERASURE_CODED = RECORDED / "hadoop-3.4.1" / "erasure-coding"
OLD = next(path for path in IMAGES if "2.7.3" in str(path) and "acl-xattr" in str(path))
NEW = next(path for path in IMAGES if "3.4.1" in str(path) and "acl-xattr" in str(path))


def convert(source: Path, target: Path, **settings: int | str | None) -> Path:
    with ImageFile.open(source, verify_md5=False) as image, target.open("wb") as out:
        convert_image(image, out.write, **settings)  # type: ignore[arg-type]
    return target


def sections(path: Path) -> dict[str, bytes]:
    with ImageFile.open(path, verify_md5=False) as image:
        names = [entry.name for entry in image.sections if not is_sub_section(entry.name)]
        return {name: bytes(image.section_bytes(name)) for name in names}


def layout_of(path: Path) -> int:
    with ImageFile.open(path, verify_md5=False) as image:
        return image.layout_version


def first(path: Path, name: str, kind: type) -> object:
    with ImageFile.open(path, verify_md5=False) as image:
        return kind.FromString(bytes(next(image.records(name)).body))


# ---- the same layout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", IMAGES, ids=image_id)
def test_a_conversion_without_changes_is_a_copy(path: Path, tmp_path: Path) -> None:
    assert convert(path, tmp_path / "copy").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("path", [OLD, NEW], ids=image_id)
def test_every_codec_round_trips(path: Path, codec: str, tmp_path: Path) -> None:
    packed = convert(path, tmp_path / "packed", codec=codec)
    with ImageFile.open(packed, verify_md5=False) as image:
        assert image.codec == codec
    assert sections(packed) == sections(path)
    assert imgcmp.compare(imgcmp.Image(str(path)), imgcmp.Image(str(packed))) == []
    back = convert(packed, tmp_path / "back", codec="")
    assert sections(back) == sections(path)


@pytest.mark.parametrize("path", ODD, ids=image_id)
def test_a_codec_change_keeps_unusual_parts(path: Path, tmp_path: Path) -> None:
    packed = convert(path, tmp_path / "packed", codec="org.apache.hadoop.io.compress.ZStandardCodec")
    assert list(sections(packed)) == list(sections(path))
    assert sections(packed) == sections(path)
    with ImageFile.open(path, verify_md5=False) as before, ImageFile.open(packed, verify_md5=False) as after:
        assert not any(is_sub_section(entry.name) for entry in after.sections)
        for message in (before.summary, after.summary):
            message.ClearField("sections")
            message.ClearField("codec")
        assert before.summary.SerializeToString() == after.summary.SerializeToString()


def test_unknown_codecs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCodecError):
        convert(NEW, tmp_path / "x", codec="no.such.Codec")


# ---- sub-sections ------------------------------------------------------------------------------------------

SUB_SECTIONED = next(path for path in IMAGES if "sub-sections" in path.parts)


def slices(path: Path) -> list[tuple[str, int]]:
    with ImageFile.open(path, verify_md5=False) as image:
        return [(entry.name, entry.length) for entry in image.sections if is_sub_section(entry.name)]


def test_sub_sections_are_kept_if_the_bytes_do_not_change(tmp_path: Path) -> None:
    other = convert(SUB_SECTIONED, tmp_path / "x", layout_version=-66)
    assert slices(other) == slices(SUB_SECTIONED)
    imgcmp.Image(str(other))


def test_sub_sections_can_be_divided_again_and_removed(tmp_path: Path) -> None:
    cut = convert(SUB_SECTIONED, tmp_path / "cut", sub_sections=3)
    assert [name for name, _ in slices(cut)].count("INODE_SUB") == 3
    imgcmp.Image(str(cut))
    plain = convert(cut, tmp_path / "plain", sub_sections=0)
    assert slices(plain) == []
    assert sections(plain) == sections(SUB_SECTIONED)


def test_restored_sub_sections_equal_those_of_hadoop(tmp_path: Path) -> None:
    plain = convert(SUB_SECTIONED, tmp_path / "plain", sub_sections=0)
    again = convert(plain, tmp_path / "again", sub_sections=12)
    for name in ("INODE_SUB", "INODE_DIR_SUB"):
        expected = [entry for entry in slices(SUB_SECTIONED) if entry[0] == name]
        assert [entry for entry in slices(again) if entry[0] == name] == expected


def test_older_layouts_and_compressed_images_have_no_sub_sections(tmp_path: Path) -> None:
    assert slices(convert(SUB_SECTIONED, tmp_path / "old", layout_version=-65)) == []
    assert slices(convert(SUB_SECTIONED, tmp_path / "packed", codec="org.apache.hadoop.io.compress.Lz4Codec")) == []
    with pytest.raises(UnsupportedConversionError, match="sub-sections need layout version -66 or newer"):
        convert(SUB_SECTIONED, tmp_path / "x", sub_sections=4, layout_version=-65, parallel_compressed=True)
    with pytest.raises(UnsupportedConversionError, match=r"NameNodes up to Hadoop 3\.4\.1 do not write sub-sections"):
        convert(SUB_SECTIONED, tmp_path / "x", sub_sections=4, codec="org.apache.hadoop.io.compress.Lz4Codec")


@pytest.mark.parametrize("codec", [name for name in CODECS if name])
def test_compressed_images_get_sub_sections_on_request(codec: str, tmp_path: Path) -> None:
    packed = convert(SUB_SECTIONED, tmp_path / "packed", codec=codec, parallel_compressed=True)
    assert sections(packed) == sections(SUB_SECTIONED)
    with ImageFile.open(packed, verify_md5=False) as image, ImageFile.open(SUB_SECTIONED) as plain:
        assert sub_section_faults(image.sections) == []
        for name in ("INODE_SUB", "INODE_DIR_SUB"):
            ours, hadoops = ([part for part in each.sections if part.name == name] for each in (image, plain))
            for part, expected in zip(ours, hadoops, strict=True):
                stream = find_codec(codec).decompressor().decompress_iter(image.stored_bytes(part))
                assert b"".join(stream) == plain.stored_bytes(expected)
    codes = [finding.code for finding in verify_image(packed).findings.listed]
    assert [code for code in codes if code.startswith("section")] == []


def test_faulty_sub_sections_are_rebuilt_for_another_layout(tmp_path: Path) -> None:
    source = next(path for path in ODD if "sub-sections-partial" in path.parts)
    older = relabelled(source, tmp_path / "older", -66)
    with ImageFile.open(convert(older, tmp_path / "x", layout_version=-67), verify_md5=False) as image:
        parts = [entry for entry in image.sections if entry.name == "INODE_SUB"]
        whole = next(entry for entry in image.sections if entry.name == "INODE")
        assert len(parts) == 11
        assert sum(part.length for part in parts) == whole.length


# ---- other layouts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [-60, -63, -64, -67])
@pytest.mark.parametrize("path", [path for path in IMAGES[::3] if "partial" not in str(path)], ids=image_id)
def test_a_layout_round_trip_keeps_the_namespace(path: Path, layout: int, tmp_path: Path) -> None:
    refused = None
    try:
        other = convert(path, tmp_path / "other", layout_version=layout)
    except UnsupportedConversionError as error:
        refused = error
    if refused is not None:
        assert refused.exit_code == 5
        assert "cannot represent" in str(refused)
        return
    expected, actual = imgcmp.Image(str(path)), imgcmp.Image(str(other))
    assert actual.layout == layout
    assert bool(actual.mask) == (layout <= -65)
    expected.layout = layout
    grown = ("ec:", "cache:") if (layout <= -64) != (layout_of(path) <= -64) else ()
    assert [line for line in imgcmp.compare(expected, actual) if not line.startswith(grown)] == []
    back = convert(other, tmp_path / "back", layout_version=layout_of(path))
    assert imgcmp.compare(imgcmp.Image(str(path)), imgcmp.Image(str(back))) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tables_and_sections_fit_the_target_layout(layout: int, tmp_path: Path) -> None:
    other = convert(OLD, tmp_path / "other", layout_version=layout)
    table = first(other, "STRING_TABLE", pb.StringTableSection)
    assert table.maskBits == (3 if layout <= -65 else 0)
    names = list(sections(other))
    assert ("ERASURE_CODING" in names) == (layout <= -64)
    info = first(other, "NS_INFO", pb.NameSystemSection)
    assert info.HasField("lastAllocatedStripedBlockId") == (layout <= -64)
    if layout <= -64:
        assert names[:2] == ["NS_INFO", "ERASURE_CODING"]
        policies = first(other, "ERASURE_CODING", pb.ErasureCodingSection).policies
        assert [(policy.id, policy.state) for policy in policies] == [(i, pb.DISABLED) for i in range(1, 6)]


def test_string_table_of_a_rolling_upgrade_image_fits_its_stated_layout(tmp_path: Path) -> None:
    """A Hadoop 3 NameNode saved the image; a Hadoop 2 NameNode loads the image only without `maskBits`."""
    saved = RECORDED / "hadoop-3.4.1" / "rolling-upgrade-from-2.7.3" / "after" / "fsimage_0000000000000000103"
    assert layout_of(saved) == -63
    assert first(saved, "STRING_TABLE", pb.StringTableSection).maskBits == 3
    converted = convert(saved, tmp_path / "converted", layout_version=-63)
    assert first(converted, "STRING_TABLE", pb.StringTableSection).maskBits == 0
    assert imgcmp.compare(imgcmp.Image(str(saved)), imgcmp.Image(str(converted))) == []
    assert convert(saved, tmp_path / "copied").read_bytes() == saved.read_bytes()
    again = convert(converted, tmp_path / "again", layout_version=-63)
    assert again.read_bytes() == converted.read_bytes()
    with ImageFile.open(saved) as image:
        with at_layout(image, None) as base:
            assert base is image
        with at_layout(image, -63) as base:
            assert base.string_table().mask_bits == 0


def test_serials_of_the_hadoop_2_string_table_are_dense(tmp_path: Path) -> None:
    other = convert(NEW, tmp_path / "other", layout_version=-64)
    with ImageFile.open(other, verify_md5=False) as image:
        entries = [pb.StringTableEntry.FromString(bytes(r.body)) for r in image.records("STRING_TABLE")][1:]
    assert [entry.id for entry in entries] == list(range(1, len(entries) + 1))
    assert len({entry.str for entry in entries}) == len(entries)


def test_missing_ids_of_a_string_table_are_filled_in_other_layouts() -> None:
    """Hadoop 2.10 loads a table with gaps, but older NameNodes load the strings into an array of numEntry + 1."""
    entries = [pb.StringTableEntry(id=number, str=text) for number, text in ((1, b"a"), (2, b"b"), (5, b"e"))]
    header = pb.StringTableSection(numEntry=len(entries))
    table = StringTable(b"".join(map(encode_delimited, [header, *entries])))
    data, changes = convert_strings(table, -64)
    filled = StringTable(data)
    assert not changes.changed
    assert [serial for _, serial, _ in filled.entries()] == [1, 2, 5, 3, 4]
    assert len(filled) == 5
    assert [filled.lookup(number, StringKind.USER) for number in (1, 2, 5)] == ["a", "b", "e"]


def test_records_keep_their_bytes_in_a_newer_layout(tmp_path: Path) -> None:
    before, after = sections(OLD), sections(convert(OLD, tmp_path / "x", layout_version=-67))
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"NS_INFO", "STRING_TABLE", "CACHE_MANAGER"}


def test_the_refusal_names_everything_that_would_be_lost(tmp_path: Path) -> None:
    path = next(p for p in IMAGES if p.parent == ERASURE_CODED / "after")
    for layout in (-60, -63):
        with pytest.raises(UnsupportedConversionError) as refused:
            convert(path, tmp_path / "x", layout_version=layout)
        assert "erasure-coded files (" in str(refused.value)
        assert "directories or files with an erasure coding policy (" in str(refused.value)
        assert "the first is inode " in str(refused.value)
        assert refused.value.section == "INODE"
        assert refused.value.hint
    convert(path, tmp_path / "x", layout_version=-64)


@pytest.mark.parametrize("layout", [NEWEST_LAYOUT - 1, MIN_MERGE_LAYOUT + 1, 0, 63])
def test_layouts_outside_the_supported_range_are_refused(layout: int, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedConversionError, match=rf"is outside -60 \.\. {NEWEST_LAYOUT}"):
        convert(NEW, tmp_path / "x", layout_version=layout)


# ---- unknown layouts ---------------------------------------------------------------------------------------


def relabelled(path: Path, target: Path, layout: int) -> Path:
    """Return the same image with another layout version in its FileSummary."""
    data = bytearray(path.read_bytes())
    before = b"\x10" + encoded(layout_of(path))
    place = data.rindex(before)
    data[place : place + len(before)] = b"\x10" + encoded(layout)
    target.write_bytes(data)
    return target


def encoded(layout: int) -> bytes:
    value, out = layout & 0xFFFFFFFF, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_an_unknown_layout_is_copied_but_not_converted(tmp_path: Path) -> None:
    path = relabelled(NEW, tmp_path / "new", -70)
    with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image:
        out = bytearray()
        convert_image(image, out.extend)
        assert bytes(out) == path.read_bytes()
        assert plan_conversion(image, codec="org.apache.hadoop.io.compress.GzipCodec").layout_version == -70
        for layout in (-67, -63):
            with pytest.raises(UnsupportedLayoutError, match="newer than the newest known version"):
                plan_conversion(image, layout_version=layout)


def test_images_before_storage_policies_can_only_change_their_codec(tmp_path: Path) -> None:
    path = relabelled(OLD, tmp_path / "old", -57)
    with pytest.raises(UnsupportedLayoutError, match="older than the oldest version that can be merged"):
        convert(path, tmp_path / "x", layout_version=-63)
    packed = convert(path, tmp_path / "x", codec="org.apache.hadoop.io.compress.GzipCodec")
    assert sections(packed) == sections(path)


@pytest.mark.parametrize("layout", [-1, -18, -40, -55])
def test_images_before_the_protobuf_format_are_refused(layout: int, tmp_path: Path) -> None:
    path = tmp_path / "fsimage_0000000000000000007"
    path.write_bytes(layout.to_bytes(4, "big", signed=True) + bytes(100))
    with pytest.raises(UnsupportedLayoutError, match=r"is in the format of Hadoop before 2\.4") as refused:
        ImageFile.open(path)
    assert "when the cluster is upgraded" in refused.value.hint
    assert refused.value.exit_code == 5
