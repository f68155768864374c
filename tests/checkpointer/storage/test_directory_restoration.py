"""Storage directories that are dropped, and return with the same or other contents."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.roles.standby.bootstrap import repair_versions
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore, revise
from checkpointer.storage.formatting import write_seen_txid, write_version
from checkpointer.storage.inspector import StorageDirectory, StorageState, StoredImage, read_storage_info
from checkpointer.storage.stale_contents import stale_contents
from checkpointer.storage.usable_images import latest_image
from engine.saver import save_image
from hadoop_common.errors import StorageError
from hadoop_common.names import checkpoint_name, image_name, md5_name, segment_name
from hadoop_common.storage_lock import StorageLock
from image_format.md5_file import md5_path, read_md5_file, write_md5_file
from tests.checkpointer.storage_support import (
    IMAGE_TXID,
    INFO,
    NEW_TXID,
    OpenDirectories,
    put_image,
    recorded_directory,
    recorded_image,
    save,
)


def test_directory_with_files_of_a_newer_release_stays_dropped(tmp_path: Path) -> None:
    first, second = recorded_directory(tmp_path / "a"), recorded_directory(tmp_path / "b")
    with OpenDirectories([first, second], retries=True) as storage:
        storage.drop(second, "the disk failed")
        (second / "checkpointer-silences.json").write_text('{"format": 3}')
        restore(storage)
        assert storage.roots == [first]
        assert "has format 3" in storage.dropped[second]


@pytest.mark.parametrize("restarted", [False, True])
def test_images_of_a_returned_directory_are_never_the_newest(tmp_path: Path, restarted: bool) -> None:
    """The NameNode was set back in the meantime, so images in the directory belong to a lost past and have higher
    txids.
    """
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    lost = NEW_TXID + 1000
    with OpenDirectories(roots) as storage:
        put_image(roots[0] / "current", lost)
        (roots[0] / "current" / segment_name(lost + 1, lost + 2)).write_bytes(b"edits")
        storage.drop(roots[0], "gone")
        save(storage)
        if not restarted:
            assert restore(storage) == [roots[0]]
            assert storage.latest_image().txid == NEW_TXID
    if restarted:
        with OpenDirectories(roots) as storage:
            assert storage.roots == roots
            assert storage.latest_image().txid == NEW_TXID
    (aside,) = (roots[0] / "lost_past").iterdir()
    names = {path.name for path in aside.iterdir()}
    assert {image_name(lost), md5_name(image_name(lost)), segment_name(lost + 1, lost + 2)} <= names
    # files that exist in both directories stay
    assert (roots[0] / "current" / image_name(IMAGE_TXID)).is_file()
    assert not (roots[1] / "lost_past").exists()


def test_images_purged_elsewhere_are_kept_in_a_returned_directory(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        save(storage)
        for path in (roots[1] / "current").glob(f"{image_name(IMAGE_TXID)}*"):
            path.unlink()
        for path in (roots[1] / "current").glob("edits_*"):
            path.unlink()
        rollback = roots[0] / "current" / image_name(IMAGE_TXID, rollback=True)
        plain = roots[0] / "current" / image_name(IMAGE_TXID)
        shutil.copy(plain, rollback)
        write_md5_file(rollback, read_md5_file(plain))
        names = {path.name for path in (roots[0] / "current").glob("fsimage_*")}
        assert restore(storage) == [roots[0]]
        assert {path.name for path in (roots[0] / "current").glob("fsimage_*")} == names


@pytest.mark.parametrize("lost", ["last bytes", "digest file"])
def test_intact_copy_of_an_image_damaged_elsewhere_is_kept(tmp_path: Path, lost: str) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        copies = [put_image(root / "current", NEW_TXID) for root in roots]
        storage.drop(roots[0], "gone")
        if lost == "digest file":
            md5_path(copies[1]).unlink()
        else:
            copies[1].write_bytes(copies[1].read_bytes()[:-5])
        assert storage.latest_image().txid == IMAGE_TXID
        assert restore(storage) == [roots[0]]
        assert storage.latest_image() == (copies[0], NEW_TXID)
        # an image of another past, which nothing proves
        storage.drop(roots[0], "gone")
        copies[0].unlink()
        save_image([roots[0] / "current"], NEW_TXID, lambda sink: sink(recorded_image()))
        restore(storage)
        assert storage.latest_image().txid == IMAGE_TXID


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


@given(
    working=st.dictionaries(st.integers(1, 6), st.integers(0, 1), min_size=1, max_size=4),
    found=st.dictionaries(st.integers(1, 6), st.integers(0, 1), max_size=4),
)
def test_stale_directory_keeps_only_images_that_others_have(working: dict[int, int], found: dict[int, int]) -> None:
    """The arguments are images by txid; each image is from one of two pasts."""

    def listed(name: str, images: dict[int, int]) -> StorageDirectory:
        root = Path("/", name)
        stored = tuple(StoredImage(txid, root / f"{past}" / image_name(txid), True) for txid, past in images.items())
        return StorageDirectory(root, StorageState.NORMAL, INFO, stored)

    def same(path: Path, other: Path) -> bool:
        return (path.name, path.parent.name) == (other.name, other.parent.name)

    stale = stale_contents(listed("found", found), [listed("working", working)], min(working), same, same)
    left = {txid: past for txid, past in found.items() if image_name(txid) not in stale}
    assert left == {txid: past for txid, past in found.items() if txid < min(working) or working.get(txid) == past}


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
