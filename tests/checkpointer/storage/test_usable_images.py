"""Files that are named like images but are not images: all roles ignore them, and conclude nothing from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.set_back.provenance import held_images
from checkpointer.storage import inspector
from checkpointer.storage.inspector import StorageState, inspect, read_storage_info
from checkpointer.storage.usable_images import (
    content_fault,
    frame_fault,
    latest_image,
    newest_usable_copies,
    unusable,
    with_usable_images,
)
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, md5_name
from image_format.errors import DigestMismatchError
from tests.checkpointer.image_damages import BAD_FRAME, FAR, NOT_REGULAR, OLD, wrong_digest
from tests.checkpointer.storage_support import (
    IMAGE_TXID,
    Damage,
    OpenDirectories,
    put_image,
    recorded_directory,
    unreadable,
)


@pytest.mark.parametrize("damage", NOT_REGULAR)
def test_only_regular_files_are_images(tmp_path: Path, damage: Damage) -> None:
    root = recorded_directory(tmp_path / "nn")
    odd = root / "current" / image_name(FAR)
    damage(odd)
    found = inspect(root)
    assert [image.txid for image in found.images] == [IMAGE_TXID]
    assert found.irregular == (odd,)
    assert unusable(found) == [f"{odd} is not a regular file"]


def test_directory_with_only_an_irregular_file_is_not_formatted(tmp_path: Path) -> None:
    directory_like = tmp_path / "nn/current" / image_name(FAR)
    directory_like.mkdir(parents=True)
    assert inspect(tmp_path / "nn").state is StorageState.NOT_FORMATTED


@pytest.mark.parametrize("damage", [*NOT_REGULAR, *BAD_FRAME])
def test_unusable_file_is_not_the_newest_image(
    tmp_path: Path, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    root = recorded_directory(tmp_path / "nn")
    damage(root / "current" / image_name(FAR))
    assert latest_image([root / "current"]).txid == IMAGE_TXID
    with OpenDirectories([root]) as storage:
        assert storage.latest_image().txid == IMAGE_TXID
        assert storage.verified_image().txid == IMAGE_TXID
    assert [held.txid for held in held_images([root / "current"])] == [IMAGE_TXID]
    (line,) = unusable(inspect(root))
    assert image_name(FAR) in line
    with_usable_images(inspect(root))
    reports = [record for record in caplog.records if image_name(FAR) in record.getMessage()]
    assert len(reports) == 1


def test_image_purged_after_it_was_listed_is_not_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = recorded_directory(tmp_path / "nn")
    image = put_image(root / "current", OLD)
    listed = inspect(root)
    image.unlink()
    assert not unusable(listed)
    assert [each.txid for each in with_usable_images(listed).images] == [IMAGE_TXID]
    assert not caplog.messages


def test_wrong_digest_is_found_by_reading_the_content(tmp_path: Path) -> None:
    path = tmp_path / image_name(9)
    wrong_digest(path)
    assert frame_fault(path) == ""
    assert "its MD5 is" in content_fault(path)
    # the result is cached
    assert "its MD5 is" in frame_fault(path)
    put_image(tmp_path, 9)
    assert content_fault(path) == frame_fault(path) == ""


def test_image_without_read_permission_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions are checked as for a daemon without root rights."""
    put_image(tmp_path, 5)
    newest = put_image(tmp_path, 9)
    with unreadable(newest, monkeypatch):
        assert "Permission denied" in frame_fault(newest)
        assert [held.txid for held in held_images([tmp_path])] == [5]
    # the permission was restored
    assert [held.txid for held in held_images([tmp_path])] == [9, 5]


def test_older_image_replaces_an_excluded_one(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "nn")
    put_image(root / "current", FAR)
    fault = DigestMismatchError("its MD5 differs")
    with OpenDirectories([root]) as storage:
        storage.exclude(storage.latest_image(), fault)
        assert storage.latest_image().txid == IMAGE_TXID
        with pytest.raises(DigestMismatchError):
            storage.exclude(storage.latest_image(), fault)
        assert storage.latest_image().txid == IMAGE_TXID


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
