from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.roles.standby.bootstrap import repair_versions
from checkpointer.storage import inspector
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.disk_space import MIN_FREE_SPACE
from checkpointer.storage.file_formats import NewerFormatError, refuse_newer_formats
from checkpointer.storage.formatting import clean_leftovers, leftover_names, write_seen_txid, write_version
from checkpointer.storage.inspector import StorageDirectory, StorageState, StoredImage, read_storage_info
from checkpointer.storage.stale_contents import stale_contents
from checkpointer.storage.usable_images import latest_image
from engine.saver import save_image
from hadoop_common.errors import EXIT_UNSUPPORTED, StorageError
from hadoop_common.names import checkpoint_name, image_name, md5_name, segment_name, temporary_segment_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageInUseError, StorageLock
from image_format.md5_file import format_md5, md5_path, read_md5_file
from tests.checkpointer.storage_support import IMAGE_TXID, NEW_TXID, put_image, recorded_directory, recorded_image

INFO = StorageInfo(-63, 1, 0, "CID-x", "BP-x")


def save(storage: StorageDirectories) -> None:
    image = recorded_image()
    save_image(storage.current_folders(), NEW_TXID, lambda sink: sink(image))


def test_open_locks_checks_and_cleans(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "nn", "corrupt/image-checkpoint-leftover")
    with StorageDirectories([root]) as storage:
        assert storage.storage_info() == read_storage_info(root)
        assert storage.latest_image() == (root / "current" / image_name(IMAGE_TXID), IMAGE_TXID)
        assert not (root / "current" / checkpoint_name(NEW_TXID)).exists()
        with pytest.raises(StorageError, match="held by"):
            StorageLock(root).acquire()
    with StorageLock(root):
        pass


OWN_FILES = ["current/provenance.json", "storage_directories.json", "checkpointer-silences.json", "checkpointer-any"]


@pytest.mark.parametrize("name", OWN_FILES)
def test_a_file_of_a_newer_release_ends_the_start_and_stays(tmp_path: Path, name: str) -> None:
    old, root = recorded_directory(tmp_path / "old"), recorded_directory(tmp_path / "nn")
    (root / name).write_text('{\n "format": 2,\n "what": "nobody knows"}')
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(NewerFormatError, match=f"{name} has format 2, which a newer release wrote") as refused:
        StorageDirectories([old, root]).lock()
    assert (refused.value.exit_code, "docs/upgrade.md" in refused.value.hint) == (EXIT_UNSUPPORTED, True)
    assert {path: path.read_bytes() for path in before} == before
    with StorageLock(old), StorageLock(root):
        pass


@pytest.mark.parametrize("text", ['{"format": 1}', '{"silence": {"format": 2}}', "", "\0\1", '{"format": "two"}'])
def test_files_of_this_release_and_damaged_ones_have_no_newer_format(tmp_path: Path, text: str) -> None:
    root = recorded_directory(tmp_path / "nn")
    for name in OWN_FILES[2:]:
        (root / name).write_text(text)
    refuse_newer_formats(root)


def test_a_fifo_has_no_format_and_is_not_read(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "nn")
    os.mkfifo(root / "checkpointer-any")
    ends = os.open(root / "checkpointer-any", os.O_RDWR)
    try:
        os.write(ends, b'{"format": 2}'.ljust(1000))
        refuse_newer_formats(root)
    finally:
        os.close(ends)


def test_a_directory_that_returns_with_files_of_a_newer_release_stays_dropped(tmp_path: Path) -> None:
    first, second = recorded_directory(tmp_path / "a"), recorded_directory(tmp_path / "b")
    with StorageDirectories([first, second], retries=True) as storage:
        storage.drop(second, "the disk failed")
        (second / "checkpointer-silences.json").write_text('{"format": 3}')
        storage.restore()
        assert storage.roots == [first]
        assert "has format 3" in storage.dropped[second]


