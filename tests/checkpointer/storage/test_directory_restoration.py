"""Storage directories that are dropped, and return with the same or other contents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.roles.standby.bootstrap import repair_versions
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore, revise
from checkpointer.storage.formatting import write_seen_txid, write_version
from checkpointer.storage.inspector import read_storage_info
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED
from checkpointer.storage.usable_images import latest_image
from hadoop_common.errors import StorageError
from hadoop_common.names import checkpoint_name, image_name
from hadoop_common.storage_lock import StorageLock
from tests.checkpointer.storage_support import (
    IMAGE_TXID,
    INFO,
    NEW_TXID,
    OpenDirectories,
    put_image,
    recorded_directory,
    save,
)


@pytest.mark.parametrize("parent", [LOST_PAST, NOT_COMPARED])
def test_lost_images_do_not_return_with_a_directory(tmp_path: Path, parent: str) -> None:
    """The directory was dropped while this node started over; its images are older than the NameNode's."""
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        lost = put_image(roots[0] / "current", IMAGE_TXID - 1)
        storage.begin_start_over(parent, "the NameNode was set back")
        storage.drop(roots[0], "gone")
        storage.link_aside(parent, "the NameNode was set back")
        save(storage)
        storage.finish_start_over(keep=[image_name(NEW_TXID)])
        assert restore(storage) == [roots[0]]
        storage.refuse_unfinished()
    assert not lost.exists()
    (aside,) = (roots[0] / parent).iterdir()
    assert {lost.name, image_name(IMAGE_TXID)} <= {path.name for path in aside.iterdir()}


def test_directory_with_files_of_a_newer_release_stays_dropped(tmp_path: Path) -> None:
    first, second = recorded_directory(tmp_path / "a"), recorded_directory(tmp_path / "b")
    with OpenDirectories([first, second], retries=True) as storage:
        storage.drop(second, "the disk failed")
        (second / "checkpointer-silences.json").write_text('{"format": 3}')
        restore(storage)
        assert storage.roots == [first]
        assert "has format 3" in storage.dropped[second]


