"""Edits in a backup node's directories that are damaged, left over, or belong to another past."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.roles.backup.follower import BackupFollower
from hadoop_common import durable
from hadoop_common.errors import StorageError
from hadoop_common.names import inprogress_name, segment_name
from journal import recovery
from journal.segment_file import EditLogSegment, list_segments
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.backup_support import Daemon, assert_follows, assert_same_segments, backup_config, in_sync
from tests.namenode_stub.namenode_double import NamenodeDouble


@pytest.fixture
def config(namenode: NamenodeDouble, tmp_path: Path) -> CheckpointConfig:
    return backup_config(tmp_path / "backup", namenode.rpc_port, namenode.http_port)


def first_life(namenode: NamenodeDouble, config: CheckpointConfig) -> list[EditLogSegment]:
    """Run a daemon until its second segment is open, and stop it; return the finalized segments of the first
    directory.
    """
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(5)
        namenode.roll()
        namenode.write(3)
        return [each for each in list_segments(daemon.folder) if not each.in_progress]


def assert_continues(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow(3)
    assert_follows(namenode, daemon)
    assert_same_segments(namenode, daemon)


def set_aside(daemon: Daemon) -> list[str]:
    return sorted(path.name for path in daemon.folder.iterdir() if path.name.endswith(".corrupt"))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("position", [3, 40, -20])
def test_a_damaged_segment_is_set_aside_and_fetched(
    namenode: NamenodeDouble, config: CheckpointConfig, position: int
) -> None:
    finished = first_life(namenode, config)
    flip(finished[-1].path, position)
    with Daemon(config) as daemon:
        assert_continues(namenode, daemon)
        assert set_aside(daemon) == [finished[-1].path.name + ".corrupt"]
    assert f"segment-{finished[-1].first}" in namenode.steps


def test_intact_copy_in_another_directory_is_used(
    namenode: NamenodeDouble, config: CheckpointConfig, tmp_path: Path
) -> None:
    config = replace(config, image_directories=(tmp_path / "a", tmp_path / "b"))
    finished = first_life(namenode, config)
    flip(finished[-1].path, 40)
    with Daemon(config) as daemon:
        assert_continues(namenode, daemon)
        assert set_aside(daemon) == [finished[-1].path.name + ".corrupt"]
    assert f"segment-{finished[-1].first}" not in namenode.steps


def test_directory_with_an_unreadable_segment_is_dropped(
    namenode: NamenodeDouble, config: CheckpointConfig, tmp_path: Path
) -> None:
    config = replace(config, image_directories=(tmp_path / "a", tmp_path / "b"))
    finished = first_life(namenode, config)
    path = finished[-1].path
    path.unlink()
    path.mkdir()
    with Daemon(config) as daemon:
        daemon.follow(3)
        assert in_sync(daemon), daemon.role.alarms()
        assert path.name in daemon.role.storage()[str(tmp_path / "a")]


def test_open_segment_that_also_exists_finalized_is_set_aside(
    namenode: NamenodeDouble, config: CheckpointConfig
) -> None:
    # as if the file could not be renamed when the segment ended, and the segment was fetched before the next start
    finished = first_life(namenode, config)[-1]
    left = finished.path.with_name(inprogress_name(finished.first))
    shutil.copyfile(finished.path, left)
    with Daemon(config) as daemon:
        assert set_aside(daemon) == [left.name + ".corrupt"]
        assert_continues(namenode, daemon)


def test_damaged_open_segment_is_set_aside(namenode: NamenodeDouble, config: CheckpointConfig) -> None:
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(9)
    (left,) = (each for each in list_segments(daemon.folder) if each.in_progress)
    flip(left.path, 40)
    with Daemon(config) as daemon:
        assert set_aside(daemon) == [left.path.name + ".corrupt"]
        assert_continues(namenode, daemon)


def test_directory_in_which_recovery_fails_is_dropped(
    namenode: NamenodeDouble, config: CheckpointConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, image_directories=(tmp_path / "a", tmp_path / "b"))
    first_life(namenode, config)
    rename = durable.rename_durably

    def read_only(source: Path, target: Path) -> None:
        if source.is_relative_to(tmp_path / "a"):
            raise OSError(30, "Read-only file system")
        rename(source, target)

    monkeypatch.setattr(recovery, "rename_durably", read_only)
    with Daemon(config) as daemon:
        assert "Read-only" in daemon.role.storage()[str(tmp_path / "a")]
        daemon.follow(2)
        assert in_sync(daemon)


def test_a_segment_that_begins_during_the_recovery_is_not_recovered(
    namenode: NamenodeDouble, config: CheckpointConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover = BackupFollower.recover

    def meanwhile(follower: BackupFollower) -> None:
        namenode.roll()
        namenode.write(2)
        recover(follower)

    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(3)
        daemon.role._parts.receiver.break_off("a test")
        with monkeypatch.context() as patched:
            patched.setattr(BackupFollower, "recover", meanwhile)
            daemon.follow()
        assert in_sync(daemon), daemon.role.alarms()
        # while a segment is written, a recovery does nothing
        daemon.role._parts.receiver.recover(pytest.fail)
        assert_continues(namenode, daemon)


def test_namenode_with_another_history_is_followed_from_its_image(
    namenode: NamenodeDouble, config: CheckpointConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = first_life(namenode, config)[0]
    path = namenode.folder / finished.path.name
    # the NameNode's segment ends one transaction earlier than ours
    assert finished.last is not None
    middle = finished.last - 1
    path.with_name(segment_name(finished.first, middle)).write_bytes(namenode.content(finished.first, middle))
    path.with_name(segment_name(middle + 1, middle + 1)).write_bytes(namenode.content(middle + 1, middle + 1))
    path.unlink()

    def broken(*_: object, **__: object) -> None:
        raise TransferError("nn", "the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr("checkpointer.roles.backup.follower.download_image", broken)
        with Daemon(config) as daemon:
            before = daemon.role.latest_image()
            daemon.follow(2)
            # the stream does not continue from the lost state
            assert (daemon.state, daemon.role.alarms()) == ("dropUntilNextRoll", ["nn: the connection broke"])
    # the next process still has our image, does not use it, and starts over
    with Daemon(config) as daemon:
        assert before.is_file()
        with pytest.raises(StorageError, match=r"are not used: the NameNode at .* was set back"):
            daemon.role.latest_image()
        daemon.follow(2)
        begun = daemon.service.status()["lostPast"]
        assert f"segment {finished.first}-{finished.last} is not one of the NameNode's segments" in begun["reason"]
        (folder,) = map(Path, begun["setAside"])
        assert {finished.path.name, before.name} < {each.name for each in folder.iterdir()}
        assert daemon.state == "inSync"
