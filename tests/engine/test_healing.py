"""Healing of inconsistent snapshots, in the old image and in the new one, on directories that a NameNode wrote."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import Saved
from tests.recorded_cases import RECORDED, Case, imgcmp

pytestmark = pytest.mark.recorded

ODD = RECORDED / "hadoop-3.4.1" / "odd"
NOT_LOADING = [Case(path) for path in sorted([*ODD.glob("namenode-own-*"), *ODD.glob("dangling-child-*")])]
BROKEN_BASES = [case for case in NOT_LOADING if case.path.name.startswith("namenode-own-image-fails-")]
NO_CHECKPOINT = {
    "snapshot-10062": "diff-deleted-twice",
    "snapshot-20019": "diff-root",
    "snapshot-2010410": "diff-deleted",
    "snapshot-320039": "reference-snapshot",
    "snapshot-420044": "reference-snapshot",
}
"""Recordings of which Hadoop makes no loadable checkpoint, and a repair in our image; see also `tests/interop`."""
# edits of an earlier namespace that the log does not record, so that their effect is unknown
UNKNOWN_STATE = {"namenode-own-edits-fail-2"}
HEALED = [
    Case(RECORDED / "hadoop-2.7.3" / "random-mixed-551376"),
    Case(RECORDED / "hadoop-2.7.3" / "random-snapshot-551343"),
    Case(RECORDED / "hadoop-3.4.1" / "held-random-9"),
    Case(RECORDED / "hadoop-3.4.1" / "r-snapshot-sub-770036"),
]


def ready(case: Case, folder: Path) -> Path:
    """Copy an odd case as left by a NameNode that ends after its newest edits; return `current`."""
    current = case.copy_to(folder)
    last = max(int(path.name.rpartition("-")[2]) for path in current.glob("edits_*"))
    (current / "seen_txid").write_text(f"{last}\n")
    return current


@pytest.mark.parametrize("case", HEALED, ids=lambda case: case.id)
def test_strict_merge_refuses_images_that_need_healing(case: Case, tmp_path: Path) -> None:
    folder = case.copy_to(tmp_path / "nn")
    conf = case.write_configuration(tmp_path / "conf")
    before = fingerprint(folder)
    code, out, err = run_cli("merge", tmp_path / "nn", "--conf", conf, "--strict", "--json")
    assert (code, json.loads(out)["code"]) == (4, 4)
    assert "inconsistent with its children" in err or "the snapshots are inconsistent" in err
    assert fingerprint(folder) == before


def test_strict_merge_reports_edits_after_which_a_namenode_terminates(tmp_path: Path) -> None:
    """A NameNode finds the inconsistency after the last operation, when it computes quota usage."""
    case = Case(RECORDED / "hadoop-3.4.1" / "r-snapshot-sub-770036")
    case.copy_to(tmp_path / "nn")
    conf = case.write_configuration(tmp_path / "conf")
    code, _, err = run_cli("merge", tmp_path / "nn", "--conf", conf, "--strict")
    assert code == 4
    assert "inconsistent with its children at" in err
    assert "do not restart a running NameNode" in err


def test_symlink_lost_by_hadoop_is_kept_and_reported(tmp_path: Path) -> None:
    """Hadoop forgets the inode of a link that is in a snapshot; our merge keeps the inode in the snapshot."""
    case = Case(RECORDED / "hadoop-2.7.3" / "symlinks")
    case.copy_to(tmp_path)
    code, out, err = run_cli("merge", tmp_path, "--json")
    assert code == 0
    answer = json.loads(out)
    (healed,) = answer["healed"]
    assert (healed["code"], healed["section"], healed["inode"]) == ("diff-deleted", "SNAPSHOT_DIFF", 16393)
    assert f"healed: diff-deleted [SNAPSHOT_DIFF, inode 16393, {healed['path']}]: {healed['message']}" in err
    link = Saved(Path(answer["image"]).read_bytes()).inodes[16393]
    assert link.name.decode() == healed["path"].rpartition("/")[2]
    assert link.symlink.target


def test_as_hadoop_does_not_heal_but_warns(tmp_path: Path) -> None:
    case = Case(RECORDED / "hadoop-2.7.3" / "symlinks")
    case.copy_to(tmp_path)
    code, out, err = run_cli("merge", tmp_path, "--as-hadoop", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["healed"] == []
    (warning,) = answer["warnings"]
    assert "inode 16393 first" in warning
    assert f"warning: {warning}" in err
    assert run_cli("image", "verify", answer["image"]).code == 3


@pytest.mark.parametrize("name", NO_CHECKPOINT)
@pytest.mark.parameters(2)
def test_image_is_healed_where_hadoop_makes_no_loadable_checkpoint(name: str, tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "no-checkpoint" / name / "current", tmp_path / "current")
    code, out, err = run_cli("merge", tmp_path, "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert NO_CHECKPOINT[name] in {each["code"] for each in answer["healed"]}
    assert run_cli("image", "verify", answer["image"]).code == 0


def test_root_diff_of_a_deleted_snapshot_becomes_a_plain_diff(tmp_path: Path) -> None:
    """Hadoop writes the root diff, and a NameNode that loads the image terminates."""
    found = {}
    for options in ((), ("--as-hadoop",), ("--strict",)):
        shutil.copytree(RECORDED / "no-checkpoint" / "snapshot-20019" / "current", tmp_path / "current")
        code, out, _ = run_cli("merge", tmp_path, "--json", *options)
        assert code == (4 if options == ("--strict",) else 0)
        if code == 0:
            answer = json.loads(out)
            found[options] = next(diff for diff in imgcmp.Image(answer["image"]).diffs[2, 16398] if diff["snap"] == 5)
            assert len(answer["healed"]) == (not options)
        shutil.rmtree(tmp_path / "current")
    plain, root = found[()], found["--as-hadoop",]
    assert (root["root"], root["copy"]) == (1, None)
    assert (plain["root"], plain["name"], plain["copy"]["perm"]) == (0, b"pel=180-8", ("root", "supergroup", "0o755"))


def test_healing_options_are_mutually_exclusive(tmp_path: Path) -> None:
    assert run_cli("merge", tmp_path, "--as-hadoop", "--strict").code == 2


@pytest.mark.parametrize("case", BROKEN_BASES, ids=lambda case: case.path.name)
@pytest.mark.parameters(1)
def test_unloadable_base_image_is_healed_before_replay(case: Case, tmp_path: Path) -> None:
    folder = ready(case, tmp_path / "nn")
    before = fingerprint(folder)
    for options in (("--strict",), ()):
        code, out, err = run_cli("merge", tmp_path / "nn", "--json", *options)
        if options:
            assert (code, fingerprint(folder)) == (3, before)
            assert "are inconsistent with the image" in err
    answer = json.loads(out)
    reported = [each for each in answer["healed"] if "in the old image" in each["message"]]
    assert {each["code"] for each in reported} <= {"diff-deleted", "diff-created"}
    assert any(each["code"] == "diff-deleted" for each in reported)
    assert run_cli("image", "verify", answer["image"]).code == 0
    assert {name: digest for name, digest in fingerprint(folder).items() if name in before} == before


def test_inconsistent_image_with_a_wrong_digest_is_not_healed(tmp_path: Path) -> None:
    """Only images that a NameNode wrote are healed; a wrong digest shows that something changed the image later."""
    folder = ready(BROKEN_BASES[0], tmp_path / "nn")
    (image,) = folder.glob("fsimage_" + "?" * 19)
    image.with_name(image.name + ".md5").write_text(f"{'0' * 32} *{image.name}\n")
    before = fingerprint(folder)
    code, _, err = run_cli("merge", tmp_path / "nn")
    assert (code, fingerprint(folder)) == (3, before)
    assert "MD5" in err


@pytest.mark.parametrize("case", NOT_LOADING, ids=lambda case: case.path.name)
@pytest.mark.parameters(2)
def test_input_that_stops_a_namenode_is_refused_or_merged_to_a_valid_image(case: Case, tmp_path: Path) -> None:
    """Hadoop wrote an image that it cannot load, or edits that it cannot replay."""
    ready(case, tmp_path)
    before = fingerprint(tmp_path)
    code, out, err = run_cli("merge", tmp_path, "--json")
    assert bool(code) == (case.path.name in UNKNOWN_STATE)
    if code:
        assert code == 4
        assert re.search(r"OP_[A-Z_]+ at txid \d+", err)
        assert fingerprint(tmp_path) == before
    else:
        code, _, err = run_cli("image", "verify", json.loads(out)["image"])
        assert (code, err) == (0, "")
