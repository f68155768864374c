"""Replay of operations with paths that Java clients never send, compared with the results of Hadoop 2.7.3 and 3.4.2
NameNodes.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from engine.errors import ReplayError, UnsupportedOperationError
from engine.namespace.leases import Leases
from engine.namespace.namespace import Namespace
from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from journal import ops
from journal.ops import EditOp
from tests.cli_runner import run_cli
from tests.depth import SEED, scaled
from tests.engine.ignored_ops import SCENE, scene
from tests.engine.image_builder import HADOOP2, HADOOP3, LAYOUTS, Saved, merge_bytes, merged, store
from tests.engine.odd_paths import CASES, LEASES, NEW, OPEN, Case, append, reported, symlink
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old, set_permissions, times
from tests.engine.snapshot_support import create

REPRODUCTIONS = Path(__file__).parents[1] / "recorded" / "reproductions"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: reported(case[0]))
def test_path_is_resolved_as_by_a_namenode(tmp_path: Path, case: Case, layout: int) -> None:
    given, *expected = case
    change = expected[layout == HADOOP3]
    source = scene(tmp_path, layout)
    if isinstance(change, str):
        with pytest.raises(ReplayError) as caught:
            merged(source, *SCENE, *given)
        assert caught.value.exit_code == 4
        return
    before, after = set(merged(source, *SCENE).paths), set(merged(source, *SCENE, *given).paths)
    assert (before - after, after - before) == change


@pytest.mark.parametrize("op", [rename_old("/d/", "/d/sub/n"), rename("/d/", "/d/sub/n")])
def test_rename_that_would_lose_a_directory_is_refused(tmp_path: Path, op: EditOp) -> None:
    """Hadoop 2.7 moves the directory below itself, where no path reaches it."""
    with pytest.raises(UnsupportedOperationError, match="is below the renamed directory") as caught:
        merged(scene(tmp_path, HADOOP2), *SCENE, op)
    assert caught.value.exit_code == 5
    # a NameNode's own checkpoint would make the loss permanent
    assert "edits recover --skip" in caught.value.hint


# ---- leases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "leases"), LEASES)
def test_hadoop_2_leases_have_the_paths_of_the_operations(
    tmp_path: Path, given: tuple[EditOp, ...], leases: set[tuple[int, str]]
) -> None:
    """Hadoop 2.7 finds leases by path string, so a rename with an additional slash separates the leases from their
    files.
    """
    source = scene(tmp_path, HADOOP2)
    image = merged(source, *SCENE, *given)
    assert image.lease_paths() == leases
    # a merge of the written image keeps the leases
    again = store(tmp_path / "again", image.data, image.info.transactionId)
    assert merged(again, mkdir("/later", NEW + 9)).lease_paths() == leases


def test_file_closed_by_another_path_spelling_is_not_listed_as_open(tmp_path: Path) -> None:
    """A NameNode does not load an image that lists a closed file in FILES_UNDERCONSTRUCTION."""
    before = merged(scene(tmp_path, HADOOP2), *SCENE)
    again = store(tmp_path / "again", before.data, before.info.transactionId)
    assert before.lease_paths() == {(OPEN, "/open")}
    assert merged(again, close("/open//")).lease_paths() == set()


def test_delete_with_one_trailing_slash_does_not_search_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path with a single trailing slash is a prefix of every lease path below the directory, so the leases need no
    search.
    """
    source = scene(tmp_path, HADOOP2)
    given = [mkdir("/e", NEW), add("/e/f", NEW + 1), add("/open", NEW + 2)]
    monkeypatch.setattr(Namespace, "open_below", lambda *_: [])
    monkeypatch.setattr(Leases, "rows_below", lambda *_: pytest.fail("leases are searched"))
    assert merged(source, *given, delete("/e/")).lease_paths() == {(NEW + 2, "/open")}


def test_hadoop_3_leases_follow_their_files(tmp_path: Path) -> None:
    image = merged(scene(tmp_path, HADOOP3), *SCENE, add("/d/n/", NEW), rename_old("/d//", "/e/"))
    assert image.lease_paths() == {(OPEN, "/open"), (NEW, "/e/n")}


# ---- both ways of replay -----------------------------------------------------------------------------------


_PARTS = ("d", "f", "sub", "z", "s", "l", "open", ".", "..", "", ".snapshot", "s1", ".reserved", "raw", "n", ".staging")


def _path(chance: random.Random) -> str:
    names = [chance.choice(_PARTS[: 7 if chance.random() < 0.8 else None]) for _ in range(chance.randint(0, 4))]
    return ("/" if chance.random() < 0.95 else "") + "/".join(names) + ("/" if chance.random() < 0.2 else "")


def _op(chance: random.Random, inode_id: int) -> EditOp:
    path, other = _path(chance), _path(chance)
    made: list[EditOp] = [
        mkdir(path, inode_id),
        add(path, inode_id),
        delete(path),
        close(path),
        append(path),
        rename_old(path, other),
        rename(path, other, overwrite=chance.random() < 0.5),
        set_permissions(path, 0o600),
        times(path, chance.choice((-1, 5)), chance.choice((-1, 5))),
        ops.SetReplicationOp(path=path, replication=2),
        ops.SetOwnerOp(src=path, username=chance.choice(("", "hdfs"))),
        symlink(path, inode_id),
        create(f"s{inode_id}", path),
    ]
    return chance.choice(made)


@pytest.mark.parameters(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("number", range(scaled(400, quick=6)))
def test_kernels_resolve_odd_paths_like_the_plain_functions(tmp_path: Path, layout: int, number: int) -> None:
    """`merge_bytes` compares the images or errors of kernels and plain functions; refused operations are skipped."""
    chance = random.Random(1000 * SEED + number)
    source = scene(tmp_path, layout)
    given: list[EditOp] = list(SCENE)
    for inode_id in range(NEW, NEW + 25):
        tried = [*given, _op(chance, inode_id)]
        try:
            Saved(merge_bytes(source, tried))
        except HdfsError:
            continue
        given = tried


# ---- reproductions -----------------------------------------------------------------------------------------


def reproduction(tmp_path: Path, name: str) -> Path:
    current = tmp_path / "nn" / "current"
    shutil.copytree(REPRODUCTIONS / name, current, copy_function=shutil.copyfile)
    return current


def test_a_rename_whose_destination_ends_in_a_slash_is_not_lost(tmp_path: Path) -> None:
    current = reproduction(tmp_path, "rename-trailing-slash")
    done = run_cli("merge", current.parent, "--in-progress", "--json")
    assert done.code == 0, done.err
    assert set(Saved((current / image_name(4)).read_bytes()).paths) == {"/", "/w", "/w/e"}


def test_snapshot_of_a_reserved_path_belongs_to_the_directory_behind_it(tmp_path: Path) -> None:
    current = reproduction(tmp_path, "raw-snapshot")
    done = run_cli("merge", current.parent, "--json")
    assert done.code == 0, done.err
    assert set(Saved((current / image_name(13)).read_bytes()).paths) == {"/", "/zone"}
