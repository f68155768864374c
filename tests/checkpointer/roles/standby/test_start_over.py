"""A standby with an unfinished start-over: the loss is recorded early, and its images are neither offered nor kept."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.roles.standby.image_fetcher import ImageFetcher, ImageReplacement
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.version import ActiveVersion
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.formatting import format_directory
from checkpointer.storage.lost_pasts import LOST_PAST, START_OVER, folders_aside, link_aside, start_over_of
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from namenode_stub.node import NameNodeStub
from tests.checkpointer.service_support import standby_config
from tests.checkpointer.set_back_support import image
from tests.checkpointer.standby_support import daemon_of, images, write_edits
from tests.checkpointer.storage_support import INFO

CAUSE = "the NameNode was set back"


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[StorageDirectories]:
    (tmp_path / "name").mkdir()
    format_directory(tmp_path / "name", INFO, 0, 0o700)
    opened = StorageDirectories([tmp_path / "name"])
    opened.lock()
    yield opened
    opened.release()


def replacement_of(storage: StorageDirectories) -> ImageReplacement:
    fetcher = ImageFetcher(storage, standby_config(), count=lambda count: None, fetched=lambda address, txid: None)
    return ImageReplacement(storage, NameNodes((), (), user="x", timeout=1.0, retries=1), fetcher)


def recorded(storage: StorageDirectories) -> str:
    begun = storage.unfinished_start_over()
    return "" if begun is None else begun.cause


def test_loss_is_recorded_although_no_namenode_is_active(storage: StorageDirectories, tmp_path: Path) -> None:
    image(tmp_path / "name/current", 9, "aa" * 16)
    with pytest.raises(StorageError, match="will start over once a NameNode is active"):
        replacement_of(storage).begin(None, cause=CAUSE, folder=LOST_PAST)
    assert recorded(storage) == CAUSE


def test_active_namenode_of_another_namespace_is_not_recorded_as_a_loss(
    storage: StorageDirectories, tmp_path: Path
) -> None:
    image(tmp_path / "name/current", 9, "aa" * 16)
    theirs = dataclasses.replace(INFO, namespace_id=INFO.namespace_id + 1)
    other = ActiveVersion("nn1:8020", "http://nn1", theirs, False, 5)
    with pytest.raises(StorageError, match="another namespace"):
        replacement_of(storage).begin(other, cause=CAUSE, folder=LOST_PAST)
    assert recorded(storage) == ""


def test_missing_image_is_not_recorded_as_a_loss(storage: StorageDirectories) -> None:
    """Otherwise, an image that an operator copies there would not be used."""
    with pytest.raises(StorageError, match="will start over once a NameNode is active"):
        replacement_of(storage).begin(None, cause="this node has no image", folder=LOST_PAST)
    assert recorded(storage) == ""


@pytest.mark.parametrize("copied", [True, False])
def test_lost_image_is_neither_offered_nor_used(stub: NameNodeStub, tmp_path: Path, copied: bool) -> None:
    """The directory was copied without hard links while the daemon was down, or `lost_past` was removed."""
    root = tmp_path / "nn2"
    with daemon_of(stub, tmp_path) as daemon:
        last = write_edits(stub, "a")
        assert daemon.service.poll().details["txid"] == last
    lost = image(root / "current", last + 1000, "aa" * 16)
    link_aside(root, start_over_of([root], LOST_PAST, CAUSE))
    if copied:
        shutil.copytree(root, tmp_path / "copy")
        shutil.rmtree(root)
        (tmp_path / "copy").rename(root)
    else:
        shutil.rmtree(root / LOST_PAST)
    with daemon_of(stub, tmp_path) as daemon:
        assert daemon.role.progress().image_txid == -1
        with pytest.raises(StorageError, match=CAUSE):
            daemon.role.confirm_image()
        with pytest.raises(StorageError, match=CAUSE):
            daemon.role._confirm(lost, last + 1000)
        daemon.role.tail()
        started_over = daemon.role.details().lost_past
        assert started_over is not None
        assert started_over.reason == CAUSE
        assert lost.name not in {image_name(txid) for txid in images(root)}
        assert not (root / "current" / START_OVER).exists()
    (folder,) = folders_aside(root)
    assert (folder / lost.name).exists()
