"""Formats of storage directories, and files that an interrupted operation leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.formatting import clean_leftovers, leftover_names
from checkpointer.storage.inspector import read_storage_info
from checkpointer.storage.usable_images import latest_image
from hadoop_common.errors import StorageError
from hadoop_common.names import checkpoint_name, image_name, md5_name, segment_name, temporary_segment_name
from hadoop_common.storage_info import StorageInfo
from tests.checkpointer.storage_support import INFO, NEW_TXID, OpenDirectories, recorded_directory, save


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


def test_no_format_while_another_directory_is_unreadable(tmp_path: Path) -> None:
    full, empty = recorded_directory(tmp_path / "full"), tmp_path / "empty"
    (full / "current" / "VERSION").write_bytes(b"")
    storage = StorageDirectories([empty, full])
    storage.lock()
    with pytest.raises(StorageError, match="which is not in use, may contain an image: "):
        storage.format(INFO)
    assert storage.current_folders() == []
    storage.release()


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
