"""The record of use, which detects a directory that has lost its contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore, revise
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from tests.checkpointer.storage_support import NEW_TXID, OpenDirectories, put_image, recorded_directory, save


@pytest.mark.parametrize("lost", [0, 1])
def test_directory_that_lost_its_contents_is_not_used(tmp_path: Path, lost: int) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots):
        pass
    away = roots[lost].rename(tmp_path / "away")
    roots[lost].mkdir()
    with OpenDirectories(roots) as storage:
        assert f"is empty, but {roots[1 - lost]} contains images" in storage.dropped[roots[lost]]
        save(storage)
        assert list(roots[lost].iterdir()) == []
        # the disk is mounted again, with its contents
        roots[lost].rmdir()
        away.rename(roots[lost])
        assert restore(storage) == [roots[lost]]
        assert storage.latest_image().txid == NEW_TXID


def test_usage_record_detects_the_loss_of_a_single_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    root = recorded_directory(tmp_path / "a")
    with OpenDirectories([root]):
        pass
    root.rename(tmp_path / "away")
    with pytest.raises(StorageError, match="is empty, but it contained images before"):
        StorageDirectories([root]).lock()
    (root / "current").mkdir(parents=True)
    StorageDirectories([root]).lock()


def test_directories_in_use_last_have_priority_if_all_were_dropped(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        put_image(roots[0] / "current", NEW_TXID + 1000)
        storage.drop(roots[0], "gone")
        save(storage)
        with pytest.raises(StorageError, match="no storage directory is left"):
            storage.drop(roots[1], "gone too")
        assert set(restore(storage)) == set(roots)
        assert storage.latest_image().txid == NEW_TXID


def test_dropped_directory_does_not_replace_the_last_used_one(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    version = roots[1] / "current" / "VERSION"
    with OpenDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        save(storage)
        text = version.read_text()
        version.write_text("rubbish")
        revise(storage, restore_dropped=True)
        assert "may be older than those of" in storage.dropped[roots[0]]
        with pytest.raises(StorageError):
            storage.drop(roots[1], "gone too")
        revise(storage, restore_dropped=True)
        assert storage.roots == []
        version.write_text(text)
        revise(storage, restore_dropped=True)
        assert storage.roots == roots
        assert storage.latest_image().txid == NEW_TXID
        assert (roots[1] / "current" / image_name(NEW_TXID)).is_file()
        assert not (roots[1] / "lost_past").exists()


def test_newest_usage_record_is_used_after_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        monkeypatch.setattr("checkpointer.storage.usage_record.time.time", lambda: 1.0)
        put_image(roots[0] / "current", NEW_TXID + 1000)
        storage.drop(roots[0], "gone")
        save(storage)
    with OpenDirectories(roots) as storage:
        assert storage.latest_image().txid == NEW_TXID
