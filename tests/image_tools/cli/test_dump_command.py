"""`checkpointer image dump` as a user runs it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import ImageBuilder
from tests.image_format.image_support import RECORDED, build_image, minimal_sections, store
from tests.image_tools.dump_support import Viewed

OLD = Viewed(RECORDED / "hadoop-2.7.3" / "basic-files" / "oiv_after.xml.gz")
MIXED = Viewed(RECORDED / "hadoop-2.7.3" / "random-mixed-1" / "oiv_after.xml.gz")
UPGRADED = Viewed(RECORDED / "hadoop-3.4.1" / "upgrade-from-2.7.3" / "oiv_before.xml.gz")

pytestmark = pytest.mark.recorded


def test_xml_on_standard_output() -> None:
    code, out, err = run_cli("image", "dump", OLD.image)
    assert (code, out, err) == (0, OLD.expected(), "")


def test_xml_in_the_form_of_another_release(tmp_path: Path) -> None:
    target = tmp_path / "image.xml"
    code, out, err = run_cli("image", "dump", UPGRADED.image, "--release", "3.x", "--output", target)
    assert (code, out, err) == (0, "", "")
    assert target.read_bytes().decode() == UPGRADED.expected()
    assert [path.name for path in tmp_path.iterdir()] == ["image.xml"]


@pytest.mark.parametrize(("release", "revision"), [("3.5.0", "dbcc7cd7"), ("3.3.6", "1be78238"), ("3.x", "4d782530")])
def test_xml_names_the_revision_of_the_release(release: str, revision: str) -> None:
    out = run_cli("image", "dump", OLD.image, "--release", release).out
    assert f"<oivRevision>{revision}" in out


def test_xml_form_depends_on_the_release_of_the_layout(tmp_path: Path) -> None:
    assert run_cli("image", "dump", OLD.image, "--release", "2.7.3").out == OLD.expected()
    for layout, revision in ((-66, "1be78238"), (-67, "4d782530")):
        out = run_cli("image", "dump", ImageBuilder(layout).save(tmp_path / str(layout))).out
        assert f"<oivRevision>{revision}" in out


def test_delimited_rows() -> None:
    plain = run_cli("image", "dump", OLD.image, "--format", "delimited").out.splitlines()
    code, out, _ = run_cli("image", "dump", OLD.image, "--format", "delimited", "--delimiter", "|", "--header")
    assert code == 0
    first, *rows = out.splitlines()
    assert first.startswith("Path|Replication|ModificationTime|")
    assert [row.split("|") for row in rows] == [row.split("\t") for row in plain]
    assert plain[0].startswith("/\t0\t")


def test_delimited_rows_have_the_form_of_the_images_release(tmp_path: Path) -> None:
    """As with XML, so that the output equals that of the cluster's own viewer."""
    newer = ImageBuilder(-67).save(tmp_path / "newer")
    for image, release in ((OLD.image, "2.7"), (newer, "3.5.0")):
        outputs = [
            run_cli("image", "dump", image, "--format", "delimited", *options).out
            for options in ((), ("--release", release))
        ]
        assert outputs[0] == outputs[1]
    added = run_cli("image", "dump", newer, "--format", "delimited", "--storage-policy", "--ec-policy").out
    assert added.splitlines()[0].endswith("GroupName\tStoragePolicyId\tErasureCodingPolicy")
    code, _, err = run_cli("image", "dump", OLD.image, "--format", "delimited", "--ec-policy")
    assert (code, "add --release 3.x" in err) == (2, True)


def test_json_lines() -> None:
    code, out, _ = run_cli("image", "dump", OLD.image, "--format", "json")
    assert code == 0
    assert {json.loads(line)["section"] for line in out.splitlines()} >= {"SUMMARY", "NS_INFO", "INODE", "INODE_DIR"}


def test_rows_in_the_form_of_hadoop_3() -> None:
    code, out, _ = run_cli("image", "dump", OLD.image, "--format", "delimited", "--release", "3.x")
    assert code == 0
    head, first, *_ = out.splitlines()
    assert head.startswith("Path\tReplication\t")
    assert first.split("\t")[9].startswith("drwx")


def test_corruption_report_of_a_sound_image() -> None:
    code, out, _ = run_cli("image", "dump", MIXED.image, "--format", "corruption", "--delimiter", "|")
    assert (code, out) == (0, "CorruptionType|Id|IsSnapshot|ParentPath|ParentId|Name|NodeType|CorruptChildren\n")


def test_distribution_of_file_sizes() -> None:
    code, out, _ = run_cli("image", "dump", OLD.image, "--format", "distribution", "--max-size", "1m", "--step", "64k")
    assert code == 0
    first, head, *lines = out.splitlines()
    assert (first, head) == ("Processed 0 inodes.", "Size\tNumFiles")
    *ranges, files = itertools.takewhile(lambda line: not line.startswith("totalDir"), lines)
    assert int(files.removeprefix("totalFiles = ")) == sum(int(line.split("\t")[1]) for line in ranges) > 1
    readable = run_cli("image", "dump", OLD.image, "--format", "distribution", "--human-readable").out
    assert "Size Range\tNumFiles\n[0 B, 0 B]\t" in readable


@pytest.mark.parametrize("words", [("--step", "0"), ("--step", "x"), ("--max-size", "1p", "--step", "1")])
def test_invalid_size_ranges_are_refused(words: tuple[str, ...]) -> None:
    code, _, err = run_cli("image", "dump", OLD.image, "--format", "distribution", *words)
    assert code == 2
    assert words[0] in err or "--step" in err


def test_an_output_file_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "rows"
    target.write_text("mine")
    arguments = ("image", "dump", OLD.image, "--format", "delimited", "--output", target)
    code, _, err = run_cli(*arguments)
    assert (code, target.read_text()) == (2, "mine")
    assert "--force" in err
    assert run_cli(*arguments, "--force").code == 0
    assert target.read_text().startswith("/\t")


def test_the_image_is_never_overwritten_by_the_output(tmp_path: Path) -> None:
    path = store(tmp_path, build_image(minimal_sections()))
    before = fingerprint(tmp_path)
    code, _, err = run_cli("image", "dump", path, "--output", path, "--force")
    assert (code, fingerprint(tmp_path)) == (2, before)
    assert "is the input file" in err


def test_a_damaged_image_leaves_no_output(tmp_path: Path) -> None:
    sections = dict(minimal_sections())
    sections["INODE"] = sections["INODE"][:-1]
    path = store(tmp_path, build_image(list(sections.items())))
    before = fingerprint(tmp_path)
    code, _, err = run_cli("image", "dump", path, "--output", tmp_path / "out")
    assert (code, fingerprint(tmp_path)) == (3, before)
    assert "section INODE" in err
    assert "next: " in err


def test_an_unwritable_output_is_an_error(tmp_path: Path) -> None:
    code, _, err = run_cli("image", "dump", OLD.image, "--output", tmp_path / "none" / "out")
    assert code == 6
    assert "cannot write" in err


def test_an_empty_delimiter_is_refused() -> None:
    assert run_cli("image", "dump", OLD.image, "--delimiter", "").code == 2


def test_warnings_about_omitted_sections(tmp_path: Path) -> None:
    sections = [*minimal_sections(), ("LATER", b"\x01\x02")]
    path = store(tmp_path, build_image(sections, layout_version=-99))
    code, out, err = run_cli("image", "dump", path)
    assert code == 0
    assert out.endswith("</fsimage>\n")
    assert "layout version -99 is newer" in err
    assert "section LATER" in err