def test_unwritable_or_full_directory_stays_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots, retries=True) as storage:
        storage.drop(roots[0], "No space left on device")
        with monkeypatch.context() as patch:
            patch.setattr("checkpointer.storage.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
            assert restore(storage) == []
            assert "4096 bytes free" in storage.dropped[roots[0]]
        with monkeypatch.context() as patch:
            patch.setattr("checkpointer.storage.disk_space.free_inodes", lambda _: 0)
            assert restore(storage) == []
            assert "0 inodes free" in storage.dropped[roots[0]]
        blocked = roots[0] / "current" / "seen_txid.tmp"
        blocked.mkdir()
        assert restore(storage) == []
        assert not [line for line in caplog.messages if "used again" in line]
        blocked.rmdir()
        assert restore(storage) == [roots[0]]
        assert f"storage directory {roots[0]} is used again after " in caplog.messages[-1]


@pytest.mark.parametrize("restore", [False, True])
def test_directory_without_permission_is_used_again_once_permitted(
    tmp_path: Path, restore: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory's permission is removed and restored; the last directory is always used again."""
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    forbidden: set[Path] = set()
    monkeypatch.setattr("checkpointer.storage.inspector.os.access", lambda path, mode: path.parent not in forbidden)
    with OpenDirectories(roots) as storage:
        forbidden.add(roots[0])
        revise(storage, restore_dropped=restore)
        assert storage.roots == [roots[1]]
        assert "cannot be written" in storage.dropped[roots[0]]
        forbidden.clear()
        revise(storage, restore_dropped=restore)
        assert storage.roots == (roots if restore else [roots[1]])
        if not restore:
            with pytest.raises(StorageError):
                storage.drop(roots[1], "gone")
            revise(storage, restore_dropped=False)
            assert set(storage.roots) == set(roots)


@pytest.mark.parametrize("restarted", [False, True])
def test_directory_that_missed_an_upgrade_gets_the_current_version(tmp_path: Path, restarted: bool) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        abandoned = storage.storage_info()
        upgraded = replace(abandoned, c_time=abandoned.c_time - 1)
        storage.drop(roots[0], "gone")
        storage.write_version(upgraded)
        if not restarted:
            assert restore(storage) == [roots[0]]
    if restarted:
        storage = StorageDirectories(roots)
        storage.lock()
        repair_versions(storage)
        assert storage.roots == [roots[1]]
        assert storage.is_formatted()
        assert restore(storage) == [roots[0]]
        storage.release()
    assert [read_storage_info(root) for root in roots] == [upgraded] * 2
    assert not list((roots[0] / "current").glob("fsimage_*"))
    assert list((roots[0] / "lost_past").glob(f"*/{image_name(IMAGE_TXID)}"))
    assert latest_image([roots[1] / "current"]).txid == IMAGE_TXID


def test_directory_of_another_namespace_is_not_changed(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        write_version(roots[0], INFO)
        names = sorted((roots[0] / "current").iterdir())
        assert restore(storage) == []
        assert "does not belong to" in storage.dropped[roots[0]]
        assert sorted((roots[0] / "current").iterdir()) == names


def test_only_directory_for_edits_keeps_them_at_its_return(tmp_path: Path) -> None:
    images, edits = (recorded_directory(tmp_path / name) for name in ("images", "edits"))
    for path in (*(images / "current").glob("edits_*"), *(edits / "current").glob("fsimage_*")):
        path.unlink()
    with OpenDirectories([images, edits], edits_only=[edits], images_only=[images]) as storage:
        segments = sorted((edits / "current").glob("edits_*"))
        assert segments
        storage.drop(edits, "gone")
        assert restore(storage) == [edits]
        assert sorted((edits / "current").glob("edits_*")) == segments


def test_unreadable_newest_image_is_not_excluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the disk is not recorded as a fault of the file, so the image remains the newest."""
    with OpenDirectories([recorded_directory(tmp_path / "a")]) as storage:
        monkeypatch.setattr("checkpointer.storage.directories.content_fault", lambda path: "Input/output error")
        assert not storage.exclude_damaged()


def test_dropped_directory_is_used_again(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        storage.drop(roots[0] / "current", "disk on fire")
        assert storage.roots == [roots[1]]
        assert storage.dropped == {roots[0]: "disk on fire"}
        (roots[0] / "current" / checkpoint_name(99)).touch()
        assert restore(storage) == [roots[0]]
        assert storage.roots == roots
        assert not (roots[0] / "current" / checkpoint_name(99)).exists()
        assert restore(storage) == []


def test_new_disk_in_place_of_a_dropped_one_is_formatted(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        roots[0].rename(tmp_path / "away")
        # the directory is missing, as if its disk were not mounted
        assert restore(storage) == []
        assert f"is empty, but {roots[1]} contains images" in storage.dropped[roots[0]]
        assert not roots[0].exists()
        (roots[0] / "current").mkdir(parents=True)
        assert restore(storage) == [roots[0]]
        save(storage)
        assert latest_image([roots[0] / "current"]).txid == NEW_TXID
        with pytest.raises(StorageError, match="held by"):
            StorageLock(roots[0]).acquire()


def test_damaged_directory_stays_dropped(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        (roots[0] / "current" / "VERSION").write_text("rubbish")
        assert restore(storage) == []
        assert storage.roots == [roots[1]]


def test_all_directories_can_be_dropped_and_return(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "a")
    with OpenDirectories([root]) as storage:
        with pytest.raises(StorageError, match="no storage directory is left"):
            storage.drop(root, "the disk is full")
        for question in (storage.current_folders, storage.latest_image, storage.is_formatted, storage.storage_info):
            with pytest.raises(StorageError, match=r"no storage directory is left: .*/a: the disk is full"):
                question()
        assert restore(storage) == [root]
        assert storage.latest_image().txid == IMAGE_TXID
        with pytest.raises(ValueError, match="not one of these storage directories"):
            storage.drop(tmp_path / "other", "gone")


def test_format_can_be_repeated_after_all_directories_failed(tmp_path: Path) -> None:
    storage = StorageDirectories([tmp_path / "a"])
    storage.lock()
    with pytest.raises(StorageError, match="no storage directory is left"):
        storage.drop(tmp_path / "a", "the disk is full")
    assert restore(storage) == [tmp_path / "a"]
    storage.format(INFO)
    assert storage.storage_info() == INFO
    storage.release()


def test_failed_write_drops_the_directory(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        (roots[0] / "current" / "seen_txid.tmp").mkdir()
        storage.write_seen_txid(200)
        assert list(storage.dropped) == [roots[0]]
        assert (roots[1] / "current" / "seen_txid").read_text() == "200\n"


# ---- of a secondary ----


def checkpoint_directory(root: Path) -> Path:
    recorded_directory(root)
    write_seen_txid(root, 0)
    for path in (root / "current").glob("*inprogress*"):
        path.unlink()
    return root


def test_secondary_uses_no_older_images_if_the_newest_are_unavailable(tmp_path: Path) -> None:
    good, old, edits = (checkpoint_directory(tmp_path / name) for name in ("good", "old", "edits"))
    for path in (edits / "current").glob("fsimage_*"):
        path.unlink()
    version = good / "current" / "VERSION"
    text = version.read_text()
    storage = SecondaryStorage([good, old], [edits], permission=0o700)
    storage.open()
    storage.drop(old / "current", "gone")
    put_image(good / "current", NEW_TXID)
    version.write_text("rubbish")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"left for images: .*may be older than those of"):
            storage.revise()
    version.write_text(text)
    storage.revise()
    assert set(storage.states().values()) == {"in use"}
    newest = storage.latest_image()
    assert newest is not None
    assert newest.path == good / "current" / image_name(NEW_TXID)
    storage.close()


def test_directory_of_a_secondary_that_missed_an_upgrade_is_emptied(tmp_path: Path) -> None:
    roots = [checkpoint_directory(tmp_path / name) for name in "ab"]
    storage = SecondaryStorage(roots, (), permission=0o700)
    storage.open()
    upgraded = replace(storage.storage_info(), c_time=1 << 40)
    storage.drop(roots[1] / "current", "gone")
    storage.write_version(upgraded)
    storage.close()
    storage = SecondaryStorage(roots, (), permission=0o700)
    storage.open()
    assert storage.versions() == {upgraded}
    assert set(storage.states().values()) == {"in use"}
    assert not list((roots[1] / "current").glob("fsimage_*"))
    storage.close()
