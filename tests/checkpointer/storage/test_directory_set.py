"""Locks of storage directories, and directories that cannot be used."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore, revise
from checkpointer.storage.inspector import read_storage_info
from hadoop_common.errors import StorageError
from hadoop_common.names import checkpoint_name, image_name
from hadoop_common.storage_lock import StorageInUseError, StorageLock
from tests.checkpointer.storage_support import IMAGE_TXID, NEW_TXID, OpenDirectories, recorded_directory, save
from tests.hadoop_common.lock_support import held_elsewhere


def test_open_locks_checks_and_removes_leftovers(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "nn", "corrupt/image-checkpoint-leftover")
    with OpenDirectories([root]) as storage:
        assert storage.storage_info() == read_storage_info(root)
        assert storage.latest_image() == (root / "current" / image_name(IMAGE_TXID), IMAGE_TXID)
        assert not (root / "current" / checkpoint_name(NEW_TXID)).exists()
        with pytest.raises(StorageError, match="held by"):
            StorageLock(root).acquire()
    with StorageLock(root):
        pass


def test_directory_with_a_failing_disk_is_listed_until_its_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [recorded_directory(tmp_path / name) for name in ("a", "b")]
    with OpenDirectories(roots) as storage:
        folders = storage.current_folders()
        real = os.stat

        def stat(path: str | Path, **options: bool) -> os.stat_result:
            if Path(path) == folders[0] / "VERSION":
                raise OSError(errno.EIO, "Input/output error", str(path))
            return real(path, **options)

        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", stat)
            assert storage.current_folders() == folders == [root / "current" for root in roots]


def test_all_locks_are_released_if_one_directory_is_locked(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    second.mkdir()
    with StorageLock(second), pytest.raises(StorageError, match="held by"):
        StorageDirectories([first, second]).lock()
    with StorageLock(first):
        pass


@pytest.mark.parametrize("damage", ["version", "link"])
def test_start_continues_with_the_usable_directories(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    if damage == "version":
        (roots[0] / "current" / "VERSION").write_bytes(b"")
    else:
        roots[0].rename(tmp_path / "away")
        roots[0].symlink_to(tmp_path / "not mounted")
    with OpenDirectories(roots, retries=True) as storage:
        assert storage.roots == [roots[1]]
        assert list(storage.dropped) == [roots[0]]
        (line,) = [line for line in caplog.messages if "is not used" in line]
        assert f"storage directory {roots[0]} is not used: " in line
        assert "; next: " in line
        save(storage)
        for _ in range(3):
            assert restore(storage) == []
        assert len([line for line in caplog.messages if "is not used" in line]) == 1


@pytest.mark.parametrize("below", ["", "cp"])
def test_error_names_a_link_to_a_missing_mount(tmp_path: Path, below: str) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "mount" / "data")
    with pytest.raises(StorageError, match=r"link is a link to .*/mount/data, which does not exist") as caught:
        StorageDirectories([link / below]).lock()
    assert "Mount the file system" in caught.value.hint
    assert not (tmp_path / "mount").exists()


def test_start_with_read_only_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One disk is mounted read-only, then both are."""
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    read_only = {roots[0]}
    acquire = StorageLock.acquire

    def failing(lock: StorageLock) -> None:
        if lock.directory in read_only:
            raise StorageError(f"{lock.path} cannot be locked: Read-only file system")
        acquire(lock)

    monkeypatch.setattr(StorageLock, "acquire", failing)
    with OpenDirectories(roots) as storage:
        assert storage.roots == [roots[1]]
        assert "Read-only file system" in storage.dropped[roots[0]]
        read_only.clear()
        assert restore(storage) == [roots[0]]
    read_only.update(roots)
    with pytest.raises(StorageError, match=r"no storage directory can be used: .*/a/.*; .*/b/"):
        StorageDirectories(roots).lock()


def test_directory_in_use_prevents_the_start(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageLock(roots[1]), pytest.raises(StorageInUseError):
        StorageDirectories(roots).lock()


def test_directory_whose_lock_file_was_removed_is_dropped(tmp_path: Path) -> None:
    """An operator removed `in_use.lock`, perhaps to start another process there."""
    roots = [recorded_directory(tmp_path / "a"), recorded_directory(tmp_path / "b")]
    storage = StorageDirectories(roots)
    storage.lock()
    for root in roots:
        (root / "in_use.lock").unlink()
    revise(storage, restore_dropped=False)
    assert storage.roots == roots
    assert all((root / "in_use.lock").exists() for root in roots)
    (roots[1] / "in_use.lock").unlink()
    with held_elsewhere(roots[1]) as other:
        before = sorted(path.name for path in (roots[1] / "current").iterdir())
        storage.link_aside("lost_past", "the NameNode was set back")
        assert [folder.parent.parent for folder in storage.finish_start_over(keep=[])] == roots[:1]
        assert sorted(path.name for path in (roots[1] / "current").iterdir()) == before
        assert f"held by {other.pid}@" in storage.dropped[roots[1]]
    (roots[0] / "in_use.lock").unlink()
    with held_elsewhere(roots[0]), pytest.raises(StorageError, match="no storage directory is left") as caught:
        revise(storage, restore_dropped=False)
    assert caught.value.hint.startswith("Leave that process alone")
    revise(storage, restore_dropped=False)
    assert storage.roots
    storage.release()
