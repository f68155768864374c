"""`checkpointer image verify`: exit codes, text, JSON, and the results and refusals of --repair."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from hadoop_common.errors import StorageError
from image_format.md5_file import md5_path
from image_tools.cli.image_file import newest_of
from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import ROOT, ImageBuilder
from tests.recorded_cases import RECORDED, Case, imgcmp


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return builder().save(tmp_path / "image")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """An image that contains two files whose block size is zero, and an unreachable inode."""
    made = builder()
    made.file("lost", 20000)
    made.inodes["/d/a"].file.preferredBlockSize = made.inodes["/d/b"].file.preferredBlockSize = 0
    return made.save(tmp_path / "image")


def builder() -> ImageBuilder:
    made = ImageBuilder()
    made.directory("/d")
    made.file("/d/a")
    made.file("/d/b")
    return made


def test_a_valid_image_is_reported_as_valid(healthy: Path) -> None:
    code, out, err = run_cli("image", "verify", healthy)
    assert (code, err) == (0, "")
    assert out == f"{healthy}: valid; txid 100, 4 inodes, directories with children: 2\n"
    code, out, _ = run_cli("image", "verify", "--json", healthy)
    content = json.loads(out)
    assert (code, content["valid"], content["findings"], content["counts"]) == (0, True, [], {})
    assert (content["txid"], content["inodes"], content["directoriesWithChildren"]) == (100, 4, 2)


def test_a_damaged_image_is_reported_with_findings(damaged: Path) -> None:
    before = fingerprint(damaged.parent)
    code, out, err = run_cli("image", "verify", damaged)
    assert code == 3
    assert str(damaged) in err
    assert "3 errors and 0 warnings" in err
    assert "next: " in err
    lines = out.splitlines()
    assert [line.split()[1] for line in lines] == ["inode-value", "inode-value", "inode-unreachable"]
    assert "inode 20000" in lines[-1]
    assert fingerprint(damaged.parent) == before


def test_findings_as_json(damaged: Path) -> None:
    code, out, _ = run_cli("image", "verify", "--json", "--limit", "1", damaged)
    content = json.loads(out)
    assert code == 3
    assert (content["valid"], content["errors"], content["warnings"]) == (False, 3, 0)
    assert content["counts"] == {"inode-value": 2, "inode-unreachable": 1}
    assert [finding["code"] for finding in content["findings"]] == ["inode-value", "inode-unreachable"]
    assert all({"code", "severity", "section", "offset", "inode", "message"} <= set(f) for f in content["findings"])


def test_findings_beyond_the_limit_are_counted(damaged: Path) -> None:
    _, out, _ = run_cli("image", "verify", "--limit", "1", damaged)
    assert "… and 1 more inode-value" in out


def test_repair_of_a_damaged_image(damaged: Path, tmp_path: Path) -> None:
    before = fingerprint(damaged.parent)
    output = tmp_path / damaged.name
    code, out, err = run_cli("image", "verify", damaged, "--repair", output)
    assert code == 0
    assert re.fullmatch(rf"space in {tmp_path}: about {damaged.stat().st_size} bytes needed, .* free\n", err)
    assert "attached as /lost+found/inode-20000" in out
    assert fingerprint(damaged.parent) == before
    report = tmp_path / (damaged.name + ".report.json")
    assert len(json.loads(report.read_text())["changes"]) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["image", output.name, output.name + ".md5", report.name]
    )
    assert run_cli("image", "verify", output).code == 0


def test_repair_with_json_output(damaged: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "repaired", tmp_path / "report"
    code, out, _ = run_cli(
        "image", "verify", damaged, "--repair", output, "--report", report, "--drop-unreachable", "--json"
    )
    content = json.loads(out)
    assert code == 0
    assert (content["repaired"], content["output"], content["report"]) == (True, str(output), str(report))
    assert content["counts"] == {"inode-value": 2, "inode-unreachable": 1}
    assert content["md5"] == json.loads(report.read_text())["md5"]
    assert json.loads(run_cli("image", "verify", "--json", output).out)["inodes"] == 4


def test_an_image_without_digest_file_gives_a_warning(tmp_path: Path) -> None:
    healthy, made = builder().save(tmp_path / "healthy"), builder()
    made.file("lost", 20000)
    damaged = made.save(tmp_path / "damaged")
    md5_path(healthy).unlink()
    code, _, err = run_cli("image", "verify", healthy)
    assert (code, "the content is consistent, but without an .md5 file the bytes" in err) == (3, True)
    assert "errors and" not in err
    md5_path(damaged).unlink()
    code, _, err = run_cli("image", "verify", damaged)
    assert (code, "2 errors and 0 warnings" in err) == (3, True)


@pytest.mark.parametrize("digest", [None, "0" * 32])
def test_repair_warns_if_no_digest_confirms_the_bytes(healthy: Path, tmp_path: Path, digest: str | None) -> None:
    if digest is None:
        md5_path(healthy).unlink()
    else:
        md5_path(healthy).write_text(f"{digest} *{healthy.name}\n")
    out = tmp_path / "out"
    code, text, err = run_cli("image", "verify", healthy, "--repair", out, "--json")
    assert (code, json.loads(text)["digestChecked"]) == (0, False)
    assert f"no digest confirms the bytes of {healthy}" in err
    report = json.loads(out.with_name("out.report.json").read_text())
    assert report["digestChecked"] is False
    assert "unverified" in report["changes"][0]["change"]


def test_repair_reports_that_the_digest_was_checked(damaged: Path, tmp_path: Path) -> None:
    code, text, err = run_cli("image", "verify", damaged, "--repair", tmp_path / "out", "--json")
    assert (code, json.loads(text)["digestChecked"], err) == (0, True, "")


def test_repair_of_a_healthy_image_writes_nothing(healthy: Path, tmp_path: Path) -> None:
    code, out, _ = run_cli("image", "verify", healthy, "--repair", tmp_path / "repaired")
    assert code == 0
    assert out == f"{healthy}: nothing to repair, nothing written\n"
    code, out, _ = run_cli("image", "verify", healthy, "--repair", tmp_path / "repaired", "--json")
    assert (code, json.loads(out)["repaired"]) == (0, False)
    assert [path.name for path in tmp_path.iterdir()] == ["image"]


@pytest.mark.parametrize("existing", ["repaired", "repaired.md5", "repaired.report.json"])
def test_existing_files_are_kept_without_force(damaged: Path, tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine")
    before = fingerprint(tmp_path)
    code, _, err = run_cli("image", "verify", damaged, "--repair", tmp_path / "repaired")
    assert code == 2
    assert existing in err
    assert "--force" in err
    assert fingerprint(tmp_path) == before
    assert run_cli("image", "verify", damaged, "--repair", tmp_path / "repaired", "--force").code == 0
    assert run_cli("image", "verify", tmp_path / "repaired").code == 0


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_an_image_is_not_repaired_in_place(damaged: Path, tmp_path: Path, force: list[str]) -> None:
    link = tmp_path / "link"
    link.symlink_to(damaged)
    before = fingerprint(tmp_path)
    for output in (damaged, link, damaged.with_name(damaged.name + ".md5")):
        code, _, err = run_cli("image", "verify", damaged, "--repair", output, *force)
        assert code == 2
        assert "in place" in err
    assert fingerprint(tmp_path) == before


def test_the_report_must_not_be_the_digest_file(damaged: Path, tmp_path: Path) -> None:
    code, _, err = run_cli("image", "verify", damaged, "--repair", tmp_path / "x", "--report", tmp_path / "x.md5")
    assert code == 2
    assert "report" in err


@pytest.mark.parametrize("option", [["--force"], ["--drop-unreachable"], ["--report", "x"]])
def test_options_of_a_repair_require_repair(healthy: Path, option: list[str]) -> None:
    code, _, err = run_cli("image", "verify", healthy, *option)
    assert code == 2
    assert "--repair" in err


def test_an_output_name_with_another_txid_is_refused(damaged: Path, tmp_path: Path) -> None:
    code, _, err = run_cli("image", "verify", damaged, "--repair", tmp_path / "fsimage_0000000000000000099")
    assert code == 3
    assert "fsimage_0000000000000000100" in err
    assert [path.name for path in tmp_path.iterdir()] == ["image"]


def test_an_output_in_a_missing_directory_is_an_error(damaged: Path, tmp_path: Path) -> None:
    code, _, err = run_cli("image", "verify", damaged, "--repair", tmp_path / "nowhere" / "repaired")
    assert code == 6
    assert "next: " in err


def test_irreparable_damage_is_refused(tmp_path: Path) -> None:
    made = builder()
    made.inodes["/"].id = ROOT + 1000
    path = made.save(tmp_path / "image")
    code, _, err = run_cli("image", "verify", path, "--repair", tmp_path / "repaired")
    assert code == 3
    assert "cannot be repaired" in err
    assert [each.name for each in tmp_path.iterdir()] == ["image"]


@pytest.mark.recorded
def test_repair_of_an_image_that_hadoop_wrote_but_cannot_load(tmp_path: Path) -> None:
    source = next((RECORDED / "hadoop-2.7.3" / "symlinks" / "after").glob("fsimage_" + "?" * 19))
    for path in (source, source.with_name(source.name + ".md5")):
        shutil.copy(path, tmp_path)
    image, output = tmp_path / source.name, tmp_path / "repaired"
    assert run_cli("image", "verify", image).code == 3
    assert run_cli("image", "verify", image, "--repair", output).code == 0
    differences = imgcmp.compare(imgcmp.Image(str(source)), imgcmp.Image(str(output)))
    assert [text.split()[0] for text in differences] == ["diffs"]


# ---- damage without a repair -------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "zeros at the end", "first byte", "all zeros", "empty"])
def test_repair_is_not_advised_if_it_would_be_refused(healthy: Path, tmp_path: Path, damage: str) -> None:
    content = healthy.read_bytes()
    healthy.write_bytes(
        {
            "cut": content[:-9],
            "zeros at the end": content[:-40] + bytes(40),
            "first byte": b"\x01" + content[1:],
            "all zeros": bytes(len(content)),
            "empty": b"",
        }[damage]
    )
    code, _, err = run_cli("image", "verify", healthy)
    assert code == 3
    assert "--repair OUT" not in err
    assert "next: " in err
    assert run_cli("image", "verify", healthy, "--repair", tmp_path / "out").code == 3


@pytest.mark.parametrize(
    ("content", "expected_message"),
    [
        (b"<?xml version='1.0'?><fsimage>", "the file is the XML of an fsimage, not an fsimage"),
        (b"\xff\xff\xff\xc1" + bytes(4), "the file is an edit log segment of layout -63, not an fsimage"),
        (b"\x1f\x8b\x08" + bytes(40), "the file is a gzip file, not an fsimage"),
        (b"root:x:0:0:root", "the file is a text file, not an fsimage"),
    ],
)
def test_the_error_describes_a_file_that_is_not_an_image(tmp_path: Path, content: bytes, expected_message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    code, _, err = run_cli("image", "verify", path)
    assert code == 3
    assert expected_message in err
    assert "--repair" not in err
    code, _, err = run_cli("image", "info", path)
    assert code == 3
    assert expected_message.removeprefix("the file ").split(", not", maxsplit=1)[0] in err


def test_a_directory_stands_for_its_newest_image(healthy: Path, tmp_path: Path) -> None:
    current = tmp_path / "nn" / "current"
    healthy.parent.rename(tmp_path / "images")
    (tmp_path / "nn").mkdir()
    (tmp_path / "images").rename(current)
    for directory in (tmp_path / "nn", current):
        (directory / "fsimage_9999999999999999999").mkdir(exist_ok=True)
        code, out, _ = run_cli("image", "verify", directory)
        assert code == 0
        assert f"{current / healthy.name}: valid" in out
    (tmp_path / "empty").mkdir()
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "fsimage_0000000000000000001").touch()
    assert newest_of(tmp_path / name for name in ("missing", "empty", "older", "nn")) == current / healthy.name
    with pytest.raises(StorageError, match="no image in"):
        newest_of([tmp_path / "empty"])
    code, _, err = run_cli("image", "verify", tmp_path / "empty")
    assert code == 6
    assert "no image in" in err


RENAMES = Case(RECORDED / "hadoop-2.7.3" / "renames")


def test_damaged_image_fails_verification(tmp_path: Path) -> None:
    source = RENAMES.image("before")
    image = tmp_path / source.name
    data = bytearray(source.read_bytes())
    data[100] ^= 1
    image.write_bytes(data)
    shutil.copy(source.with_name(source.name + ".md5"), tmp_path)
    code, _, err = run_cli("image", "verify", image)
    assert code == 3
    assert image.name in err
