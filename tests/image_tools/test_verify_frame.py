"""Damage to the file's structure: verification finds it, and a repair refuses irreparable damage."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from image_format.errors import TransactionIdError
from image_format.md5_file import md5_path
from image_format.proto import fsimage_pb2 as pb
from image_format.summary import Section, build_summary, encode_trailer, parse_file
from image_format.varint import encode_delimited
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from image_tools.verify.findings import UnrepairableError
from image_tools.verify.repair import repair_image
from tests.image_format.image_support import build_image, minimal_sections, store
from tests.image_tools.verify_support import Model, recorded, shown

ZLIB = "org.apache.hadoop.io.compress.DefaultCodec"


def healthy() -> list[tuple[str, bytes]]:
    """Return the sections of an image without any finding."""
    info = pb.NameSystemSection(genstampV1=1000, genstampV2=1000, lastAllocatedBlockId=1 << 30, transactionId=7)
    sections = dict(minimal_sections())
    sections["NS_INFO"] = encode_delimited(info)
    sections["SNAPSHOT"] = encode_delimited(pb.SnapshotSection(snapshotCounter=0, numSnapshots=0))
    sections["FILES_UNDERCONSTRUCTION"] = sections["INODE_REFERENCE"] = b""
    sections["SECRET_MANAGER"] = encode_delimited(pb.SecretManagerSection())
    sections["CACHE_MANAGER"] = encode_delimited(pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0))
    return list(sections.items())


def with_sections(data: bytes, change: Callable[[list[Section]], None], **fields: object) -> bytes:
    """Return the image with another list of sections."""
    parsed = parse_file(memoryview(data))
    size = struct.unpack(">i", data[-4:])[0]
    sections = list(parsed.sections)
    change(sections)
    message = build_summary(parsed.layout_version, parsed.codec, sections, parsed.message)
    for name, value in fields.items():
        setattr(message, name, value)
    return data[: -4 - size] + encode_trailer(message)


def replaced(name: str, offset: int, length: int) -> Callable[[list[Section]], None]:
    def change(sections: list[Section]) -> None:
        index = next(i for i, section in enumerate(sections) if section.name == name)
        sections[index] = Section(name, sections[index].offset + offset, sections[index].length + length)

    return change


def flipped(data: bytes, at: int, value: int = 0xFF) -> bytes:
    return data[:at] + bytes([data[at] ^ value]) + data[at + 1 :]


def section_at(data: bytes, name: str) -> int:
    return next(section.offset for section in parse_file(memoryview(data)).sections if section.name == name)


PLAIN = build_image(healthy())
DAMAGED: dict[str, list[bytes]] = {
    "frame-magic": [b"X" + PLAIN[1:]],
    "frame-cut": [b"", PLAIN[:5], PLAIN[:-2], PLAIN[:8]],
    "frame-summary": [PLAIN[:-4] + b"\x00\x00\x00\x00", PLAIN[:-8] + b"\xff" * 4 + PLAIN[-4:]],
    "frame-codec": [with_sections(PLAIN, lambda _: None, codec="org.example.Codec")],
    "frame-layout-old": [build_image(healthy(), layout_version=-55)],
    "section-outside": [with_sections(PLAIN, replaced("CACHE_MANAGER", 0, 1 << 40))],
    "section-overlap": [with_sections(PLAIN, replaced("INODE", -3, 0))],
    "section-twice": [with_sections(PLAIN, lambda sections: sections.append(sections[0]))],
    "section-missing": [
        build_image([each for each in healthy() if each[0] != name])
        for name in ("NS_INFO", "INODE", "INODE_DIR", "STRING_TABLE")
    ],
    "section-compressed": [
        flipped(build_image(healthy(), ZLIB), section_at(build_image(healthy(), ZLIB), "INODE") + 9)
    ],
    "record-damaged": [
        flipped(PLAIN, section_at(PLAIN, name)) for name in ("NS_INFO", "INODE", "SNAPSHOT", "STRING_TABLE")
    ],
    "inode-root": [
        build_image(
            [(n, encode_delimited(pb.INodeSection(lastInodeId=16385)) if n == "INODE" else b) for n, b in healthy()]
        )
    ],
    "string-mask": [
        build_image(
            [
                (n, encode_delimited(pb.StringTableSection(numEntry=0, maskBits=4)) if n == "STRING_TABLE" else b)
                for n, b in healthy()
            ]
        )
    ],
}


@pytest.mark.parametrize(
    ("code", "data"), [(code, data) for code, images in DAMAGED.items() for data in images], ids=lambda v: str(v)[:20]
)
def test_irreparable_damage_is_found_and_not_repaired(tmp_path: Path, code: str, data: bytes) -> None:
    path = store(tmp_path, data)
    found = verify_image(path)
    assert not found.valid
    assert code in found.findings.counts, shown(found.findings.listed)
    output = tmp_path / "out" / "repaired"
    output.parent.mkdir()
    with pytest.raises(UnrepairableError) as raised:
        repair_image(path, output, tmp_path / "out" / "report")
    assert str(path) in raised.value.message
    assert raised.value.hint
    assert list(output.parent.iterdir()) == []


def test_a_healthy_image_has_no_findings(tmp_path: Path) -> None:
    found = verify_image(store(tmp_path, PLAIN))
    assert (found.valid, found.findings.listed) == (True, [])
    assert (found.txid, found.inodes, found.directories) == (7, 1, 0)


def test_a_newer_layout_gives_a_warning_and_is_not_repaired(tmp_path: Path) -> None:
    sections = [(n, b[:-1] if n == "INODE_DIR" else b) for n, b in healthy()]
    inode = pb.INodeSection(lastInodeId=1, numInodes=1)
    sections = [
        (n, encode_delimited(inode) + b[len(encode_delimited(inode)) + 2 :] if n == "X" else b) for n, b in sections
    ]
    path = store(tmp_path, build_image(sections, layout_version=-99))
    found = verify_image(path)
    assert found.valid
    assert found.findings.counts["frame-layout-unknown"] == 1
    with pytest.raises(UnrepairableError, match="layout version"):
        repair_image(path, tmp_path / "out", tmp_path / "report")


def test_absent_and_unknown_sections_are_reported(tmp_path: Path) -> None:
    path = store(tmp_path, build_image([*minimal_sections(), ("FUTURE", b"abc")]))
    counts = verify_image(path).findings.counts
    assert counts["section-absent"] == 5
    assert counts["section-unknown"] == 1


@pytest.mark.parametrize("content", [None, b"nonsense\n", b"0" * 32 + b" *fsimage_0000000000000000007\n"])
def test_a_missing_or_wrong_digest_file_is_rewritten(tmp_path: Path, content: bytes | None) -> None:
    path = store(tmp_path, PLAIN)
    if content is None:
        md5_path(path).unlink()
    else:
        md5_path(path).write_bytes(content)
    code = "digest-missing" if content is None else "digest-mismatch"
    assert set(verify_image(path).findings.counts) == {code}
    output = tmp_path / "out" / path.name
    output.parent.mkdir()
    done = repair_image(path, output, tmp_path / "report")
    assert [finding.code for finding in done.changes] == [code]
    assert output.read_bytes() == PLAIN
    assert verify_image(output).findings.clean


def test_negative_txid_is_damage_beyond_repair(tmp_path: Path) -> None:
    """No file name can contain it, and no command but this one opens the image."""
    path = store(tmp_path, build_image(minimal_sections((1 << 64) - 3)), "fsimage_0000000000000000009")
    findings = verify_image(path).findings
    (error,) = (each for each in findings.listed if each.severity is Severity.ERROR)
    assert (error.code, error.message) == ("record-unloadable", "the transaction id -3 is negative")
    with pytest.raises(UnrepairableError):
        repair_image(path, tmp_path / "out", tmp_path / "report")


def test_the_output_name_must_match_the_txid(tmp_path: Path) -> None:
    path = store(tmp_path, PLAIN, "fsimage_0000000000000000009")
    assert set(verify_image(path).findings.counts) == {"txid-name"}
    with pytest.raises(TransactionIdError) as raised:
        repair_image(path, tmp_path / "fsimage_0000000000000000008", tmp_path / "report")
    assert "fsimage_0000000000000000007" in raised.value.hint
    output = tmp_path / "fsimage_0000000000000000007"
    repair_image(path, output, tmp_path / "report")
    assert verify_image(output).findings.clean


@pytest.mark.recorded
def test_an_unknown_policy_of_a_striped_file_prevents_repair(tmp_path: Path) -> None:
    model = Model(recorded("ec"))
    striped = next(inode for inode in model.inodes if inode.file.HasField("erasureCodingPolicyID"))
    striped.file.erasureCodingPolicyID = 99
    path = model.save(tmp_path)
    (finding,) = [f for f in verify_image(path).findings.listed if f.code == "inode-policy"]
    assert finding.inode == striped.id
    with pytest.raises(UnrepairableError, match="inode-policy"):
        repair_image(path, tmp_path / "out", tmp_path / "report")
    assert not (tmp_path / "out").exists()


@pytest.mark.recorded
def test_a_truncated_record_prevents_repair(tmp_path: Path) -> None:
    model = Model(recorded("acl"))
    model.extra["INODE"] = dict(model.sections())["INODE"][:-3]
    path = model.save(tmp_path)
    found = verify_image(path).findings
    assert {finding.code for finding in found.listed} == {"record-damaged", "inode-count"} - {"inode-count"}
    with pytest.raises(UnrepairableError, match="record-damaged"):
        repair_image(path, tmp_path / "out", tmp_path / "report")
