from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.storage.directories import StorageDirectories, latest_image, read_storage_info
from checkpointer.storage.leftovers import clean_leftovers, leftover_names
from engine.saver import save_image
from hadoop_common.errors import StorageError
from hadoop_common.names import checkpoint_name, image_name, md5_name, segment_name, temporary_segment_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageLock
from tests.checkpointer.storage_support import IMAGE_TXID, NEW_TXID, recorded_directory, recorded_image

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


def test_one_locked_directory_leaves_none_locked(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    second.mkdir()
    with StorageLock(second), pytest.raises(StorageError, match="held by"):
        StorageDirectories([first, second]).lock()
    with StorageLock(first):
        pass


def test_a_new_directory_is_formatted_like_the_others(tmp_path: Path) -> None:
    old, new = recorded_directory(tmp_path / "old"), tmp_path / "deep" / "new"
    with StorageDirectories([old, new], permission=0o750) as storage:
        assert storage.current_folders() == [old / "current", new / "current"]
        assert (new.stat().st_mode & 0o777) == 0o750
        assert read_storage_info(new) == read_storage_info(old)
        assert (new / "current" / "seen_txid").read_text() == "31\n"
        save(storage)
    assert latest_image([new / "current"]).txid == NEW_TXID


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


def test_formatted_directories_are_not_formatted_over(tmp_path: Path) -> None:
    storage = StorageDirectories([recorded_directory(tmp_path / "nn")])
    assert storage.is_formatted()
    for change in (lambda: storage.format(INFO), storage.unformat):
        with pytest.raises(StorageError, match="holds images or edits"):
            change()


def test_a_directory_of_another_namespace_is_not_formatted_over(tmp_path: Path) -> None:
    storage = StorageDirectories([tmp_path / "a"])
    storage.lock()
    storage.format(INFO)
    with pytest.raises(StorageError, match="another namespace"):
        storage.format(StorageInfo(-63, 2, 0, "CID-y", "BP-y"))
    storage.release()


@pytest.mark.parametrize(
    ("case", "text"), [("version-missing", "VERSION is missing, but"), ("no-image", "holds edits but no image")]
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
