"""A process that adds, prunes or repairs is killed at random system calls: every archived moment can be restored."""

from __future__ import annotations

import random
import shutil
import time
from itertools import count
from pathlib import Path

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import open_archive
from archive.catalogue import MAIN
from archive.checking import check_archive
from archive.moments import moments, plan_restore, view_of
from archive.restoring import RestoreOptions, restore_moment
from hadoop_common.names import image_name
from image_format.md5_file import md5_path
from tests.archive.killed_process import is_killed
from tests.archive.random_history import cut_merge, have_same_meaning, random_ops
from tests.archive.storage import segment, storage
from tests.cli_runner import run_cli
from tests.depth import SEED, scaled
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder

KILLS = 20
DAY = 86_400_000
MAX_STEPS = 60


def add(root: Path, nn: Path) -> None:
    with open_archive(str(root)) as archive:
        add_directory(archive, nn, AddOptions(restore_target=0))


def prune(root: Path, nn: Path) -> None:
    run_cli("archive", "prune", "--archive", root, "--keep", "all for 5d, weekly for 60d")


def repair(root: Path, nn: Path) -> None:
    with open_archive(str(root)) as archive:
        check_archive(archive, repair=True)


def all_moments(root: Path) -> set[int]:
    with open_archive(str(root)) as archive:
        return set().union(*moments(view_of(archive.catalogue(), MAIN)))


def test_killed_first_addition_creates_no_history(tmp_path: Path) -> None:
    """Before the next addition, the NameNode purges all files of the killed addition."""
    nn, purged = storage(tmp_path / "nn"), ImageBuilder(HADOOP3)
    last = segment(nn, BASE_TXID, *random_ops(0, 20))
    purged.info.transactionId = last
    later = storage(tmp_path / "later", purged)
    newest = segment(later, last, *random_ops(1, 5))
    for step in count(1):
        root = tmp_path / f"archive-{step}"
        killed = is_killed(add, root, nn, step)
        with open_archive(str(root)) as archive:
            if archive.catalogue().records:
                assert last in all_moments(root)
            else:
                added = add_directory(archive, later)
                assert (added.branch, added.restorable) == (MAIN, newest)
        if not killed:
            assert step > 1
            break


@pytest.mark.parametrize("seed", range(SEED, SEED + scaled(25, quick=1)))
def test_kills_lose_no_moment(seed: int, tmp_path: Path) -> None:
    draw, root, nn = random.Random(seed), tmp_path / "archive", storage(tmp_path / "nn")
    ops = random_ops(seed, 200, start=time.time_ns() // 1_000_000 - 30 * DAY, step=DAY // 4)
    add(root, nn)
    last, kills, wanted = BASE_TXID, 0, scaled(KILLS, quick=5)
    while kills < wanted:
        action = draw.choice((add, add, prune, repair))
        if action is add and ops:
            size = draw.randrange(1, 8)
            last, ops = segment(nn, last, *ops[:size]), ops[size:]
            if draw.random() < 0.3 and not (nn / "current" / image_name(last)).exists():
                image = cut_merge(nn, last, tmp_path / f"image-{last}")
                for path in (md5_path(image), image):
                    path.rename(nn / "current" / path.name)
        expected = all_moments(root)
        if action is prune:
            shutil.copytree(root, tmp_path / f"copy-{kills}", dirs_exist_ok=True)
            prune(tmp_path / f"copy-{kills}", nn)
            expected = all_moments(tmp_path / f"copy-{kills}")
            shutil.rmtree(tmp_path / f"copy-{kills}")
        if not is_killed(action, root, nn, draw.randrange(1, MAX_STEPS)):
            continue
        kills += 1
        assert expected <= all_moments(root)
        with open_archive(str(root)) as archive:
            assert check_archive(archive).damaged == {}
            txid = draw.choice(sorted(expected))
            scratch = tmp_path / f"kill-{kills}"
            plan = plan_restore(view_of(archive.catalogue(), MAIN), txid)
            made = restore_moment(archive, plan, scratch, RestoreOptions())
        if txid > BASE_TXID:
            assert have_same_meaning(made.image, cut_merge(nn, txid, scratch / "merged"))
    add(root, nn)
    assert last in all_moments(root)
    repair(root, nn)
    with open_archive(str(root)) as archive:
        report = check_archive(archive)
    assert (report.sound, report.garbage) == (True, [])