def test_one_locked_directory_leaves_none_locked(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    second.mkdir()
    with StorageLock(second), pytest.raises(StorageError, match="held by"):
        StorageDirectories([first, second]).lock()
    with StorageLock(first):
        pass


def test_a_new_directory_is_formatted_like_the_others(tmp_path: Path) -> None:
    old, new = recorded_directory(tmp_path / "old"), tmp_path / "deep" / "new"
    with StorageDirectories([old]):
        # it is recorded that this one alone is in use
        pass
    with StorageDirectories([old, new], permission=0o750) as storage:
        assert storage.current_folders() == [old / "current", new / "current"]
        assert (new.stat().st_mode & 0o777) == 0o750
        assert read_storage_info(new) == read_storage_info(old)
        assert (new / "current" / "seen_txid").read_text() == "31\n"
        save(storage)
    assert latest_image([new / "current"]).txid == NEW_TXID


def test_an_empty_directory_that_may_have_held_images_is_not_formatted(tmp_path: Path) -> None:
    """Its file system is not mounted, or the disk is new; no record tells."""
    old, new = recorded_directory(tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    with StorageDirectories([old, new]) as storage:
        assert storage.roots == [old]
        assert f"{new} is empty, but {old} contains images" in storage.dropped[new]
        assert list(new.iterdir()) == []
    (new / "current").mkdir()
    with StorageDirectories([old, new]) as storage:
        assert storage.roots == [old, new]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_directory_that_lost_its_contents_is_not_filled(tmp_path: Path, lost: int) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots):
        pass
    away = roots[lost].rename(tmp_path / "away")
    roots[lost].mkdir()
    with StorageDirectories(roots) as storage:
        assert f"is empty, but {roots[1 - lost]} contains images" in storage.dropped[roots[lost]]
        save(storage)
        assert list(roots[lost].iterdir()) == []
        # it is mounted, with what it held
        roots[lost].rmdir()
        away.rename(roots[lost])
        assert storage.restore() == [roots[lost]]
        assert storage.latest_image().txid == NEW_TXID


def test_the_record_of_a_service_tells_of_a_single_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    root = recorded_directory(tmp_path / "a")
    with StorageDirectories([root]):
        pass
    root.rename(tmp_path / "away")
    with pytest.raises(StorageError, match="is empty, but it contained images before"):
        StorageDirectories([root]).lock()
    (root / "current").mkdir(parents=True)
    StorageDirectories([root]).lock()


def test_nothing_is_formatted_while_a_directory_that_may_hold_images_cannot_be_read(tmp_path: Path) -> None:
    full, empty = recorded_directory(tmp_path / "full"), tmp_path / "empty"
    (full / "current" / "VERSION").write_bytes(b"")
    storage = StorageDirectories([empty, full])
    storage.lock()
    with pytest.raises(StorageError, match="which is not used, may: "):
        storage.format(INFO)
    assert storage.current_folders() == []
    storage.release()


@pytest.mark.parametrize("damage", ["version", "link"])
def test_the_start_goes_on_with_the_directories_that_can_be_used(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    if damage == "version":
        (roots[0] / "current" / "VERSION").write_bytes(b"")
    else:
        roots[0].rename(tmp_path / "away")
        roots[0].symlink_to(tmp_path / "not mounted")
    with StorageDirectories(roots, retries=True) as storage:
        assert storage.roots == [roots[1]]
        assert list(storage.dropped) == [roots[0]]
        (line,) = [line for line in caplog.messages if "is not used" in line]
        assert f"storage directory {roots[0]} is not used: " in line
        assert "; next: " in line
        save(storage)
        for _ in range(3):
            assert storage.restore() == []
        assert len([line for line in caplog.messages if "is not used" in line]) == 1


def test_a_start_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One disk is mounted read-only, then both are."""
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    read_only = {roots[0]}
    acquire = StorageLock.acquire

    def failing(lock: StorageLock) -> None:
        if lock.directory in read_only:
            raise StorageError(f"{lock.path} cannot be locked: Read-only file system")
        acquire(lock)

    monkeypatch.setattr(StorageLock, "acquire", failing)
    with StorageDirectories(roots) as storage:
        assert storage.roots == [roots[1]]
        assert "Read-only file system" in storage.dropped[roots[0]]
        read_only.clear()
        assert storage.restore() == [roots[0]]
    read_only.update(roots)
    with pytest.raises(StorageError, match=r"no storage directory can be used: .*/a/.*; .*/b/"):
        StorageDirectories(roots).lock()


def test_one_that_somebody_else_uses_ends_the_start(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageLock(roots[1]), pytest.raises(StorageInUseError):
        StorageDirectories(roots).lock()


# ---- what comes back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_directory_brings_back_is_never_the_newest(tmp_path: Path, restarted: bool) -> None:
    """While it was left out the NameNode was set back: its images are of a past that is lost, and higher."""
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    lost = NEW_TXID + 1000
    with StorageDirectories(roots) as storage:
        put_image(roots[0] / "current", lost)
        (roots[0] / "current" / segment_name(lost + 1, lost + 2)).write_bytes(b"edits")
        storage.drop(roots[0], "gone")
        save(storage)
        if not restarted:
            assert storage.restore() == [roots[0]]
            assert storage.latest_image().txid == NEW_TXID
    if restarted:
        with StorageDirectories(roots) as storage:
            assert storage.roots == roots
            assert storage.latest_image().txid == NEW_TXID
    (aside,) = (roots[0] / "lost_past").iterdir()
    names = {path.name for path in aside.iterdir()}
    assert {image_name(lost), md5_name(image_name(lost)), segment_name(lost + 1, lost + 2)} <= names
    # what both have stays
    assert (roots[0] / "current" / image_name(IMAGE_TXID)).is_file()
    assert not (roots[1] / "lost_past").exists()


def test_what_retention_purged_elsewhere_is_left_to_retention_at_a_return(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        save(storage)
        for path in (roots[1] / "current").glob(f"{image_name(IMAGE_TXID)}*"):
            path.unlink()
        for path in (roots[1] / "current").glob("edits_*"):
            path.unlink()
        rollback = roots[0] / "current" / image_name(IMAGE_TXID, rollback=True)
        plain = roots[0] / "current" / image_name(IMAGE_TXID)
        shutil.copy(plain, rollback)
        md5_path(rollback).write_bytes(format_md5(read_md5_file(plain), rollback.name))
        names = {path.name for path in (roots[0] / "current").glob("fsimage_*")}
        assert storage.restore() == [roots[0]]
        assert {path.name for path in (roots[0] / "current").glob("fsimage_*")} == names


@pytest.mark.parametrize("lost", ["last bytes", "digest file"])
def test_a_sound_copy_of_an_image_that_is_damaged_elsewhere_stays(tmp_path: Path, lost: str) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        copies = [put_image(root / "current", NEW_TXID) for root in roots]
        storage.drop(roots[0], "gone")
        if lost == "digest file":
            md5_path(copies[1]).unlink()
        else:
            copies[1].write_bytes(copies[1].read_bytes()[:-5])
        assert storage.latest_image().txid == IMAGE_TXID
        assert storage.restore() == [roots[0]]
        assert storage.latest_image() == (copies[0], NEW_TXID)
        # of another past: nothing proves it
        storage.drop(roots[0], "gone")
        copies[0].unlink()
        save_image([roots[0] / "current"], NEW_TXID, lambda sink: sink(recorded_image()))
        storage.restore()
        assert storage.latest_image().txid == IMAGE_TXID


def test_of_all_that_were_dropped_those_in_use_last_come_first(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        put_image(roots[0] / "current", NEW_TXID + 1000)
        storage.drop(roots[0], "gone")
        save(storage)
        with pytest.raises(StorageError, match="no storage directory is left"):
            storage.drop(roots[1], "gone too")
        assert set(storage.restore()) == set(roots)
        assert storage.latest_image().txid == NEW_TXID


def test_a_directory_that_cannot_be_written_or_is_full_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots, retries=True) as storage:
        storage.drop(roots[0], "No space left on device")
        with monkeypatch.context() as patch:
            patch.setattr("checkpointer.storage.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
            assert storage.restore() == []
            assert "4096 bytes free" in storage.dropped[roots[0]]
        blocked = roots[0] / "current" / "seen_txid.tmp"
        blocked.mkdir()
        assert storage.restore() == []
        assert not [line for line in caplog.messages if "used again" in line]
        blocked.rmdir()
        assert storage.restore() == [roots[0]]
        assert f"storage directory {roots[0]} is used again after " in caplog.messages[-1]


@pytest.mark.parametrize("restore", [False, True])
def test_a_directory_that_cannot_be_used_for_a_while(
    tmp_path: Path, restore: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its permission is removed, and given back; the last one comes back whatever the configuration says."""
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    forbidden: set[Path] = set()
    monkeypatch.setattr("checkpointer.storage.inspector.os.access", lambda path, mode: path.parent not in forbidden)
    with StorageDirectories(roots) as storage:
        forbidden.add(roots[0])
        storage.revise(restore=restore)
        assert storage.roots == [roots[1]]
        assert "cannot be written" in storage.dropped[roots[0]]
        forbidden.clear()
        storage.revise(restore=restore)
        assert storage.roots == (roots if restore else [roots[1]])
        if not restore:
            with pytest.raises(StorageError):
                storage.drop(roots[1], "gone")
            storage.revise(restore=False)
            assert set(storage.roots) == set(roots)


def test_one_that_was_left_out_does_not_take_the_place_of_the_last_one(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    version = roots[1] / "current" / "VERSION"
    with StorageDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        save(storage)
        text = version.read_text()
        version.write_text("rubbish")
        storage.revise(restore=True)
        assert "may be older than those of" in storage.dropped[roots[0]]
        with pytest.raises(StorageError):
            storage.drop(roots[1], "gone too")
        storage.revise(restore=True)
        assert storage.roots == []
        version.write_text(text)
        storage.revise(restore=True)
        assert storage.roots == roots
        assert storage.latest_image().txid == NEW_TXID
        assert (roots[1] / "current" / image_name(NEW_TXID)).is_file()
        assert not (roots[1] / "lost_past").exists()


@pytest.mark.parametrize("restarted", [False, True])
def test_one_that_missed_an_upgrade_gets_the_version_of_the_others(tmp_path: Path, restarted: bool) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        abandoned = storage.storage_info()
        upgraded = replace(abandoned, c_time=abandoned.c_time - 1)
        storage.drop(roots[0], "gone")
        storage.write_version(upgraded)
        if not restarted:
            assert storage.restore() == [roots[0]]
    if restarted:
        storage = StorageDirectories(roots)
        storage.lock()
        repair_versions(storage)
        assert storage.roots == [roots[1]]
        assert storage.is_formatted()
        assert storage.restore() == [roots[0]]
        storage.release()
    assert [read_storage_info(root) for root in roots] == [upgraded] * 2
    assert not list((roots[0] / "current").glob("fsimage_*"))
    assert list((roots[0] / "lost_past").glob(f"*/{image_name(IMAGE_TXID)}"))
    assert latest_image([roots[1] / "current"]).txid == IMAGE_TXID


def test_one_of_another_namespace_is_not_touched(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        write_version(roots[0], INFO)
        names = sorted((roots[0] / "current").iterdir())
        assert storage.restore() == []
        assert "does not belong to" in storage.dropped[roots[0]]
        assert sorted((roots[0] / "current").iterdir()) == names


def test_the_only_directory_for_edits_keeps_them_when_it_comes_back(tmp_path: Path) -> None:
    images, edits = (recorded_directory(tmp_path / name) for name in ("images", "edits"))
    for path in (*(images / "current").glob("edits_*"), *(edits / "current").glob("fsimage_*")):
        path.unlink()
    with StorageDirectories([images, edits], edits_only=[edits], images_only=[images]) as storage:
        segments = sorted((edits / "current").glob("edits_*"))
        assert segments
        storage.drop(edits, "gone")
        assert storage.restore() == [edits]
        assert sorted((edits / "current").glob("edits_*")) == segments


def test_the_record_is_the_newest_one_where_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        monkeypatch.setattr("checkpointer.storage.usage_record.time.time", lambda: 1.0)
        put_image(roots[0] / "current", NEW_TXID + 1000)
        storage.drop(roots[0], "gone")
        save(storage)
    with StorageDirectories(roots) as storage:
        assert storage.latest_image().txid == NEW_TXID


def test_a_newest_image_that_cannot_be_read_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the disk is not recorded as one of the file, so the image stays the newest."""
    with StorageDirectories([recorded_directory(tmp_path / "a")]) as storage:
        monkeypatch.setattr("checkpointer.storage.directories.content_fault", lambda path: "Input/output error")
        assert not storage.exclude_damaged()


def test_what_is_being_written_is_a_part_of_the_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StorageDirectories([recorded_directory(tmp_path / "a")]) as storage:
        needed = MIN_FREE_SPACE + storage.latest_image().path.stat().st_size
        unfinished = tmp_path / "a" / "current" / checkpoint_name(NEW_TXID)
        unfinished.write_bytes(bytes(4096))
        free = needed - unfinished.stat().st_blocks * 512
        monkeypatch.setattr("checkpointer.storage.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=free))
        assert storage.space_shortage() == ""
        unfinished.unlink()
        assert "no space" in storage.space_shortage()


@given(
    working=st.dictionaries(st.integers(1, 6), st.integers(0, 1), min_size=1, max_size=4),
    found=st.dictionaries(st.integers(1, 6), st.integers(0, 1), max_size=4),
)
def test_what_is_left_of_a_stale_directory_is_what_others_have(working: dict[int, int], found: dict[int, int]) -> None:
    """Images by txid, each of one of two pasts."""

    def listed(name: str, images: dict[int, int]) -> StorageDirectory:
        root = Path("/", name)
        stored = tuple(StoredImage(txid, root / f"{past}" / image_name(txid), True) for txid, past in images.items())
        return StorageDirectory(root, StorageState.NORMAL, INFO, stored)

    def same(path: Path, other: Path) -> bool:
        return (path.name, path.parent.name) == (other.name, other.parent.name)

    stale = stale_contents(listed("found", found), [listed("working", working)], min(working), same, same)
    left = {txid: past for txid, past in found.items() if image_name(txid) not in stale}
    assert left == {txid: past for txid, past in found.items() if txid < min(working) or working.get(txid) == past}


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


def test_a_first_start_that_failed_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    for _ in range(2):
        storage = StorageDirectories([tmp_path / "a"])
        storage.lock()
        storage.format(INFO)
        storage.unformat()
        storage.release()


def test_contents_that_were_moved_away_as_the_hint_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots):
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


def test_formatted_directories_are_not_formatted_over(tmp_path: Path) -> None:
    storage = StorageDirectories([recorded_directory(tmp_path / "nn")])
    assert storage.is_formatted()
    for change in (lambda: storage.format(INFO), storage.unformat):
        with pytest.raises(StorageError, match="contains images or edits"):
            change()


def test_a_directory_of_another_namespace_is_not_formatted_over(tmp_path: Path) -> None:
    storage = StorageDirectories([tmp_path / "a"])
    storage.lock()
    storage.format(INFO)
    with pytest.raises(StorageError, match="another namespace"):
        storage.format(StorageInfo(-63, 2, 0, "CID-y", "BP-y"))
    storage.release()


@pytest.mark.parametrize(
    ("case", "text"), [("version-missing", "VERSION is missing, but"), ("no-image", "contains edits but no image")]
)
def test_half_a_directory_is_not_taken_for_an_empty_one(tmp_path: Path, case: str, text: str) -> None:
    storage = StorageDirectories([recorded_directory(tmp_path / "nn", f"corrupt/{case}")])
    with pytest.raises(StorageError, match=text):
        storage.is_formatted()


def test_open_needs_a_formatted_directory(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not formatted"):
        StorageDirectories([tmp_path / "a"]).open()
    with StorageLock(tmp_path / "a"):
        pass


def test_version_and_seen_txid_are_written_everywhere(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        storage.write_seen_txid(200)
        storage.write_version(INFO)
        assert storage.storage_info() == INFO
    for root in roots:
        assert (root / "current" / "seen_txid").read_text() == "200\n"


def test_the_first_sound_copy_is_taken(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        damaged = roots[0] / "current" / image_name(IMAGE_TXID)
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
        assert storage.verified_image().path.parent.parent == roots[1]
        (roots[1] / "current" / md5_name(image_name(IMAGE_TXID))).unlink()
        with pytest.raises(StorageError, match="every copy of the newest image is damaged"):
            storage.verified_image()


def test_a_dropped_directory_comes_back(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        storage.drop(roots[0] / "current", "disk on fire")
        assert storage.roots == [roots[1]]
        assert storage.dropped == {roots[0]: "disk on fire"}
        (roots[0] / "current" / checkpoint_name(99)).touch()
        assert storage.restore() == [roots[0]]
        assert storage.roots == roots
        assert not (roots[0] / "current" / checkpoint_name(99)).exists()
        assert storage.restore() == []


def test_a_new_disk_in_place_of_a_dropped_one_is_formatted(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        roots[0].rename(tmp_path / "away")
        # as where it is not mounted
        assert storage.restore() == []
        assert f"is empty, but {roots[1]} contains images" in storage.dropped[roots[0]]
        assert not roots[0].exists()
        (roots[0] / "current").mkdir(parents=True)
        assert storage.restore() == [roots[0]]
        save(storage)
        assert latest_image([roots[0] / "current"]).txid == NEW_TXID
        with pytest.raises(StorageError, match="held by"):
            StorageLock(roots[0]).acquire()


def test_a_directory_that_stays_bad_stays_dropped(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        (roots[0] / "current" / "VERSION").write_text("rubbish")
        assert storage.restore() == []
        assert storage.roots == [roots[1]]


def test_all_may_be_dropped_and_come_back(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "a")
    with StorageDirectories([root]) as storage:
        with pytest.raises(StorageError, match="no storage directory is left"):
            storage.drop(root, "the disk is full")
        for question in (storage.current_folders, storage.latest_image, storage.is_formatted, storage.storage_info):
            with pytest.raises(StorageError, match=r"no storage directory is left: .*/a: the disk is full"):
                question()
        assert storage.restore() == [root]
        assert storage.latest_image().txid == IMAGE_TXID


def test_a_format_that_failed_everywhere_starts_over(tmp_path: Path) -> None:
    storage = StorageDirectories([tmp_path / "a"])
    storage.lock()
    with pytest.raises(StorageError, match="no storage directory is left"):
        storage.drop(tmp_path / "a", "the disk is full")
    assert storage.restore() == [tmp_path / "a"]
    storage.format(INFO)
    assert storage.storage_info() == INFO
    storage.release()


def test_the_last_directory_cannot_be_dropped(tmp_path: Path) -> None:
    with StorageDirectories([recorded_directory(tmp_path / "a")]) as storage:
        with pytest.raises(StorageError, match="no storage directory is left"):
            storage.drop(tmp_path / "a", "gone")
        with pytest.raises(ValueError, match="not one of these storage directories"):
            storage.drop(tmp_path / "other", "gone")


def test_a_write_that_fails_drops_the_directory(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with StorageDirectories(roots) as storage:
        (roots[0] / "current" / "seen_txid.tmp").mkdir()
        storage.write_seen_txid(200)
        assert list(storage.dropped) == [roots[0]]
        assert (roots[1] / "current" / "seen_txid").read_text() == "200\n"


def test_questions_to_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        read_storage_info(tmp_path)
    with pytest.raises(StorageError, match="cannot be read"):
        latest_image([tmp_path / "absent"])
    with pytest.raises(StorageError, match="there is no image in"):
        latest_image([tmp_path])


def test_a_version_that_may_not_be_read_is_a_matter_of_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(inspector, "read_version", mock.Mock(side_effect=denied))
    with pytest.raises(StorageError, match="Permission denied") as refused:
        read_storage_info(tmp_path)
    assert str(tmp_path / "current") in refused.value.hint
    assert f"uid {os.geteuid()}" in refused.value.hint
    assert "formatted" not in refused.value.hint


def test_leftovers_go_and_the_rest_stays(tmp_path: Path) -> None:
    stay = ["VERSION", "seen_txid", image_name(1), md5_name(image_name(1)), segment_name(1, 2), "x.tmp", "edits_new"]
    go = [
        checkpoint_name(2),
        temporary_segment_name(1, 2, 3),
        "VERSION.tmp",
        "seen_txid.tmp",
        md5_name(image_name(2)),
        md5_name(image_name(1)) + ".tmp",
    ]
    for name in stay + go:
        (tmp_path / name).touch()
    assert [path.name for path in clean_leftovers(tmp_path)] == sorted(go)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stay)


@given(st.sets(st.text(max_size=12)), st.sets(st.integers(0, 99)))
def test_no_image_with_its_digest_is_a_leftover(others: set[str], txids: set[int]) -> None:
    names = others | {name for txid in txids for name in (image_name(txid), md5_name(image_name(txid)))}
    assert not set(leftover_names(names)) - others


# ---- of a secondary ----------------------------------------------------------------------------------------


def checkpoint_directory(root: Path) -> Path:
    recorded_directory(root)
    write_seen_txid(root, 0)
    for path in (root / "current").glob("*inprogress*"):
        path.unlink()
    return root


def test_a_secondary_does_not_take_older_images_where_the_others_fail(tmp_path: Path) -> None:
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


def test_a_directory_of_a_secondary_that_missed_an_upgrade(tmp_path: Path) -> None:
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
