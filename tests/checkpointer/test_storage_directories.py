"""Storage directories of a role: locks, formats, images and faults of their disks."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.storage import inspector
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore, revise
from checkpointer.storage.disk_space import MIN_FREE_SPACE
from checkpointer.storage.file_formats import NewerFormatError, refuse_newer_formats
from checkpointer.storage.formatting import clean_leftovers, leftover_names
from checkpointer.storage.inspector import read_storage_info
from checkpointer.storage.usable_images import latest_image, newest_usable_copies
from hadoop_common.errors import StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import checkpoint_name, image_name, md5_name, segment_name, temporary_segment_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageInUseError, StorageLock
from tests.checkpointer.storage_support import IMAGE_TXID, INFO, NEW_TXID, OpenDirectories, recorded_directory, save
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


OWN_FILES = [
    "current/provenance.json",
    "current/start_over.json",
    "storage_directories.json",
    "checkpointer-silences.json",
    "checkpointer-any",
]


@pytest.mark.parametrize("name", OWN_FILES)
def test_file_of_a_newer_release_prevents_the_start_and_is_kept(tmp_path: Path, name: str) -> None:
    old, root = recorded_directory(tmp_path / "old"), recorded_directory(tmp_path / "nn")
    (root / name).write_text('{\n "format": 2,\n "what": "nobody knows"}')
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(NewerFormatError, match=f"{name} has format 2, which a newer release wrote") as refused:
        StorageDirectories([old, root]).lock()
    assert (refused.value.exit_code, "docs/upgrade.md" in refused.value.hint) == (ExitCode.UNSUPPORTED, True)
    assert {path: path.read_bytes() for path in before} == before
    with StorageLock(old), StorageLock(root):
        pass


@pytest.mark.parametrize("text", ['{"format": 1}', '{"silence": {"format": 2}}', "", "\0\1", '{"format": "two"}'])
def test_current_and_damaged_files_have_no_newer_format(tmp_path: Path, text: str) -> None:
    root = recorded_directory(tmp_path / "nn")
    for name in OWN_FILES[3:]:
        (root / name).write_text(text)
    refuse_newer_formats(root)


def test_fifo_is_not_read_for_its_format(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "nn")
    os.mkfifo(root / "checkpointer-any")
    ends = os.open(root / "checkpointer-any", os.O_RDWR)
    try:
        os.write(ends, b'{"format": 2}'.ljust(1000))
        refuse_newer_formats(root)
    finally:
        os.close(ends)


def test_all_locks_are_released_if_one_directory_is_locked(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    second.mkdir()
    with StorageLock(second), pytest.raises(StorageError, match="held by"):
        StorageDirectories([first, second]).lock()
    with StorageLock(first):
        pass


def test_new_directory_is_formatted_like_the_others(tmp_path: Path) -> None:
    old, new = recorded_directory(tmp_path / "old"), tmp_path / "deep" / "new"
    with OpenDirectories([old]):
        # the record names only this directory as used
        pass
    with OpenDirectories([old, new], permission=0o750) as storage:
        assert storage.current_folders() == [old / "current", new / "current"]
        assert (new.stat().st_mode & 0o777) == 0o750
        assert read_storage_info(new) == read_storage_info(old)
        assert (new / "current" / "seen_txid").read_text() == "31\n"
        save(storage)
    assert latest_image([new / "current"]).txid == NEW_TXID


def test_empty_directory_that_may_have_held_images_is_not_formatted(tmp_path: Path) -> None:
    """The file system of the directory is not mounted, or the disk is new; no record distinguishes the two cases."""
    old, new = recorded_directory(tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    with OpenDirectories([old, new]) as storage:
        assert storage.roots == [old]
        assert f"{new} is empty, but {old} contains images" in storage.dropped[new]
        assert list(new.iterdir()) == []
    (new / "current").mkdir()
    with OpenDirectories([old, new]) as storage:
        assert storage.roots == [old, new]


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


def test_no_format_while_another_directory_is_unreadable(tmp_path: Path) -> None:
    full, empty = recorded_directory(tmp_path / "full"), tmp_path / "empty"
    (full / "current" / "VERSION").write_bytes(b"")
    storage = StorageDirectories([empty, full])
    storage.lock()
    with pytest.raises(StorageError, match="which is not in use, may contain an image: "):
        storage.format(INFO)
    assert storage.current_folders() == []
    storage.release()


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


def test_unfinished_image_counts_as_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenDirectories([recorded_directory(tmp_path / "a")]) as storage:
        needed = MIN_FREE_SPACE + storage.latest_image().path.stat().st_size
        unfinished = tmp_path / "a" / "current" / checkpoint_name(NEW_TXID)
        unfinished.write_bytes(bytes(4096))
        free = needed - unfinished.stat().st_blocks * 512
        monkeypatch.setattr("checkpointer.storage.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=free))
        assert storage.space_shortage() == ""
        unfinished.unlink()
        assert "no space" in storage.space_shortage()


def test_format_and_unformat(tmp_path: Path) -> None:
    storage = StorageDirectories([tmp_path / "a", tmp_path / "b"])
    storage.lock()
    assert not storage.is_formatted()
    assert storage.current_folders() == []
    storage.format(INFO)
    assert storage.storage_info() == INFO
    assert not storage.is_formatted()
    storage.format(INFO)
    storage.unformat()
    assert storage.current_folders() == []
    assert not (tmp_path / "a" / "current").exists()
    storage.release()


def test_failed_first_start_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    for _ in range(2):
        storage = StorageDirectories([tmp_path / "a"])
        storage.lock()
        storage.format(INFO)
        storage.unformat()
        storage.release()


def test_format_succeeds_after_following_the_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots):
        pass
    for root in roots:
        root.rename(tmp_path / f"{root.name} away")
        (root / "current").mkdir(parents=True)
    storage = StorageDirectories(roots)
    storage.lock()
    assert not storage.is_formatted()
    storage.format(INFO)
    assert storage.roots == roots
    storage.release()


def test_formatted_directories_are_not_formatted_again(tmp_path: Path) -> None:
    storage = StorageDirectories([recorded_directory(tmp_path / "nn")])
    assert storage.is_formatted()
    for change in (lambda: storage.format(INFO), storage.unformat):
        with pytest.raises(StorageError, match="contains images or edits"):
            change()


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


def test_directory_of_another_namespace_is_not_formatted(tmp_path: Path) -> None:
    storage = StorageDirectories([tmp_path / "a"])
    storage.lock()
    storage.format(INFO)
    with pytest.raises(StorageError, match="another namespace"):
        storage.format(StorageInfo(-63, 2, 0, "CID-y", "BP-y"))
    # the first image was never fetched, and the cluster was upgraded since then
    upgraded = replace(INFO, layout_version=-66, c_time=5)
    storage.format(upgraded)
    assert storage.storage_info() == upgraded
    storage.release()


@pytest.mark.parametrize(
    ("case", "text"),
    [("version-missing", "VERSION is missing next to images or edits"), ("no-image", "contains edits but no image")],
)
def test_incomplete_directory_is_not_treated_as_empty(tmp_path: Path, case: str, text: str) -> None:
    storage = StorageDirectories([recorded_directory(tmp_path / "nn", f"corrupt/{case}")])
    with pytest.raises(StorageError, match=text):
        storage.is_formatted()


def test_version_and_seen_txid_are_written_to_all_directories(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        storage.write_seen_txid(200)
        storage.write_version(INFO)
        assert storage.storage_info() == INFO
    for root in roots:
        assert (root / "current" / "seen_txid").read_text() == "200\n"


def test_first_intact_copy_is_used(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        damaged = roots[0] / "current" / image_name(IMAGE_TXID)
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
        assert storage.verified_image().path.parent.parent == roots[1]
        (roots[1] / "current" / md5_name(image_name(IMAGE_TXID))).unlink()
        with pytest.raises(StorageError, match="every copy of the newest image is damaged"):
            storage.verified_image()


def test_copy_whose_read_failed_once_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_directory(tmp_path / "a")
    found = [inspector.inspect(tmp_path / "a")]
    reasons = ["the disk failed"] + [""] * 10
    monkeypatch.setattr("checkpointer.storage.usable_images.frame_fault", lambda path: reasons.pop(0))
    assert [copy.txid for copy in newest_usable_copies(found)] == [IMAGE_TXID]
    reasons[:] = ["the disk failed"] * 10
    with pytest.raises(StorageError, match=r"every copy of the newest image is damaged: the disk failed$"):
        newest_usable_copies(found)


def test_reading_missing_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        read_storage_info(tmp_path)
    with pytest.raises(StorageError, match="cannot be read"):
        latest_image([tmp_path / "absent"])
    with pytest.raises(StorageError, match="there is no image in"):
        latest_image([tmp_path])


def test_unreadable_version_gets_a_hint_about_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(inspector, "read_version", mock.Mock(side_effect=denied))
    with pytest.raises(StorageError, match="Permission denied") as refused:
        read_storage_info(tmp_path)
    assert str(tmp_path / "current") in refused.value.hint
    assert f"uid {os.geteuid()}" in refused.value.hint
    assert "formatted" not in refused.value.hint


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    stay = ["VERSION", "seen_txid", image_name(1), md5_name(image_name(1)), segment_name(1, 2), "x.tmp", "edits_new"]
    go = [
        checkpoint_name(2),
        temporary_segment_name(1, 2, 3),
        "VERSION.tmp",
        "seen_txid.tmp",
        "provenance.json.tmp",
        "start_over.json.tmp",
        md5_name(image_name(2)),
        md5_name(image_name(1)) + ".tmp",
    ]
    for name in stay + go:
        (tmp_path / name).touch()
    assert [path.name for path in clean_leftovers(tmp_path)] == sorted(go)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stay)


@given(st.sets(st.text(max_size=12)), st.sets(st.integers(0, 99)))
def test_image_with_its_digest_is_not_a_leftover(others: set[str], txids: set[int]) -> None:
    names = others | {name for txid in txids for name in (image_name(txid), md5_name(image_name(txid)))}
    assert not set(leftover_names(names)) - others
