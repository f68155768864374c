"""`checkpointer merge` as a user runs it: verdicts on damaged input, reports, exit codes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from checkpointer.storage.lost_pasts import LOST_PAST, begin_start_over, start_over_of
from hadoop_common.names import parse_image
from image_format.md5_file import md5_of_file, read_md5_file
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from tests.cli_runner import fingerprint, run_cli
from tests.recorded_cases import RECORDED, Case
from tests.site_files import write_site

CORRUPT = sorted(path.parent for path in RECORDED.glob("hadoop-2.7.3/corrupt/*/case.json"))
RENAMES = Case(RECORDED / "hadoop-2.7.3" / "renames")

# Images and edits that a NameNode accepts and we refuse, with the reasons.
STRICTER = {
    # The INODE section would overlap the next sections; Hadoop stops reading the section at its record count.
    "image-section-length-beyond"
}
# A plain merge reads only finalized segments, so it ignores these files and reports this.
IN_PROGRESS = {path.name for path in CORRUPT if path.name.startswith("inprogress-")}
SNAPSHOTS = {path.name for path in CORRUPT if path.name.startswith("unreplayable-")}
# The damaged file is in progress, and the merge does not read it; the finalized files are intact.
IGNORED_FAULT = {"segments-duplicate-inprogress"}
EXIT_CODES = {
    "edits": {4, 5},
    "gap": {4, 6},
    "image": {3, 4, 5},
    "no": {6},
    "seen": {6},
    "version": {5, 6},
    "unreplayable": {3, 4, 5},
}


def verdict(path: Path) -> bool:
    return bool(json.loads((path / "case.json").read_text())["verdict"]["NameNode"]["loaded"])


def storage_of(path: Path, tmp_path: Path) -> Path:
    shutil.copytree(path / "before", tmp_path / "name" / "current")
    return tmp_path / "name"


@pytest.mark.recorded
@pytest.mark.parametrize("path", CORRUPT, ids=lambda p: p.name)
def test_damaged_storage_gets_the_same_verdict_as_by_a_namenode(path: Path, tmp_path: Path) -> None:
    directory = storage_of(path, tmp_path)
    before = fingerprint(directory)
    code, out, err = run_cli("merge", directory, "--json")
    name = path.name
    if name in IN_PROGRESS:
        # seen_txid of these cases may name the open segment or a later segment.
        assert code in (0, 6), err
        assert fingerprint(directory) == before
        return
    accepted = verdict(path)
    if (accepted and name not in STRICTER) or name in IGNORED_FAULT:
        assert code == 0, err
        assert json.loads(out)["merged"]
        return
    if name.startswith("unreplayable") and code == 0:
        # faults that stop a NameNode are healed and reported
        answer = json.loads(out)
        assert answer["healed"]
        found = verify_image(Path(answer["image"])).findings.listed
        # unreachable inodes are kept for `image verify --repair`
        assert {each.code for each in found if each.severity is Severity.ERROR} <= {"inode-unreachable"}
        return
    assert code in EXIT_CODES[name.split("-")[0]], (code, err)
    assert fingerprint(directory) == before
    lines = err.strip().splitlines()
    assert len(lines) == 2, err
    assert lines[0].startswith("checkpointer: ")
    assert re.match(r"  next: \S.*\S$", lines[1]), err


@pytest.mark.recorded
def test_json_report_describes_the_new_image(tmp_path: Path) -> None:
    directory = tmp_path / "name"
    current = RENAMES.copy_to(directory)
    code, out, _ = run_cli("merge", directory, "--json")
    report = json.loads(out)
    assert code == 0
    image = Path(report["image"])
    assert parse_image(image.name) is not None
    assert image.parent == current
    assert report["txid"] == RENAMES.info["txid_after"]
    assert report["md5"] == md5_of_file(image).hex() == read_md5_file(image).hex()
    assert report["size"] == image.stat().st_size
    assert report["inProgress"] == []
    assert RENAMES.differences(image) == []


@pytest.mark.recorded
def test_without_newer_edits_nothing_is_written(tmp_path: Path) -> None:
    directory = tmp_path / "name"
    RENAMES.copy_to(directory)
    assert run_cli("merge", directory).code == 0
    before = fingerprint(directory)
    code, out, _ = run_cli("merge", directory)
    assert code == 0
    assert "nothing to merge" in out
    assert fingerprint(directory) == before


@pytest.mark.recorded
def test_open_segment_is_skipped_and_named(tmp_path: Path) -> None:
    directory = tmp_path / "name"
    current = RENAMES.copy_to(directory)
    last = RENAMES.info["txid_after"]
    open_segment = current / f"edits_inprogress_{last + 1:019d}"
    open_segment.write_bytes(b"\xff\xff\xff\xc1\0\0\0\0" + b"half an operation")
    (current / "seen_txid").write_text(f"{last + 1}\n")
    code, out, err = run_cli("merge", directory)
    assert code == 0, err
    assert open_segment.name in out
    assert open_segment.read_bytes().endswith(b"half an operation")


@pytest.mark.recorded
@pytest.mark.parametrize(
    "codec", ["DefaultCodec", "GzipCodec", "BZip2Codec", "SnappyCodec", "Lz4Codec", "ZStandardCodec"]
)
def test_compression_comes_from_the_configuration(tmp_path: Path, codec: str) -> None:
    name = f"org.apache.hadoop.io.compress.{codec}"
    conf = write_site(tmp_path / "conf", {"dfs.image.compress": "true", "dfs.image.compression.codec": name})
    directory = tmp_path / "name"
    RENAMES.copy_to(directory)
    code, out, err = run_cli("merge", directory, "--conf", conf, "--json")
    assert code == 0, err
    image = Path(json.loads(out)["image"])
    assert RENAMES.differences(image) == []
    needs_library = codec in {"SnappyCodec", "Lz4Codec", "ZStandardCodec"}
    assert (f"warning: the image has DefaultCodec. A NameNode reads {codec} only with" in err) == needs_library
    code, out, _ = run_cli("image", "info", image, "--json")
    assert (code, json.loads(out)["codec"]) == (0, name.replace(codec, "DefaultCodec") if needs_library else name)
    assert run_cli("image", "verify", image).code == 0


@pytest.mark.recorded
def test_merge_names_the_shared_edits_that_it_does_not_read(tmp_path: Path) -> None:
    """A standby NameNode stores no edits, so "nothing to merge" does not mean that its image is complete."""
    journal = "qjournal://jn1:8485;jn2:8485;jn3:8485/ns1"
    conf = write_site(tmp_path / "conf", {"dfs.namenode.shared.edits.dir.ns1.nn2": journal})
    directory = tmp_path / "name"
    for segment in RENAMES.copy_to(directory).glob("edits_*"):
        segment.unlink()
    (directory / "current" / "seen_txid").write_text("0\n")
    code, out, err = run_cli("merge", directory, "--conf", conf)
    assert (code, "nothing to merge" in out) == (0, True)
    assert f"note: edits that exist only in {journal} are not read" in err
    assert "note: edits" not in run_cli("merge", directory).err


@pytest.mark.recorded
@pytest.mark.parametrize("command", ["merge", "config"])
def test_ignored_value_is_warned_about_once(tmp_path: Path, command: str) -> None:
    conf = write_site(tmp_path / "conf", {"dfs.image.compress": "yes"})
    RENAMES.copy_to(tmp_path / "name")
    directory = [tmp_path / "name"] if command == "merge" else []
    err = run_cli(command, *directory, "--conf", conf).err
    assert err.count("dfs.image.compress='yes': is neither true nor false") == 1


def test_directory_without_storage_is_rejected(tmp_path: Path) -> None:
    code, _, err = run_cli("merge", tmp_path)
    assert code == 6
    assert "next: " in err
    assert fingerprint(tmp_path) == {}


@pytest.mark.recorded
def test_current_folder_as_argument_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = RENAMES.copy_to(tmp_path)
    monkeypatch.chdir(current)
    for given in (current, Path()):
        code, _, err = run_cli("merge", given)
        assert (code, f"next: Name {tmp_path} instead." in err) == (6, True)


def test_a_missing_directory_is_a_usage_error(tmp_path: Path) -> None:
    assert run_cli("merge", tmp_path / "nowhere").code == 2


@pytest.mark.recorded
def test_storage_in_use_is_rejected(tmp_path: Path) -> None:
    from hadoop_common.storage_lock import StorageLock

    directory = tmp_path / "name"
    RENAMES.copy_to(directory)
    with StorageLock(directory):
        code, _, err = run_cli("merge", directory)
    assert code == 6
    assert "in_use.lock" in err or "in use" in err
    assert "--dry-run" in err


@pytest.mark.recorded
@pytest.mark.recorded
def test_error_for_a_damaged_segment_names_its_path_and_the_recovery(tmp_path: Path) -> None:
    directory = storage_of(RECORDED / "hadoop-2.7.3" / "corrupt" / "edits-flip-checksum", tmp_path)
    code, _, err = run_cli("merge", directory)
    assert code == 4
    assert f"{directory / 'current'}/edits_0000000000000000031-0000000000000000183, offset 5485, txid 107" in err
    assert "`checkpointer edits recover`" in err


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_merge_names_an_unfinished_start_over(tmp_path: Path, options: tuple[str, ...]) -> None:
    directory = storage_of(RENAMES.path, tmp_path)
    begin_start_over(directory, start_over_of([directory], LOST_PAST, "the NameNode was set back"))
    result = run_cli("merge", directory, *options)
    assert result.code == 0
    assert f"warning: a daemon does not use the images and edits in {directory / 'current'}" in result.err
    assert "the NameNode was set back" in result.err
