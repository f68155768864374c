"""`checkpointer merge --dry-run`: reports what the merge would do, and writes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from hadoop_common.storage_lock import StorageLock
from hadoop_common.text_layout import byte_count
from tests.cli_runner import fingerprint, run_cli
from tests.recorded_cases import RECORDED, Case, imgcmp

pytestmark = pytest.mark.recorded

CASES = [
    Case(RECORDED / path)
    for path in (
        "hadoop-2.7.3/renames",
        "hadoop-2.7.3/empty",
        "hadoop-3.4.1/snapshots-rename-references",
        "hadoop-3.4.1/random-mixed-70100",
        "hadoop-3.4.1/sub-sections",
    )
]
RENAMES = CASES[0]
COMPRESSED = (
    "<configuration><property><name>dfs.image.compress</name><value>true</value></property>"
    "<property><name>dfs.image.compression.codec</name><value>org.apache.hadoop.io.compress.GzipCodec</value></property>"
    "</configuration>"
)


def state(directory: Path) -> dict[str, Any]:
    """Return contents and modification times of all files and folders."""
    kept = {str(path): path.stat() for path in sorted([directory, *directory.rglob("*")])}
    return {**fingerprint(directory), **{name: (s.st_ino, s.st_mtime_ns, s.st_mode) for name, s in kept.items()}}


def dry_run(directory: Path, *options: str | Path) -> dict[str, Any]:
    before = state(directory)
    code, out, err = run_cli("merge", directory, "--dry-run", "--json", *options)
    assert code == 0, err
    assert state(directory) == before
    reported: dict[str, Any] = json.loads(out)
    assert (reported["dryRun"], reported["merged"]) == (True, False)
    return reported


def merge(directory: Path, *options: str | Path) -> dict[str, Any]:
    code, out, err = run_cli("merge", directory, "--json", *options)
    assert code == 0, err
    done: dict[str, Any] = json.loads(out)
    return done


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_dry_run_reports_the_values_of_the_merge(case: Case, tmp_path: Path) -> None:
    case.copy_to(tmp_path)
    reported = dry_run(tmp_path)
    done = merge(tmp_path)
    same = ("baseTxid", "txid", "transactions", "inodes", "size", "layoutVersion", "versionFileLayout", "warnings")
    assert {key: reported[key] for key in same} == {key: done[key] for key in same}
    old, new = (imgcmp.Image(str(path)).inodes for path in (case.image("before"), Path(done["image"])))
    changes = reported["changes"]
    assert (changes["created"], changes["deleted"]) == (len(new.keys() - old.keys()), len(old.keys() - new.keys()))
    both = old.keys() & new.keys()
    assert sum(old[key] != new[key] for key in both) <= changes["changed"] <= len(both)
    (room,) = reported["room"]
    assert room["needed"] == done["size"] + Path(done["image"] + ".md5").stat().st_size
    assert (room["directory"], room["enough"]) == (str(tmp_path / "current"), True)


def test_dry_run_uses_the_settings_of_the_merge(tmp_path: Path) -> None:
    RENAMES.copy_to(tmp_path / "nn")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "hdfs-site.xml").write_text(COMPRESSED)
    options = ["--conf", tmp_path / "conf", "--layout", "-67"]
    reported = dry_run(tmp_path / "nn", *options)
    assert reported["layoutVersion"] == -67
    assert reported["size"] == merge(tmp_path / "nn", *options)["size"]


def test_dry_run_report_as_text(tmp_path: Path) -> None:
    RENAMES.copy_to(tmp_path)
    reported = dry_run(tmp_path)
    code, out, _ = run_cli("merge", tmp_path, "--dry-run")
    assert code == 0
    changes = reported["changes"]
    for line in (
        f"{reported['transactions']} transactions to merge onto txid {reported['baseTxid']}",
        f"inodes: {changes['created']} created, {changes['changed']} changed, {changes['deleted']} deleted",
        f"new image: {reported['size']} bytes",
        "nothing needs healing",
        f"nothing was written; newest transaction is {reported['txid']}",
    ):
        assert line in out


def test_dry_run_takes_no_lock(tmp_path: Path) -> None:
    """A NameNode may be using the directory."""
    RENAMES.copy_to(tmp_path)
    with StorageLock(tmp_path):
        assert dry_run(tmp_path)["transactions"] > 0


def test_dry_run_without_disk_space_is_an_error(tmp_path: Path) -> None:
    RENAMES.copy_to(tmp_path)
    needed = dry_run(tmp_path)["room"][0]["needed"]
    for free, expected in ((needed, 0), (needed - 1, 6)):
        with mock.patch("hadoop_common.disk_space.shutil.disk_usage", return_value=SimpleNamespace(free=free)):
            code, out, err = run_cli("merge", tmp_path, "--dry-run", "--json")
        assert code == expected
        assert json.loads(out)["room"][0]["enough"] == (not expected)
        assert ("no space for fsimage_" in err) == bool(expected)


def test_merge_checks_disk_space_before_writing(tmp_path: Path) -> None:
    RENAMES.copy_to(tmp_path)
    needed = dry_run(tmp_path)["room"][0]["needed"]
    before = state(tmp_path)
    for free, expected in ((needed - 1, 6), (needed, 0)):
        with mock.patch("hadoop_common.disk_space.shutil.disk_usage", return_value=SimpleNamespace(free=free)):
            code, _, err = run_cli("merge", tmp_path)
        assert (code, "no space for fsimage_" in err) == (expected, bool(expected))
        first = err.splitlines()[0]
        assert first.startswith(f"space in {tmp_path / 'current'}: about ")
        assert first.endswith(f"{byte_count(free)} free: this may be too little, so the exact size is computed first")
        if expected:
            # nothing changes except the lock, which the command acquires and releases
            assert {k: v for k, v in state(tmp_path).items() if k != str(tmp_path)} == {
                k: v for k, v in before.items() if k != str(tmp_path)
            }


def test_dry_run_of_damaged_edits_has_the_error_of_the_merge(tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "hadoop-2.7.3" / "corrupt" / "edits-flip-checksum" / "before", tmp_path / "current")
    before = state(tmp_path)
    found = run_cli("merge", tmp_path, "--dry-run")
    assert state(tmp_path) == before
    assert found.code == 4
    merged = run_cli("merge", tmp_path)
    # the first line shows the free space, which other processes change
    assert (found.code, found.err.splitlines()[1:]) == (merged.code, merged.err.splitlines()[1:])


def test_dry_run_finds_a_wrong_digest_of_the_old_image(tmp_path: Path) -> None:
    current = RENAMES.copy_to(tmp_path)
    digest = next(current.glob("*.md5"))
    digest.write_text("0" * 32 + digest.read_text()[32:])
    code, _, err = run_cli("merge", tmp_path, "--dry-run")
    assert (code, "MD5" in err) == (3, True)


def test_dry_run_without_newer_edits(tmp_path: Path) -> None:
    RENAMES.copy_to(tmp_path)
    merge(tmp_path)
    reported = dry_run(tmp_path)
    assert reported["txid"] == RENAMES.info["txid_after"]
    assert "transactions" not in reported


@pytest.mark.parametrize("options", [("--engine", "spark"), ("--master", "local[2]")])
def test_dry_run_requires_the_local_engine(tmp_path: Path, options: tuple[str, str]) -> None:
    RENAMES.copy_to(tmp_path)
    code, _, err = run_cli("merge", tmp_path, "--dry-run", *options)
    assert (code, "--dry-run works only with the local engine" in err) == (2, True)
