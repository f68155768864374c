"""The folder of fetched images: images that are kept, and faults of the folder."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.backup_images import image_folder
from checkpointer.backup_images.image_folder import ImageFolder, surplus
from checkpointer.storage.inspector import StoredImage
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from image_format import publish
from tests.servlets.support import INFO

NOW = datetime(2026, 7, 1, tzinfo=UTC)


@given(st.sets(st.integers(0, 40)), st.integers(0, 12))
def test_newest_images_are_kept(txids: set[int], keep: int) -> None:
    images = [StoredImage(txid, Path(image_name(txid)), True) for txid in txids]
    gone = {image.txid for image in surplus(images, keep)}
    stay = txids - gone
    assert len(stay) == (min(keep, len(txids)) if keep else len(txids))
    assert not gone or max(gone) < min(stay)


def test_images_of_both_histories_are_kept_after_a_set_back() -> None:
    images = [StoredImage(txid, Path(image_name(txid)), True) for txid in (1, 2, 3, 4, 10, 11, 12)]
    gone = [image.txid for image in surplus(images, 2, 4, set_back=True)]
    assert gone == [1, 2, 10]
    assert [image.txid for image in surplus(images, 2, 4)] == [1, 2, 3, 10]


def test_write_error_in_the_target_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("disk is gone")

    (tmp_path / "staged").write_bytes(b"")
    with ImageFolder(tmp_path / "shelf") as shelf, monkeypatch.context() as patched:
        patched.setattr(image_folder, "write_atomically", refused)
        patched.setattr(publish, "write_md5_file", refused)
        with pytest.raises(StorageError, match="disk is gone"):
            shelf.put(tmp_path / "staged", "00" * 16, None, NOW)
        with pytest.raises(StorageError, match="disk is gone"):
            shelf.add_version(1, INFO, NOW)
