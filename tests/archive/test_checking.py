"""Readers find a flipped bit in an archive and name the file; only moments that need the file are lost."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from archive.adding import AddOptions, add_directory
from archive.archive import IDENTITY, Archive, open_archive
from archive.catalogue import COMMITS, MAIN
from archive.checking import check_archive
from archive.errors import ArchiveDamagedError, NoSuchMomentError
from archive.moments import moments, plan_restore, view_of
from archive.object_store import FolderStore, FsspecStore
from archive.restoring import RestoreOptions, restore_moment
from hadoop_common.names import image_name
from image_format.md5_file import md5_path
from tests.archive.killing_store import KilledError, KillingStore
from tests.archive.random_history import cut_merge, have_same_meaning, random_ops
from tests.archive.restored import restored
from tests.archive.storage import saved, segment, storage
from tests.cli_runner import run_cli
from tests.depth import SEED, chosen, scaled
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir

Moment = tuple[str, int]


@dataclass(frozen=True)
class Scene:
    """An archive with two base images in `main` and a branch after the second image.

    Attributes:
        root: the archive.
        sources: storage directory of each branch.
        moments: all moments that can be restored.
    """

    folder: Path
    root: Path
    sources: dict[str, Path]
    moments: set[Moment]

    def copy_to(self, folder: Path) -> Path:
        shutil.copytree(self.root, folder / "archive")
        return folder / "archive"

    def merged(self, moment: Moment) -> Path:
        """Return the image that a merge makes for the moment."""
        branch, txid = moment
        if txid == BASE_TXID:
            return self.sources[branch] / "current" / image_name(txid)
        folder = self.folder / f"{branch}-{txid}"
        return folder / image_name(txid) if folder.exists() else cut_merge(self.sources[branch], txid, folder)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("damage")
    nn, back, root = storage(folder / "nn"), folder / "back", folder / "archive"
    ops, options = random_ops(SEED, 30), AddOptions(restore_target=0)
    with open_archive(str(root)) as archive:
        first = segment(nn, BASE_TXID, *ops[:10])
        add_directory(archive, nn, options)
        second = segment(nn, first, *ops[10:20])
        base = cut_merge(nn, second, folder / "second")
        for path in (base, md5_path(base)):
            path.rename(nn / "current" / path.name)
        add_directory(archive, nn, options)
        shutil.copytree(nn, back)
        segment(nn, second, *ops[20:])
        add_directory(archive, nn, options)
        segment(back, second, *ops[20:25])
        branch = add_directory(archive, back, options).branch
        assert branch != MAIN
        return Scene(folder, root, {MAIN: nn, branch: back}, all_moments(archive))


def all_moments(archive: Archive) -> set[Moment]:
    catalogue = archive.catalogue()
    return {(name, txid) for name in catalogue.branches for each in moments(view_of(catalogue, name)) for txid in each}


def restorable(archive: Archive, moment: Moment, folder: Path) -> Path | str:
    """Return the image of a moment, or the name of the damaged file if the moment cannot be restored."""
    branch, txid = moment
    try:
        plan = plan_restore(view_of(archive.catalogue(), branch), txid)
        return restore_moment(archive, plan, folder, RestoreOptions()).image
    except ArchiveDamagedError as fault:
        return fault.file
    except NoSuchMomentError:
        # the content of a damaged commit is unknown
        return archive.catalogue().damaged[0]


@pytest.mark.parametrize("part", ["images", "edits", COMMITS, IDENTITY])
def test_flipped_bit_loses_only_dependent_moments_of_a_random_history(part: str, scene: Scene, tmp_path: Path) -> None:
    root = scene.copy_to(tmp_path)
    draw = random.Random(f"{SEED} {part}")
    files = [root / part] if part == IDENTITY else sorted((root / part).iterdir())
    for number in range(scaled(100, quick=1)):
        path = draw.choice(files)
        name, whole = str(path.relative_to(root)), path.read_bytes()
        flipped = bytearray(whole)
        flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        with open_archive(str(root)) as archive:
            report = check_archive(archive)
            assert name in report.damaged
            if part in ("images", "edits"):
                assert list(report.damaged) == [name]
            lost = {(branch, txid) for branch, first, last in report.lost for txid in range(first, last + 1)}
            for place, moment in enumerate(chosen(sorted(scene.moments), scaled(4, quick=2), f"{part} {number}")):
                found = restorable(archive, moment, tmp_path / f"{number}-{place}")
                if moment in lost or isinstance(found, str):
                    assert found == name
                    assert moment in lost or part in (COMMITS, IDENTITY)
                else:
                    assert have_same_meaning(found, scene.merged(moment))
        path.write_bytes(whole)
    with open_archive(str(root)) as archive:
        assert check_archive(archive).sound


def test_file_instead_of_an_archive_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    answer = run_cli("archive", "list", "--archive", file)
    assert (answer.code, f"{file}/{IDENTITY} cannot be read: Not a directory\n" in answer.err) == (6, True), answer.err
    assert "the value must be a directory" in answer.err


def damage_and_repair(path: Path, scene: Scene) -> None:
    root, whole = path.parent if path.name == IDENTITY else path.parents[1], path.read_bytes()
    content = bytearray(whole)
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refused = run_cli("archive", "add", scene.sources[MAIN], "--archive", root)
    assert (refused.code, "archive check --repair" in refused.err) == (3, True)
    repaired = run_cli("archive", "check", "--archive", root, "--repair")
    assert (repaired.code, path.name in repaired.out) == (3, True)
    with open_archive(str(root)) as archive:
        assert check_archive(archive).sound
        assert all_moments(archive) == scene.moments


def test_catalogue_and_identity_are_rebuilt_from_the_objects(scene: Scene, tmp_path: Path) -> None:
    root = scene.copy_to(tmp_path)
    damage_and_repair(root / IDENTITY, scene)
    for number, path in enumerate(sorted((root / COMMITS).iterdir())):
        damage_and_repair(scene.copy_to(tmp_path / str(number)) / COMMITS / path.name, scene)


def test_branches_survive_damage_of_the_commit_that_replaced_all(scene: Scene, tmp_path: Path) -> None:
    root = scene.copy_to(tmp_path)
    with mock.patch("archive.archive._COMPACT_AFTER", 3), open_archive(str(root)) as archive:
        archive.publish(archive.catalogue())
        commits = sorted((root / COMMITS).iterdir())
        assert len(commits) == 2
    damage_and_repair(commits[1], scene)


def test_restore_uses_an_older_image_if_one_is_damaged(scene: Scene, tmp_path: Path) -> None:
    root = scene.copy_to(tmp_path)
    newest = max((root / "images").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    last = max(scene.moments)
    words = ("--archive", root, "--txid", str(last[1]), "--branch", last[0])
    made = run_cli("archive", "restore", *words, "--out", tmp_path / "out")
    assert (made.code, f"{newest.name} is damaged" in made.err) == (0, True)
    assert have_same_meaning(tmp_path / "out" / "current" / image_name(last[1]), scene.merged(last))
    drill = run_cli("archive", "drill", *words)
    assert (drill.code, newest.name in drill.err) == (3, True)


def test_flipped_bit_is_found_and_loses_only_dependent_moments(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    middle = segment(nn, BASE_TXID, mkdir("/a", 16386))
    last = segment(nn, middle, mkdir("/b", 16387))
    add_directory(archive, nn)
    for record in archive.catalogue().records:
        path = tmp_path / "archive" / record.name
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 4
        path.write_bytes(content)
        report = check_archive(archive)
        assert list(report.damaged) == [record.name]
        first = BASE_TXID if record.name.startswith("images") else getattr(record, "first", 0)
        assert report.lost == [(MAIN, first, last)]
        if record.name.startswith("edits"):
            restored(archive, first - 1, tmp_path / f"good-{first}")
        with pytest.raises(ArchiveDamagedError):
            restored(archive, last, tmp_path / "bad")
        assert not (tmp_path / "bad").exists()
        content[len(content) // 3] ^= 4
        path.write_bytes(content)
    assert check_archive(archive).sound


def test_damaged_commit_is_rebuilt_from_the_objects(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    add_directory(archive, nn)
    names = archive.catalogue().names
    for path in (tmp_path / "archive" / "catalogue").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert not check_archive(archive).sound
    assert set(check_archive(archive, repair=True).adopted) == names
    assert check_archive(archive).sound
    restored(archive, last, tmp_path / "out")


@pytest.mark.parametrize("seed", range(SEED, SEED + scaled(20, quick=2)))
def test_kills_leave_only_garbage(seed: int, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    root, last = tmp_path / "archive", BASE_TXID
    for number in range(4):
        last = segment(nn, last, mkdir(f"/{number}", 16386 + number))
        known: range | None = None
        for steps in range(seed % 3 + 1, 40, 3):
            store = KillingStore(root, steps)
            try:
                add_directory(Archive(store), nn, AddOptions(restore_target=0, replay_rate=1))
            except KilledError:
                archive = Archive(FolderStore(root))
                view = view_of(archive.catalogue(), MAIN)
                # published objects remain
                assert known is None or set(known) <= set(moments(view)[0])
                if view.images:
                    known = moments(view)[0]
            else:
                break
        archive = Archive(FolderStore(root))
        assert moments(view_of(archive.catalogue(), MAIN)) == [range(BASE_TXID, last + 1)]
    check_archive(archive, repair=True)
    report = check_archive(archive)
    assert (report.sound, report.garbage) == (True, [])
    assert "/3" in saved(restored(archive, last, tmp_path / "out"), last)


def test_many_commits_are_compacted(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = BASE_TXID
    for number in range(70):
        last = segment(nn, last, mkdir(f"/{number}", 16386 + number))
        add_directory(archive, nn)
    assert len(archive.catalogue().commits) < 70
    assert moments(view_of(archive.catalogue(), MAIN)) == [range(BASE_TXID, last + 1)]
    assert check_archive(archive).garbage == []


def test_repair_keeps_young_unlisted_objects(archive: Archive, tmp_path: Path) -> None:
    add_directory(archive, storage(tmp_path / "nn"))
    folder = tmp_path / "archive"
    (folder / "edits").mkdir(mode=0o700, exist_ok=True)
    young, old = folder / "edits" / "young.zst", folder / "edits" / "old.zst"
    for path in (young, old):
        path.write_bytes(b"stored, but not listed")
    os.utime(old, (1, 1))
    answer = run_cli("archive", "check", "--archive", folder, "--repair")
    assert (answer.code, young.exists(), old.exists()) == (0, True, False)
    assert "not listed: edits/young.zst" in answer.out
    files = MemoryFileSystem()
    store = FsspecStore("memory://age", files, "/age")
    files.pipe_file("/age/edits/a", b"x")
    age = store.age("edits/a")
    assert age is not None
    assert -1 < age < 600
    assert store.age("edits/missing") is None
