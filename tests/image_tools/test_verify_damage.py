"""Verification locates every kind of damage, and the repair changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from image_format.codecs import codec_class_name
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.convert import convert_image
from image_tools.convert.small_sections import erasure_coding_section
from image_tools.verify.catalogue import CODES
from image_tools.verify.checker import verify_image
from image_tools.verify.repair import repair_image
from tests.engine.image_builder import ImageBuilder
from tests.image_tools.damage_kinds import Damage
from tests.image_tools.verify_damage import DAMAGES
from tests.image_tools.verify_support import Model, inode_records, record_offsets, recorded, shown
from tests.tools import imgcmp

pytestmark = pytest.mark.recorded

# damage that cannot be made by changing messages has separate tests
ELSEWHERE = {
    *(code for code in CODES if code.startswith(("frame-", "digest-", "section-"))),
    "txid-name",
    "sub-section",
    "record-damaged",
    "record-unloadable",
    "layout-refused",
    "layout-ignored",
    "string-mask",
    "inode-root",
    "inode-policy",
}
STAYS = {"inode-id", "diff-root-other", "diff-snapshot", "diff-size"}


def test_every_finding_code_has_a_test_case() -> None:
    assert {each.code for each in DAMAGES} == set(CODES) - ELSEWHERE


@pytest.mark.parametrize("value", [(1 << 31) - 2, (1 << 32) - 1])
def test_a_reserved_snapshot_id_is_found_and_not_repaired(value: int, tmp_path: Path) -> None:
    model = Model(recorded("rename3"))
    model.snapshots[0].snapshotId = value
    found = verify_image(model.save(tmp_path)).findings
    assert [each.message for each in found.listed if each.code == "record-unloadable"] == [
        f"the snapshot id {value} is reserved"
    ]
    assert found.unrepairable is not None


def test_different_tokens_may_have_the_same_sequence_number(tmp_path: Path) -> None:
    """A NameNode loads both tokens, because the sequence number alone does not identify a token."""
    model = Model(recorded("tokens"))
    other = pb.PersistToken()
    other.CopyFrom(model.tokens[0])
    other.owner = "other"
    model.tokens.append(other)
    model.secret_header.numTokens += 1
    assert verify_image(model.save(tmp_path)).findings.listed == []


def test_the_legacy_generation_stamp_limit_may_be_any_java_long(tmp_path: Path) -> None:
    model = Model(recorded("rename3"))
    model.info.genstampV1Limit = 1 << 63
    assert verify_image(model.save(tmp_path)).valid


@pytest.mark.parametrize("each", DAMAGES, ids=lambda each: each.id)
def test_damage_is_found_and_repaired(each: Damage, tmp_path: Path) -> None:
    model = Model(recorded(each.case))
    inode = each.mutate(model)
    damaged = model.save(tmp_path / "damaged")
    found = verify_image(damaged).findings
    mine = [finding for finding in found.listed if finding.code == each.code]
    assert mine, shown(found.listed)
    others = {finding.code for finding in found.listed} - {each.code} - each.also - STAYS
    assert not others, shown(found.listed)
    for finding in mine:
        if finding.offset is not None:
            assert finding.offset in record_offsets(damaged, finding.section)
    if isinstance(inode, int):
        assert inode in {finding.inode for finding in mine}

    output = tmp_path / "repaired" / damaged.name
    output.parent.mkdir()
    done = repair_image(damaged, output, tmp_path / "report.json")
    if done.output is None:
        assert each.code in STAYS or all(not finding.wants_repair for finding in mine)
        assert list(output.parent.iterdir()) == []
        return
    after = verify_image(output).findings
    assert after.clean, shown(after.listed)
    assert not {finding.code for finding in after.listed} - STAYS
    original = recorded(each.case)
    if each.restored:
        differences = imgcmp.compare(imgcmp.Image(str(original)), imgcmp.Image(str(output)))
        assert differences == []
    before, now = inode_records(damaged), inode_records(output)
    changed = {number for number in before if now.get(number) != before[number]}
    assert changed <= {finding.inode for finding in done.changes}


def test_data_that_an_older_layout_cannot_represent_is_found(tmp_path: Path) -> None:
    model = Model(recorded("ec"))
    assert verify_image(model.save(tmp_path / "own")).valid
    model.layout = -63
    found = verify_image(model.save(tmp_path / "older")).findings.listed
    texts = {finding.code: finding.message for finding in found if finding.code.startswith("layout-")}
    assert "cannot represent erasure-coded files (" in texts["layout-refused"]
    assert "cannot represent directories or files with an erasure coding policy (" in texts["layout-ignored"]


def test_bytes_after_the_erasure_coding_policies_are_damage(tmp_path: Path) -> None:
    builder = ImageBuilder(-67)
    builder.sections["ERASURE_CODING"] = erasure_coding_section() + b"\x02\x08\x01"
    (found,) = verify_image(builder.save(tmp_path)).findings.listed
    assert (
        str(found)
        == "error record-damaged [ERASURE_CODING, offset 174]: the section contains 3 bytes after the policies"
    )


def test_sm4_zones_and_newer_codecs_are_warnings_in_older_layouts(tmp_path: Path) -> None:
    builder = ImageBuilder(-63)
    zone = builder.directory("/z").directory.xAttrs
    zone.xAttrs.add(name=builder.xattr_name(4, "hdfs.crypto.encryption.zone"), value=b"\x08\x03\x10\x02")
    packed = tmp_path / "packed"
    with ImageFile.open(builder.save(tmp_path)) as image, packed.open("wb") as out:
        convert_image(image, out.write, codec=codec_class_name("zstd"))
    texts = {each.code: str(each) for each in verify_image(packed).findings.listed}
    assert "lack ZStandardCodec, except Hadoop 2.9 and 2.10" in texts["frame-codec-release"]
    assert texts["layout-ignored"].startswith("warning layout-ignored [INODE, inode 16386]")
    assert "encryption zones with the cipher SM4 (1, the first is inode 16386)" in texts["layout-ignored"]
