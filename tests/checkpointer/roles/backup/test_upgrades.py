"""A backup node during and after an upgrade of its NameNode."""

from __future__ import annotations

from pathlib import Path

from image_format.reader import ImageFile
from tests.checkpointer.backup_support import Daemon, assert_follows, config_for, in_sync, play
from tests.namenode_stub.namenode_double import NamenodeDouble


def test_daemon_starts_over_with_an_upgraded_namenode(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(3)
    namenode.upgrade(c_time=77)
    namenode.restart()
    daemon.follow(4)
    assert in_sync(daemon)
    assert daemon.role.storage_info().c_time == 77


def test_newer_namenode_is_followed_during_a_rolling_upgrade(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.layouts_ahead = 1
    daemon.follow()
    assert_follows(namenode, daemon)
    namenode.restart()
    daemon.follow(4)
    assert in_sync(daemon)


def test_new_storage_during_a_rolling_upgrade(namenode: NamenodeDouble, tmp_path: Path) -> None:
    namenode.layouts_ahead, namenode.reports_software = 1, True
    with Daemon(config_for(namenode, tmp_path / "backup")) as daemon:
        assert daemon.role.storage_info() == namenode.info
        daemon.follow()
        assert_follows(namenode, daemon)


def test_layout_that_differs_from_the_image_causes_a_new_start(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    # VERSION was written after an upgrade, and the process was killed before it stored the image
    version = tmp_path / "backup/current/VERSION"
    version.write_text(version.read_text().replace("layoutVersion=-63", "layoutVersion=-64"))
    namenode.upgrade(layout_version=-64)
    before = namenode.steps.count("image")
    with Daemon(config) as daemon:
        daemon.follow()
        assert namenode.steps.count("image") == before + 1


def test_images_get_the_layout_of_a_finalized_rolling_upgrade(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    play(namenode)
    namenode.upgrade(layout_version=-66)
    namenode.restart()
    daemon.follow(4)
    assert in_sync(daemon)
    daemon.role.reconfigure(daemon.config)
    for _ in range(2):
        with ImageFile.open(daemon.checkpoint()) as image:
            assert image.layout_version == -66
