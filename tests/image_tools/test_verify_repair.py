"""The output and the report of a repair, and the unchanged parts of the image."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited
from image_tools.convert.image import convert_image
from image_tools.verify.checker import verify_image
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes, Replacement, spliced, write_fixed
from image_tools.verify.frame import read_frame
from image_tools.verify.repair import Repair, repair_image
from tests.image_format.image_support import RECORDED
from tests.image_tools.verify_support import CASES, Model, inode_records, recorded, shown
from tests.tools import imgcmp

pytestmark = pytest.mark.recorded
ROOT = 16385
CODECS = ("DefaultCodec", "GzipCodec", "SnappyCodec")


def repaired(path: Path, folder: Path, *, drop: bool = False) -> tuple[Path, Repair]:
    output = folder / "repaired" / path.name
    output.parent.mkdir(exist_ok=True)
    done = repair_image(path, output, folder / "repaired" / "report.json", drop=drop)
    found = verify_image(output).findings
    assert found.clean, shown(found.listed)
    assert sorted(each.name for each in output.parent.iterdir()) == sorted(
        [output.name, output.name + ".md5", "report.json"]
    )
    return output, done


@pytest.mark.parametrize("case", CASES)
def test_a_valid_image_is_not_written_again(case: str, tmp_path: Path) -> None:
    done = repair_image(recorded(case), tmp_path / "out", tmp_path / "report")
    assert (done.output, done.changes, done.passes) == (None, (), 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parameters(2)
@pytest.mark.parametrize("codec", ["", *("org.apache.hadoop.io.compress." + name for name in CODECS)])
def test_sections_without_damage_are_copied(tmp_path: Path, codec: str) -> None:
    model = Model(recorded("acl"))
    model.entry().children.append(1 << 40)
    model.extra["EXTENDED_ACL"] = b"anything"
    path = model.save(tmp_path, codec)
    output, _ = repaired(path, tmp_path)
    with ImageFile.open(path) as before, ImageFile.open(output) as after:
        assert [section.name for section in after.sections] == [section.name for section in before.sections]
        assert after.codec == codec
        for section in before.sections:
            if section.name != "INODE_DIR":
                entry = next(entry for entry in after.sections if entry.name == section.name)
                assert before.stored_bytes(section) == after.stored_bytes(entry)


@pytest.mark.parametrize("codec", CODECS)
def test_entries_for_the_streams_of_a_section_are_kept(tmp_path: Path, codec: str) -> None:
    out = bytearray()
    with ImageFile.open(recorded("acl3"), verify_md5=False) as image:
        name = "org.apache.hadoop.io.compress." + codec
        convert_image(image, out.extend, codec=name, sub_sections=4, parallel_compressed=True)
    path, copy = tmp_path / "cut", tmp_path / "copy"
    path.write_bytes(out)
    frame = read_frame(path, np.fromfile(path, np.uint8), Findings())
    assert frame is not None
    written = bytearray()
    write_fixed(frame, Fixes(), written.extend)
    copy.write_bytes(written)
    with ImageFile.open(path, verify_md5=False) as before, ImageFile.open(copy, verify_md5=False) as after:
        assert any(section.name == "INODE_SUB" for section in after.sections)
        for section in before.sections:
            if not section.name.endswith("_SUB"):
                assert bytes(before.section_bytes(section.name)) == bytes(after.section_bytes(section.name))


def test_unknown_fields_survive_in_repaired_records(tmp_path: Path) -> None:
    path = next((RECORDED / "hadoop-3.4.1/odd/unknown-fields/before").glob("fsimage_" + "?" * 19))
    model = Model(path)
    child = model.entry().children.pop()
    damaged = model.save(tmp_path)
    before = inode_records(damaged)
    output, _ = repaired(damaged, tmp_path)
    after = Model(output)
    now = inode_records(output)
    assert {number for number in before if before[number] != now[number]} == {child}
    renamed = pb.INode.FromString(now[child])
    assert len(renamed.SerializeToString()) - len(renamed.name) == len(before[child]) - len(model.inode(child).name)
    root = next(entry for entry in after.dirs if entry.parent == ROOT)
    assert len(encode_delimited(root)) > len(encode_delimited(pb.DirEntry(parent=ROOT, children=root.children)))


def test_unreachable_inodes_move_to_lost_and_found(tmp_path: Path) -> None:
    model = Model(recorded("acl"))
    root = next(entry for entry in model.dirs if entry.parent == ROOT)
    lost = root.children.pop()
    subtree = len(verify_image(model.save(tmp_path)).findings.listed)
    output, done = repaired(tmp_path / model.name, tmp_path)
    after = Model(output)
    home = next(inode for inode in after.inodes if inode.name == b"lost+found")
    assert home.id == model.inode_header.lastInodeId + 1 == after.inode_header.lastInodeId
    assert home.directory.permission >> 16 == model.inode(ROOT).directory.permission >> 16
    assert home.directory.permission & 0xFFFF == 0o700
    assert [list(entry.children) for entry in after.dirs if entry.parent == home.id] == [[lost]]
    assert after.inode(lost).name == b"inode-%d" % lost
    assert after.inode_header.numInodes == model.inode_header.numInodes + 1
    assert len(done.changes) == subtree
    texts = {finding.inode: finding.change for finding in done.changes}
    old = model.inode(lost).name.decode()
    assert texts.pop(lost) == f"attached as /lost+found/inode-{lost}, former name {old!r}"
    assert set(texts.values()) <= {"is below an inode that was attached"}


def test_a_second_repair_uses_the_same_directory(tmp_path: Path) -> None:
    model = Model(recorded("basic"))
    root = next(entry for entry in model.dirs if entry.parent == ROOT)
    first, second = root.children.pop(), root.children.pop()
    output, _ = repaired(model.save(tmp_path / "a"), tmp_path / "a")
    model = Model(output)
    home = next(inode.id for inode in model.inodes if inode.name == b"lost+found")
    entry = next(entry for entry in model.dirs if entry.parent == home)
    entry.children.remove(max(first, second))
    output, _ = repaired(model.save(tmp_path / "b"), tmp_path / "b")
    entry = next(entry for entry in Model(output).dirs if entry.parent == home)
    assert sorted(entry.children) == sorted([first, second])


@pytest.mark.parametrize("directory", [True, False])
def test_an_existing_lost_and_found_is_used_or_avoided(tmp_path: Path, directory: bool) -> None:
    """An existing directory receives the inodes; if another inode has the name, the repair creates /lost+found-TXID."""
    model = Model(recorded("basic"))
    root = next(entry for entry in model.dirs if entry.parent == ROOT)
    if directory:
        model.inode(root.children[0]).name = b"lost+found"
    else:
        number = model.inode_header.lastInodeId + 1
        link = pb.INode(type=pb.INode.SYMLINK, id=number, name=b"lost+found")
        link.symlink.permission = model.inode(ROOT).directory.permission
        model.inodes.append(link)
        model.inode_header.lastInodeId, model.inode_header.numInodes = number, len(model.inodes)
        root.children.append(number)
    lost = root.children.pop(1)
    root.children[:] = sorted(root.children, key=lambda child: imgcmp.signed(model.inode(child).name))
    _, done = repaired(model.save(tmp_path), tmp_path)
    where = "/lost+found/" if directory else f"/lost+found-{model.info.transactionId}/"
    assert any(finding.inode == lost and where in finding.change for finding in done.changes)


def test_unreachable_inodes_are_dropped_on_request(tmp_path: Path) -> None:
    model = Model(recorded("rename"))
    root = next(entry for entry in model.dirs if entry.parent == ROOT)
    del root.children[0]
    path = model.save(tmp_path)
    lost = {f.inode for f in verify_image(path).findings.listed if f.code == "inode-unreachable"}
    output, done = repaired(path, tmp_path, drop=True)
    after = Model(output)
    assert lost
    assert {inode.id for inode in after.inodes} == {inode.id for inode in model.inodes} - lost
    assert after.inode_header.numInodes == len(after.inodes)
    assert {f.inode for f in done.changes if f.change == "dropped"} == lost


def test_the_report_contains_all_changes(tmp_path: Path) -> None:
    model = Model(recorded("acl"))
    entry = model.entry()
    entry.children.append(1 << 40)
    model.inode_header.numInodes += 2
    output, done = repaired(model.save(tmp_path), tmp_path)
    report = json.loads((output.parent / "report.json").read_text())
    assert (report["source"], report["output"]) == (str(tmp_path / model.name), str(output))
    assert report["md5"] == done.md5
    assert report["size"] == output.stat().st_size
    assert {(change["code"], change["change"]) for change in report["changes"]} == {
        ("dir-child-missing", "dropped"),
        ("inode-count", "corrected"),
    }
    assert all(change["message"] and change["section"] for change in report["changes"])


def test_faulty_sub_sections_are_omitted(tmp_path: Path) -> None:
    whole = next((RECORDED / "hadoop-3.4.1/sub-sections/after").glob("fsimage_" + "?" * 19))
    path = next((RECORDED / "hadoop-3.4.1/odd/sub-sections-partial/before").glob("fsimage_" + "?" * 19))
    output, done = repaired(path, tmp_path)
    assert [finding.code for finding in done.changes] == ["sub-section"]
    assert imgcmp.compare(imgcmp.Image(str(whole)), imgcmp.Image(str(output))) == []


def test_findings_over_the_limit_are_counted(tmp_path: Path) -> None:
    model = Model(recorded("acl"))
    for inode in model.kind(pb.INode.FILE):
        inode.file.replication = 0
    files = len(model.kind(pb.INode.FILE))
    found = verify_image(model.save(tmp_path), limit=2).findings
    assert found.counts["inode-replication"] == files > 2
    assert len(found.listed) == 2
    assert not found.clean


def test_replacements_in_one_section_must_not_overlap() -> None:
    data = memoryview(b"abcdef")
    assert b"".join(spliced(data, [Replacement(4, 4, b"Y"), Replacement(1, 3, b"X")])) == b"aXdYef"
    with pytest.raises(ValueError, match="overlap"):
        list(spliced(data, [Replacement(0, 3, b""), Replacement(2, 4, b"")]))
