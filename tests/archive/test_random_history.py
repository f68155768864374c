"""Archives of random histories: every moment equals a merge up to that moment, and each deletion can be undone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import open_archive
from archive.catalogue import MAIN
from archive.moments import moments, plan_restore, view_of
from archive.restoring import RestoreOptions, restore_moment
from journal.operation import EditOp
from journal.ops import DeleteOp, RenameOldOp, RenameOp
from tests.archive.random_history import cut_merge, have_same_meaning, random_ops, written
from tests.archive.storage import saved, storage
from tests.cli_runner import run_cli
from tests.depth import SEED, chosen, scaled
from tests.engine.image_builder import BASE_TXID, Saved

TRANSACTIONS = 60


@pytest.mark.parametrize("seed", range(SEED, SEED + scaled(100, quick=1)))
def test_every_moment_equals_a_merge_up_to_it(seed: int, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = written(nn, random_ops(seed, TRANSACTIONS, snapshots=seed % 2 == 1), seed)
    # a checkpoint in the middle becomes a second base image
    middle = cut_merge(nn, (BASE_TXID + last) // 2, tmp_path / "middle")
    for path in (middle, middle.with_name(f"{middle.name}.md5")):
        path.rename(nn / "current" / path.name)
    with open_archive(str(tmp_path / "archive")) as archive:
        added = add_directory(archive, nn, AddOptions(restore_target=0))
        assert len(added.images) == 2
        view = view_of(archive.catalogue(), MAIN)
        assert set().union(*moments(view)) == set(range(BASE_TXID, last + 1))
        wanted = range(BASE_TXID + 1, last + 1)
        for txid in chosen(wanted, scaled(len(wanted), quick=4), "moments"):
            made = restore_moment(archive, plan_restore(view, txid), tmp_path / f"r{txid}", RestoreOptions())
            merged = cut_merge(nn, txid, tmp_path / f"m{txid}")
            if txid <= int(middle.name.removeprefix("fsimage_")):
                assert made.image.read_bytes() == merged.read_bytes()
            assert have_same_meaning(made.image, merged)


@pytest.mark.parametrize("seed", range(SEED, SEED + scaled(50, quick=1)))
def test_every_deletion_can_be_undone(seed: int, tmp_path: Path) -> None:
    nn, ops = storage(tmp_path / "nn"), random_ops(seed, TRANSACTIONS)
    last = written(nn, list(ops), seed)
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    kept = Saved(cut_merge(nn, last, tmp_path / "kept").read_bytes())
    deletions = [op for op in ops if isinstance(op, DeleteOp)]
    for op in chosen(deletions, scaled(len(deletions), quick=2), "undo"):
        before = Saved(cut_merge(nn, op.txid - 1, tmp_path / f"b{op.txid}").read_bytes())
        words = ("--archive", tmp_path / "archive", "--without", op.txid, "--out", tmp_path / f"w{op.txid}", "--json")
        answer = run_cli("archive", "restore", *map(str, words))
        assert answer.code == 0, answer.err
        back, changes = saved(tmp_path / f"w{op.txid}", last + 1), json.loads(answer.out)["changes"]
        removed = {inode.id for path, inode in before.paths.items() if covers(op.path, path)}
        # every inode is restored at its path unless a later rename moved the inode, and later writes are not lost
        assert removed <= set(back.inodes)
        assert set(kept.inodes) <= set(back.inodes)
        later = [each for each in ops if each.txid > op.txid and isinstance(each, RenameOp | RenameOldOp)]
        if not any(covers(each.src, op.path) for each in later):
            assert back[op.path].id == before[op.path].id
        touched = {
            path
            for each in changes
            for name in ("path", "newPath")
            for path in places(each[name], [op for op in ops if op.txid > each["txid"]])
        }
        for path in kept.paths:
            if not any(covers(each, path) for each in touched):
                assert content(back, path) == content(kept, path)


def places(path: str, later: Sequence[EditOp]) -> Iterator[str]:
    """Yield a path, and the paths to which later renames move its inode; if the path is empty, yield nothing."""
    if not path:
        return
    yield path
    for op in later:
        if isinstance(op, RenameOp | RenameOldOp) and covers(op.src, path):
            path = op.dst + path[len(op.src) :]
            yield path


def content(image: Saved, path: str) -> object:
    """Return the attributes that undoing a deletion elsewhere must not change; times are included only for a file."""
    inode = image[path]
    return inode.id, image.owner(path), (image.mtime(path), image.blocks(path)) if inode.HasField("file") else None


def covers(path: str, other: str) -> bool:
    return other == path or other.startswith(f"{path.rstrip('/')}/")
