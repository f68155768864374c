"""The search for the transaction that removed a path, as `undelete` and `archive restore --before-delete` use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import open_archive
from journal.ops import ConcatDeleteOp, EditOp
from tests.archive.storage import FOLLOWING, PREPARED, saved, segment, storage
from tests.cli_runner import Outcome, run_cli
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder
from tests.engine.op_makers import add, close, delete, mkdir, rename


@pytest.mark.parametrize("one_segment", [True, False])
def test_deletion_of_a_file_is_found_after_it_is_created_again(tmp_path: Path, one_segment: bool) -> None:
    # clients create files with the overwrite flag even if no file exists
    again = (add("/d/sub/f", 16390, overwrite=True), close("/d/sub/f"))
    nn = storage(tmp_path / "nn")
    if one_segment:
        segment(nn, BASE_TXID, *PREPARED, delete("/d/sub/f", 6000), *again)
    else:
        segment(nn, segment(nn, BASE_TXID, *PREPARED, delete("/d/sub/f", 6000)), *again)
    answer = run_cli("undelete", nn, "--path", "/d/sub/f", "--out", tmp_path / "out", "--json")
    assert (answer.code, json.loads(answer.out)["without"]) == (0, [FOLLOWING])
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    words = ("--archive", tmp_path / "archive", "--before-delete", "/d/sub/f", "--out", tmp_path / "before")
    assert run_cli("archive", "restore", *words).code == 0
    assert "/d/sub/f" in saved(tmp_path / "before", FOLLOWING - 1)


def test_first_creation_overwrites_only_files_in_the_image(tmp_path: Path) -> None:
    builder = ImageBuilder(HADOOP3)
    builder.file("/f", 16386)
    nn = storage(tmp_path / "nn", builder)
    again = (add("/f", 16390, overwrite=True), close("/f"), add("/new", 16391, overwrite=True), close("/new"))
    segment(nn, BASE_TXID, *again)
    answer = run_cli("undelete", nn, "--path", "/f", "--out", tmp_path / "out", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)["without"] == [BASE_TXID + 2]
    created = run_cli("undelete", nn, "--path", "/new", "--out", tmp_path / "none")
    assert (created.code, "/new did not exist before any available transaction" in created.err) == (2, True)


def found_removal(folder: Path, path: str, *segments: Sequence[EditOp], image_after: int | None = None) -> int | None:
    """Return the transaction that removed `path` according to `undelete` and `archive restore --before-delete`.

    Return None if both commands report that no transaction removed the path. `image_after` adds an image after this
    number of segments.
    """
    nn, end = storage(folder / "nn"), BASE_TXID
    with open_archive(str(folder / "archive")) as archive:
        add_directory(archive, nn)
        for number, ops in enumerate(segments, 1):
            end = segment(nn, end, *ops)
            if number == image_after:
                merged = run_cli("merge", nn)
                assert merged.code == 0, merged.err
                add_directory(archive, nn, AddOptions(restore_target=0))
        add_directory(archive, nn)
    words = ("--archive", folder / "archive", "--before-delete", path, "--out", folder / "before", "--json")
    before = run_cli("archive", "restore", *words)
    undone = run_cli("undelete", nn, "--path", path, "--out", folder / "undone", "--json")
    assert before.code == undone.code
    if before.code:
        assert before.code == 2
        assert all(f"deletes {path}" in each.err or f"{path} did not exist" in each.err for each in (before, undone))
        assert not any((folder / each).exists() for each in ("before", "undone"))
        return None
    result = json.loads(undone.out)
    assert path in saved(folder / "before", json.loads(before.out)["txid"])
    assert result["restored"] in saved(folder / "undone", result["txid"])
    assert result["without"] == [json.loads(before.out)["txid"] + 1] == [json.loads(before.out)["removal"]]
    return int(result["without"][0])


def test_replacement_by_a_rename_is_found(tmp_path: Path) -> None:
    later = (add("/g", 16390), close("/g"), rename("/g", "/d/sub/f", overwrite=True))
    assert found_removal(tmp_path, "/d/sub/f", (*PREPARED, *later)) == FOLLOWING + 2


def test_state_before_a_file_was_concatenated_is_found(tmp_path: Path) -> None:
    later = (
        add("/d/sub/g", 16390),
        close("/d/sub/g"),
        ConcatDeleteOp(trg="/d/sub/g", srcs=("/d/sub/f",), timestamp=7000),
    )
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, *PREPARED, *later)
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    words = ("--archive", tmp_path / "archive", "--before-delete", "/d/sub/f", "--out", tmp_path / "out")
    assert run_cli("archive", "restore", *words).code == 0
    assert "/d/sub/f" in saved(tmp_path / "out", FOLLOWING + 1)
    undone = run_cli("undelete", nn, "--path", "/d/sub/f", "--out", tmp_path / "undone")
    assert (undone.code, f"transaction {FOLLOWING + 2} is OP_CONCAT_DELETE, which cannot" in undone.err) == (2, True)
    assert f"`--before {FOLLOWING + 2}` undoes an earlier removal" in undone.err
    assert f"`checkpointer archive restore --txid {FOLLOWING + 1}` restores the state before this removal" in undone.err


@pytest.mark.parametrize("one_segment", [True, False])
def test_deletion_is_found_if_a_directory_above_was_deleted_later(tmp_path: Path, one_segment: bool) -> None:
    first, second = (*PREPARED, delete("/d/sub/f", 6000)), (delete("/d", 7000),)
    parts = [(*first, *second)] if one_segment else [first, second]
    assert found_removal(tmp_path, "/d/sub/f", *parts) == FOLLOWING


@pytest.mark.parametrize("one_segment", [True, False])
def test_deletion_of_a_directory_whose_children_are_named_is_found(tmp_path: Path, one_segment: bool) -> None:
    first, second = PREPARED, (delete("/d", 7000), mkdir("/d", 16390), mkdir("/d/sub", 16391), delete("/d/sub", 8000))
    parts = [(*first, *second)] if one_segment else [first, second]
    assert found_removal(tmp_path, "/d/sub/f", *parts) == FOLLOWING + 2 * (not one_segment)


def test_path_that_was_only_created_is_reported(tmp_path: Path) -> None:
    assert found_removal(tmp_path, "/new", (add("/new", 16390, overwrite=True), close("/new"))) is None


def test_path_that_was_created_in_a_moved_directory_is_reported(tmp_path: Path) -> None:
    later = (rename("/e", "/moved"), add("/moved/new", 16390, overwrite=True), close("/moved/new"))
    assert found_removal(tmp_path, "/moved/new", (*PREPARED, *later)) is None


def test_path_that_did_not_exist_in_a_deleted_directory_is_reported(tmp_path: Path) -> None:
    assert found_removal(tmp_path, "/d/none", (*PREPARED, delete("/d", 6000))) is None


def swapped() -> list[EditOp]:
    return [rename("/d", "/before"), rename("/e", "/d"), rename("/before", "/e")]


@pytest.mark.parametrize("segments", [1, 2, 3])
@pytest.mark.parametrize("image_after", [None, 1])
def test_deletion_in_a_directory_that_was_swapped_later_is_found(
    tmp_path: Path, segments: int, image_after: int | None
) -> None:
    parts = [[*PREPARED, delete("/d/sub/f", 6000)], [*swapped(), *swapped()], [*swapped(), mkdir("/later", 16392)]]
    while len(parts) > segments:
        parts[-2:] = [[*parts[-2], *parts[-1]]]
    assert found_removal(tmp_path, "/d/sub/f", *parts, image_after=image_after) == FOLLOWING


def test_earlier_state_is_restored_without_a_transaction(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    later = (mkdir("/between", 16390), *swapped(), mkdir("/later", 16392))
    segment(nn, BASE_TXID, *PREPARED, delete("/d/sub/f", 6000), *later)
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    words = ("--archive", tmp_path / "archive", "--before-delete", "/d/sub/f", "--without", str(FOLLOWING - 1))
    answer = run_cli("archive", "restore", *words, "--out", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    txid = json.loads(answer.out)["txid"]
    image = saved(tmp_path / "out", txid)
    assert (txid, "/d/sub/f" in image, "/e" in image, "/later" in image) == (FOLLOWING, True, False, False)
    late = (*words[:-1], str(FOLLOWING + 1), "--out", tmp_path / "late")
    refused = run_cli("archive", "restore", *late)
    text = f"--without names transaction {FOLLOWING + 1}, but the restore ends at {FOLLOWING - 1}"
    assert (refused.code, text in refused.err) == (2, True)


def test_restored_path_follows_later_renames(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nn = storage(tmp_path / "nn")
    swaps = [op for _ in range(3) for op in swapped()]
    last = segment(nn, BASE_TXID, *PREPARED, delete("/d/sub/f", 6000), *swaps)
    answer = run_cli("undelete", nn, "--path", "/d/sub/f", "--out", tmp_path / "out")
    assert answer.code == 0
    assert f"/d/sub/f did not exist before transaction {FOLLOWING + 7}, OP_RENAME" in caplog.text
    assert f"the operations since the image of transaction {BASE_TXID} are searched" in caplog.text
    assert f"without transaction {FOLLOWING}, OP_DELETE at 1970-01-01T00:00:06Z: /d/sub/f" in answer.out
    assert "restored: /e/sub/f" in answer.out
    assert "/e/sub/f" in saved(tmp_path / "out", last + 1)


def test_operations_before_which_a_path_was_missing_are_listed(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, *PREPARED, *swapped(), *swapped())
    answer = run_cli("undelete", nn, "--path", "/d/none", "--out", tmp_path / "out")
    assert (answer.code, (tmp_path / "out").exists()) == (2, False)
    listed = [f"transaction {each}, OP_RENAME at" for each in (FOLLOWING + 3, FOLLOWING)]
    assert [each in answer.err for each in listed] == [True, True]
    assert "Search the other edits directories, or an archive. If the path had another name" in answer.err


def test_earlier_deletion_of_a_path_can_be_chosen(tmp_path: Path) -> None:
    again = (add("/d/sub/f", 16390, overwrite=True), close("/d/sub/f"), delete("/d/sub/f", 7000))
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, *PREPARED, delete("/d/sub/f", 6000), *again)

    def undeleted(*more: str) -> Outcome:
        return run_cli("undelete", nn, "--path", "/d/sub/f", *more, "--out", tmp_path / f"out{len(more)}", "--json")

    assert json.loads(undeleted().out)["without"] == [FOLLOWING + 3]
    earlier = undeleted("--before", str(FOLLOWING + 3))
    assert json.loads(earlier.out)["without"] == [FOLLOWING]
    assert saved(tmp_path / "out2", json.loads(earlier.out)["txid"])["/d/sub/f"].id == 16388
    none = run_cli("undelete", nn, "--path", "/d/sub/f", "--before", str(FOLLOWING), "--out", tmp_path / "none")
    assert none.code == 2
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    words = ("archive", "restore", "--archive", tmp_path / "archive", "--before", str(FOLLOWING + 3), "--json")
    restored = run_cli(*words, "--before-delete", "/d/sub/f", "--out", tmp_path / "earlier")
    assert json.loads(restored.out)["removal"] == FOLLOWING
    assert saved(tmp_path / "earlier", FOLLOWING - 1)["/d/sub/f"].id == 16388
    refused = run_cli(*words, "--txid", str(FOLLOWING), "--out", tmp_path / "none")
    assert (refused.code, "--before requires --before-delete" in refused.err) == (2, True)
    assert f"deletes /d/sub/f, or a directory above it, before transaction {FOLLOWING}" in none.err
