"""The contents of storage directories, and the state that they show."""

from __future__ import annotations

import errno
import json
import os
from itertools import product
from pathlib import Path
from unittest import mock

import pytest

from checkpointer.storage import inspector
from checkpointer.storage.inspector import (
    StorageState,
    agree_on_version,
    classify,
    inspect,
    newest_copies,
    newest_image,
    read_storage_info,
)
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.names import image_name, md5_name
from hadoop_common.seen_txid import check_covered
from hadoop_common.storage_info import VersionFileError
from image_format.errors import BadMagicError, TransactionIdError, UnsupportedLayoutError
from image_format.reader import ImageFile
from tests.checkpointer.storage_support import RECORDED, recorded_directory


def start(directory: Path) -> int:
    """Check the image and the edits as a merge does before replay; return the last transaction."""
    storage = inspect(directory)
    with ImageFile.open(newest_image([storage]).path) as image:
        last = max([image.txid, *(each.last or each.first for each in storage.segments)])
    check_covered(storage.current, storage.seen_txid, last)
    return last


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("case", "error", "text"),
    [
        ("version-future", UnsupportedLayoutError, "-70 is newer"),
        ("version-missing", StorageError, "VERSION is missing"),
        ("version-no-namespace-id", VersionFileError, "namespaceID is missing"),
        ("no-image", StorageError, "there is no image in"),
        ("seen-txid-beyond", StorageError, "edits from txid 184 on are missing"),
        ("seen-txid-junk", StorageError, "'abc', expected a transaction id"),
        ("image-newest-bad-older-good", BadMagicError, "fsimage_0000000000000000183"),
        ("image-txid-name", TransactionIdError, "33"),
        ("version-other-namespace-id", None, ""),
        ("seen-txid-missing", None, ""),
        ("image-checkpoint-leftover", None, ""),
    ],
)
def test_verdict_equals_that_of_hadoop(tmp_path: Path, case: str, error: type[HdfsError] | None, text: str) -> None:
    verdict = json.loads((RECORDED / "corrupt" / case / "case.json").read_text())["verdict"]["NameNode"]
    directory = recorded_directory(tmp_path / "nn", f"corrupt/{case}")
    assert verdict["loaded"] == (error is None)
    if error is None:
        assert start(directory) == verdict["txid"]
        return
    with pytest.raises(error) as caught:
        start(directory)
    assert text in caught.value.message
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint


@pytest.mark.recorded
def test_every_good_directory_is_accepted(tmp_path: Path) -> None:
    cases = [path.parent for path in sorted(RECORDED.parent.glob("*/*/before"))]
    for number, case in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "current").symlink_to(case / "before")
        storage = inspect(directory)
        assert storage.state is StorageState.NORMAL
        newest = newest_image([storage])
        assert newest.has_md5
        check_covered(
            storage.current,
            storage.seen_txid,
            max([newest.txid, *(each.last or each.first for each in storage.segments)]),
        )
    assert cases


def test_contents_of_a_directory(tmp_path: Path) -> None:
    found = inspect(recorded_directory(tmp_path / "nn", "corrupt/image-checkpoint-leftover"))
    assert found.state is StorageState.NORMAL
    assert [(image.txid, image.has_md5, image.rollback) for image in found.images] == [(30, True, False)]
    assert [(segment.first, segment.last) for segment in found.segments] == [(31, 183)]
    assert found.seen_txid == 31
    assert [path.name for path in found.leftovers] == ["fsimage.ckpt_0000000000000000183"]
    assert found.version is not None


def test_storage_states(tmp_path: Path) -> None:
    directory = tmp_path / "nn"
    assert inspect(directory).state is StorageState.MISSING
    directory.mkdir()
    assert inspect(directory).state is StorageState.NOT_FORMATTED
    (directory / "current").mkdir()
    assert inspect(directory).state is StorageState.NOT_FORMATTED
    (directory / "current" / image_name(1)).touch()
    assert inspect(directory).state is StorageState.HALF_FORMATTED


@pytest.mark.parametrize(
    ("exists", "version", "image", "segment"), [*product([True], [True, False], [True, False], [True, False])]
)
def test_only_version_and_image_together_are_normal(exists: bool, version: bool, image: bool, segment: bool) -> None:
    state = classify(exists=exists, has_version=version, has_image=image, has_segment=segment)
    assert (state is StorageState.NORMAL) == (version and image)
    assert (state is StorageState.NOT_FORMATTED) == (not (version or image or segment))


@pytest.mark.parametrize("name", ["previous.tmp", "removed.tmp", "finalized.tmp", "lastcheckpoint.tmp"])
def test_interrupted_upgrade_is_an_error(tmp_path: Path, name: str) -> None:
    directory = recorded_directory(tmp_path / "nn")
    (directory / name).mkdir()
    with pytest.raises(StorageError, match="interrupted"):
        inspect(directory)


def test_file_instead_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "nn").touch()
    with pytest.raises(StorageError, match="not a directory"):
        inspect(tmp_path / "nn")


def test_newest_image_of_all_directories_with_digests_first(tmp_path: Path) -> None:
    first, second, third = (recorded_directory(tmp_path / name) for name in "abc")
    for directory in (first, second):
        (directory / "current" / image_name(50)).touch()
    (second / "current" / md5_name(image_name(50))).touch()
    (third / "current" / image_name(60, rollback=True)).touch()
    storages = [inspect(directory) for directory in (first, second, third)]
    assert [copy.path.parent.parent.name for copy in newest_copies(storages)] == ["b", "a"]


def test_images_without_version_are_ignored(tmp_path: Path) -> None:
    good, other = recorded_directory(tmp_path / "a"), recorded_directory(tmp_path / "b")
    (other / "current" / image_name(99)).touch()
    (other / "current" / "VERSION").unlink()
    assert newest_image([inspect(good), inspect(other)]).txid == 30


@pytest.mark.parametrize("field", ["namespaceID", "clusterID", "cTime", "blockpoolID", "layoutVersion"])
def test_directories_of_different_namespaces_are_rejected(tmp_path: Path, field: str) -> None:
    good, other = recorded_directory(tmp_path / "a"), recorded_directory(tmp_path / "b")
    version = other / "current" / "VERSION"
    lines = [line for line in version.read_text().splitlines() if not line.startswith(field)]
    version.write_text("\n".join([*lines, f"{field}=-60"]))
    assert agree_on_version([inspect(good)])
    with pytest.raises(StorageError, match="-60, but") as caught:
        agree_on_version([inspect(good), inspect(other)])
    assert str(version) in caught.value.message


def test_unreadable_version_gets_a_hint_about_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(inspector, "read_version", mock.Mock(side_effect=denied))
    with pytest.raises(StorageError, match="Permission denied") as refused:
        read_storage_info(tmp_path)
    assert str(tmp_path / "current") in refused.value.hint
    assert f"uid {os.geteuid()}" in refused.value.hint
    assert "formatted" not in refused.value.hint
