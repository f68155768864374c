"""Replay without single transactions restores removed inodes and keeps later changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import add_directory
from archive.archive import open_archive
from image_format.proto import fsimage_pb2 as pb
from journal.ops import AllocateBlockIdOp, DeleteOp, EditOp, SetOwnerOp
from journal.segment_file import list_segments, read_ops
from tests.archive.restored import CASES
from tests.archive.storage import FOLLOWING, PREPARED, saved, segment, storage
from tests.cli_runner import run_cli
from tests.depth import sample, scaled
from tests.engine.image_builder import BASE_TXID, Saved
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old
from tests.recorded_cases import Case


def undone(folder: Path, *later: EditOp, first: EditOp | None = None) -> tuple[Saved, list[dict[str, str]]]:
    """Return the namespace without operation `first` (the deletion of /d), and the changes that the command lists."""
    nn = storage(folder / "nn")
    last = segment(nn, BASE_TXID, *PREPARED, first or delete("/d", 6000), *later)
    with open_archive(str(folder / "archive")) as archive:
        add_directory(archive, nn)
    words = ("--archive", folder / "archive", "--without", str(FOLLOWING), "--out", folder / "out", "--json")
    answer = run_cli("archive", "restore", *words)
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    # the result has one more transaction, because it belongs to another history
    assert found["txid"] == last + 1
    assert found["changes"][0]["txid"] == FOLLOWING
    return saved(folder / "out", last + 1), found["changes"][1:]


def test_deleted_files_are_restored_and_later_changes_are_kept(tmp_path: Path) -> None:
    image, changes = undone(tmp_path, mkdir("/e/new", 16390), add("/g", 16391), close("/g"))
    assert "/d/sub/f" in image
    assert "/e/new" in image
    assert "/g" in image
    assert changes == []


def test_directory_created_at_the_deleted_path_is_renamed(tmp_path: Path) -> None:
    later = (
        mkdir("/d", 16390),
        add("/d/f", 16391),
        close("/d/f"),
        rename("/e", "/d/e"),
        delete("/d/f"),
        mkdir("/d/g", 16392),
    )
    image, changes = undone(tmp_path, *later)
    moved = f"/d.undo-{FOLLOWING + 1}"
    assert "/d/sub/f" in image
    assert (f"{moved}/e" in image, f"{moved}/f" in image, f"{moved}/g" in image) == (True, False, True)
    assert image["/d"].id == 16386
    assert image[moved].id == 16390
    assert all(each["newPath"].startswith(moved) for each in changes if each["newPath"])


@pytest.mark.parametrize("move", [rename, rename_old])
def test_rename_onto_the_deleted_path_gets_another_target(move, tmp_path: Path) -> None:
    image, changes = undone(tmp_path, mkdir("/e/x", 16390), move("/e", "/d"), mkdir("/d/y", 16391), move("/d", "/z"))
    assert "/d/sub/f" in image
    assert ("/z/x" in image, "/z/y" in image, "/e" in image) == (True, True, False)
    assert changes[0]["newPath"] == f"/d.undo-{FOLLOWING + 2}"


def test_deletion_of_a_restored_path_is_skipped(tmp_path: Path) -> None:
    later = (mkdir("/d", 16390), delete("/d"), mkdir("/e/kept", 16391))
    image, changes = undone(tmp_path, *later)
    assert "/d/sub/f" in image
    assert f"/d.undo-{FOLLOWING + 1}" not in image
    assert "/e/kept" in image
    inner = tmp_path / "inner"
    inner.mkdir()
    image, changes = undone(inner, delete("/d", 7000), first=delete("/d/sub", 6000))
    assert "/d/sub/f" in image
    assert [each["reason"] for each in changes] == ["it would delete a restored path"]


def test_omitting_a_creation_skips_dependent_operations(tmp_path: Path) -> None:
    later = (
        add("/new/f", 16391),
        close("/new/f"),
        SetOwnerOp(src="/new", username="a", groupname="b"),
        mkdir("/h", 16392),
    )
    image, changes = undone(tmp_path, *later, first=mkdir("/new", 16390))
    assert "/new" not in image
    assert "/h" in image
    assert [each["newPath"] for each in changes] == ["", "", ""]


def test_omitting_a_rename_redirects_later_operations(tmp_path: Path) -> None:
    image, changes = undone(tmp_path, mkdir("/moved/x", 16390), first=rename("/d", "/moved"))
    assert ("/d/x" in image, "/d/sub/f" in image, "/moved" in image) == (True, True, False)
    assert changes[0]["newPath"] == "/d/x"


def test_paths_below_a_renamed_directory_are_not_confused(tmp_path: Path) -> None:
    later = (
        *(mkdir("/t", 16390), mkdir("/t/Current", 16391), mkdir("/t/Current/w", 16392)),
        *(rename("/t/Current", "/t/2311"), mkdir("/t/2311/other", 16393), delete("/t/2311/w")),
    )
    image, _ = undone(tmp_path, *later, first=rename("/d", "/e/w"))
    assert "/t/2311/other" in image
    assert "/d/sub/f" in image


def test_omitting_a_move_keeps_other_children_of_its_target(tmp_path: Path) -> None:
    later = (mkdir("/e/new", 16390), mkdir("/e/x", 16391), delete("/e/x"), mkdir("/e/d/y", 16392))
    image, _ = undone(tmp_path, *later, first=rename_old("/d", "/e"))
    assert ("/e/new" in image, "/e/x" in image, "/d/y" in image, "/d/new" in image) == (True, False, True, False)


def test_overwriting_rename_of_a_restored_parent_gets_another_target(tmp_path: Path) -> None:
    image, changes = undone(tmp_path, rename("/e", "/d", overwrite=True), first=delete("/d/sub", 6000))
    assert "/d/sub/f" in image
    assert changes[0]["newPath"] == f"/d.undo-{FOLLOWING + 1}"


def test_rename_below_an_omitted_directory_stays_at_its_source(tmp_path: Path) -> None:
    image, changes = undone(tmp_path, rename("/e", "/new/e"), mkdir("/new/e/z", 16391), first=mkdir("/new", 16390))
    assert ("/e/z" in image, "/new" in image) == (True, False)
    assert "the source stays at /e" in changes[0]["reason"]


def test_operation_that_cannot_be_omitted_is_rejected(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, AllocateBlockIdOp(block_id=1 << 31), add("/f", 16386), close("/f"), add("/f", 16386))
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    words = ("archive", "restore", "--archive", tmp_path / "archive", "--out", tmp_path / "out")
    refused = run_cli(*words, "--without", str(BASE_TXID + 2))
    assert (refused.code, "OP_ALLOCATE_BLOCK_ID, which cannot be omitted" in refused.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_archiving_after_an_undo_continues_on_a_branch(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, *PREPARED, delete("/d", 6000))
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
        words = ("--archive", tmp_path / "archive", "--without", str(FOLLOWING), "--out", tmp_path / "restored")
        assert run_cli("archive", "restore", *words).code == 0
        newest = segment(tmp_path / "restored", last + 1, mkdir("/d/new", 16390, 9000))
        added = add_directory(archive, tmp_path / "restored")
        assert [each.txid for each in added.images] == [last + 1]
    words = ("archive", "restore", "--archive", tmp_path / "archive", "--txid", str(newest), "--out", tmp_path / "now")
    unnamed = run_cli(*words)
    assert (unnamed.code, "Specify one of them with --branch" in unnamed.err) == (2, True)
    made = run_cli(*words, "--branch", added.branch)
    assert made.code == 0, made.err
    image = saved(tmp_path / "now", newest)
    assert ("/d/sub/f" in image, "/d/new" in image) == (True, True)


def deletions(case: Case) -> Sequence[DeleteOp]:
    found = [each for each in list_segments(case.path / "before") if each.last]
    return [op for each in found for op in read_ops(each) if isinstance(op, DeleteOp)]


@mock.patch("engine.replay.snapshots.now", return_value=5000)
@pytest.mark.parametrize("case", sample(CASES, scaled(50, quick=4), "undo"), ids=lambda case: case.id)
def test_recorded_deletions_can_be_undone(clock: mock.Mock, case: Case, tmp_path: Path) -> None:
    case.copy_to(tmp_path / "nn")
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, tmp_path / "nn")
    for op in sample(deletions(case), 1, case.id):
        (tmp_path / str(op.txid)).mkdir()
        check_undone(case, op.txid, op.path, tmp_path / "archive", tmp_path / str(op.txid))


def check_undone(case: Case, txid: int, path: str, archive: Path, tmp_path: Path) -> None:
    """Check that omitting deletion `txid` changes nothing that is independent of it."""
    conf = case.write_configuration(tmp_path / "conf")
    words = ("--archive", archive, "--conf", conf, "--json")
    answers = {}
    for name, more in (("with", ("--txid", str(case.info["txid_after"]))), ("without", ("--without", str(txid)))):
        answers[name] = run_cli("archive", "restore", *words, *more, "--out", tmp_path / name)
        assert answers[name].code == 0, answers[name].err
    last, changes = case.info["txid_after"], json.loads(answers["without"].out)["changes"]
    kept, back = saved(tmp_path / "with", last), saved(tmp_path / "without", last + 1)
    touched = {each["path"] for each in changes} | {each["newPath"] for each in changes}
    for name, inode in kept.paths.items():
        if not any(name == each or name.startswith(f"{each}/") for each in touched if each):
            assert isinstance(back[name], pb.INode)
            assert back[name].id == inode.id
    assert any(each["txid"] == txid and each["path"] == path for each in changes)
