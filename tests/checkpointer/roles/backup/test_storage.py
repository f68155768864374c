"""The storage and the settings of a backup daemon, and its behaviour in random histories."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.roles.backup.namenode_link import NamenodeLink
from checkpointer.roles.backup.role import BackupRole
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.observer import SilentObserver
from engine.settings import MergeSettings, ReplayRules
from hadoop_common.durable import write_atomically
from hadoop_common.errors import StorageError
from hadoop_common.recurring_fault import Alarm
from hadoop_rpc.errors import RpcError, RpcTimeoutError
from image_format.reader import ImageFile
from journal.segment_stream import SegmentStream
from servlets.status import TriggerState
from tests.checkpointer.backup_support import (
    TAMPERS,
    Daemon,
    assert_follows,
    assert_same_segments,
    config_for,
    images,
    in_sync,
    play,
)
from tests.cli_runner import fingerprint
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.namenode_stub.stub_support import wait_until
from tests.recorded_cases import RECORDED, Case, replications


def test_another_namespace_is_rejected_at_the_start(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    namenode.upgrade(namespace_id=namenode.info.namespace_id + 1)
    with pytest.raises(StorageError, match="namespace_id"), Daemon(config):
        pass


def test_new_storage_requires_the_namenode(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    namenode.faults["image"] = 410
    with pytest.raises(CheckpointError), Daemon(config):
        pass
    namenode.stop()
    with pytest.raises(RpcError), Daemon(config):
        pass
    assert not (tmp_path / "backup" / "current").exists()
    namenode.faults.clear()
    namenode.start()
    with Daemon(config) as daemon:
        daemon.follow()
        assert in_sync(daemon)


def test_daemon_starts_while_the_namenode_is_down(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    namenode.stop()
    with Daemon(config) as daemon:
        daemon.follow()
        assert daemon.role.alarms()
        namenode.start()
        daemon.follow(2)
        assert in_sync(daemon)


@pytest.mark.parametrize("where", ["this host", "another host", "this host, hung"])
def test_storage_that_may_be_the_namenodes_causes_a_warning(
    namenode: NamenodeDouble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    """The backup role may have the NameNode's own configuration, but the storage may also be a copy."""
    config = config_for(namenode, tmp_path / "backup")
    shutil.copytree(namenode.folder, config.image_directories[0] / "current")
    before = fingerprint(config.image_directories[0])
    namenode.stop()
    if where == "another host":
        monkeypatch.setattr("checkpointer.roles.backup.namenode_link.is_local", lambda host: False)
    if where == "this host, hung":
        hung = RpcTimeoutError("no response within 60 s")
        monkeypatch.setattr(NamenodeLink, "namespace", lambda link: (_ for _ in ()).throw(hung))
    with Daemon(config) as daemon:
        assert daemon.role.alarms()
        after = fingerprint(config.image_directories[0])
        assert before.items() <= after.items()
    assert ("may be the storage of the NameNode at" in caplog.text) == (where == "this host")
    caplog.clear()
    monkeypatch.undo()
    # this node has used the storage
    with Daemon(config):
        pass
    assert "may be the storage" not in caplog.text


def test_image_is_fetched_again_if_its_edits_were_purged(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    with Daemon(config_for(namenode, tmp_path / "other")) as other:
        other.follow()
        for _ in range(3):
            namenode.write(10)
            other.checkpoint()
    assert namenode.segments()[0].first > images(tmp_path / "backup/current")[-1] + 1
    with Daemon(config) as daemon:
        daemon.follow()
        assert_follows(namenode, daemon)


def test_refused_first_image_causes_no_roll(namenode: NamenodeDouble, tmp_path: Path) -> None:
    """The NameNode refuses this host for every requested layout."""
    namenode.layouts_ahead, namenode.reports_software = 1, True
    namenode.faults["image"] = 403
    before = namenode.written
    for _ in range(2):
        with pytest.raises(TransferError, match="HTTP 403"):
            BackupRole(config_for(namenode, tmp_path / "backup")).open()
    assert namenode.written == before
    assert not (tmp_path / "backup" / "current" / "VERSION").exists()


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_end_with_the_image_of_hadoop(seed: int, namenode: NamenodeDouble, daemon: Daemon) -> None:
    """After batches, faults, rolls, restarts and checkpoints in any order, the final image equals Hadoop's."""
    rng = random.Random(seed)
    namenode.batches = lambda count: _sizes(count, rng)
    while namenode.written < namenode.recorded_end - 1:
        _act(rng, namenode, daemon)
    daemon.follow(4)
    assert in_sync(daemon)
    found = Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint())
    # the image may also contain some empty segments that follow
    assert [each for each in found if not each.startswith("NS_INFO field 6")] == []
    assert_same_segments(namenode, daemon)


def _sizes(count: int, rng: random.Random) -> Iterator[int]:
    while count:
        size = rng.randint(1, count)
        yield size
        count -= size


def _act(rng: random.Random, namenode: NamenodeDouble, daemon: Daemon) -> None:
    choice = rng.random()
    if choice < 0.55:
        namenode.write(rng.randint(1, 30))
    elif choice < 0.7:
        daemon.follow()
    elif choice < 0.8:
        namenode.roll(streamed=rng.random() < 0.7)
    elif choice < 0.9:
        kind = rng.choice(list(TAMPERS))
        good, namenode.tamper = namenode.tamper, TAMPERS[kind]
        namenode.write(rng.randint(1, 4))
        namenode.tamper = good
    elif choice < 0.95:
        namenode.restart()
    else:
        daemon.follow(3)
        daemon.service.request(force=True, wait=True)


def test_failing_storage_directory_is_dropped(namenode: NamenodeDouble, tmp_path: Path) -> None:
    folders = (tmp_path / "a", tmp_path / "b")
    config = config_for(namenode, tmp_path / "a", image_directories=folders, restore_directories=True)
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(3)
        shutil.rmtree(folders[1] / "current")
        namenode.roll()
        assert in_sync(daemon)
        daemon.follow()
        assert daemon.role.storage()[str(folders[0])] == "in use"
        assert "No such file" in daemon.role.storage()[str(folders[1])]
        # an operator recreates the directory, and the next image completes it
        (folders[1] / "current").mkdir()
        result = daemon.service.request(force=True, wait=True)
        assert result.state is TriggerState.DONE
        assert set(daemon.role.storage().values()) == {"in use"}
        assert images(folders[1] / "current") == [result.details["txid"]]
        play(namenode)
        assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
        assert_same_segments(namenode, daemon)


def test_full_disk_causes_no_rolls(namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.follow()
    present = shutil.disk_usage(daemon.folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SegmentStream, "append", full)
        patched.setattr(shutil, "disk_usage", lambda path: present._replace(free=0))
        namenode.write(3)
        begun = namenode.segment
        daemon.follow(2)
        (alarm,) = daemon.role.alarms()
        assert namenode.segment == begun
        assert "has 0 bytes free" in alarm
        assert isinstance(alarm, Alarm)
        assert alarm.hint.startswith("Free space on that disk")
    daemon.follow(2)
    assert in_sync(daemon)


def test_no_image_is_fetched_to_a_full_disk_after_a_lost_past(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.follow()
    namenode.write(5)
    namenode.written -= 3
    fetched, present = namenode.steps.count("image"), shutil.disk_usage(daemon.folder)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda path: present._replace(free=0))
        daemon.follow(4)
        assert "has 0 bytes free" in daemon.role.alarms()[0]
        assert namenode.steps.count("image") == fetched
        assert daemon.service.status()["lostPast"] is None
    daemon.follow(4)
    assert daemon.service.status()["lostPast"] is not None
    assert in_sync(daemon)


def test_new_settings_apply_from_the_next_checkpoint(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    codec = "org.apache.hadoop.io.compress.GzipCodec"
    daemon.role.reconfigure(replace(daemon.config, merge_settings=MergeSettings(codec=codec), transfer_timeout=700.0))
    with ImageFile.open(daemon.checkpoint()) as image:
        assert image.codec == codec


def test_new_replay_rules_apply_to_all_edits_after_the_newest_image(namenode: NamenodeDouble, daemon: Daemon) -> None:
    """A NameNode with the new setting has the same result, although streamed edits were replayed with the old
    setting.
    """
    before = replications(daemon.role.latest_image())
    daemon.follow()
    play(namenode)
    assert in_sync(daemon)
    rules = ReplayRules(max_replication=1)
    daemon.role.reconfigure(replace(daemon.config, merge_settings=MergeSettings(rules=rules)))
    found = replications(daemon.checkpoint())
    assert {factor for number, factor in found.items() if number not in before} == {1}


def test_new_timeout_applies_to_the_next_call(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    assert in_sync(daemon)
    namenode.faults["startCheckpoint"] = "hang"
    daemon.role.reconfigure(replace(daemon.config, rpc_timeout=3.0))
    with pytest.raises(RpcError, match=r"within 3 s"):
        daemon.role.checkpoint(SilentObserver())
    daemon.role.reconfigure(daemon.config)
    namenode.faults.clear()
    namenode.release()
    namenode.await_calls()
    daemon.follow(3)
    assert in_sync(daemon)


def test_start_is_cancelled_during_the_first_image_transfer(namenode: NamenodeDouble, tmp_path: Path) -> None:
    role = BackupRole(config_for(namenode, tmp_path / "backup"))
    with pytest.raises(CheckpointCancelledError):
        role.open(lambda: True)
    assert not (tmp_path / "backup/current").exists()


def test_checkpoint_is_cancelled_while_edits_are_fetched(namenode: NamenodeDouble, tmp_path: Path) -> None:
    class Cancelled(SilentObserver):
        def cancelled(self) -> bool:
            return True

    namenode.reaches_nodes = False
    with Daemon(config_for(namenode, tmp_path / "backup")) as daemon:
        daemon.follow()
        namenode.roll()
        with pytest.raises(CheckpointCancelledError):
            daemon.role.checkpoint(Cancelled())
        assert len(images(daemon.folder)) == 1
        assert daemon.checkpoint().exists()


def test_image_that_fails_its_verification_is_replaced_while_in_sync(namenode: NamenodeDouble, tmp_path: Path) -> None:
    """A check after the verification replaces the image. Otherwise, a daemon that serves reads would answer from this
    image.
    """
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(5)
        damaged = daemon.checkpoint()
    with Daemon(config) as daemon:
        write_atomically(damaged, damaged.read_bytes().replace(b"supergroup", b"otherGroup"))
        namespace, older = daemon.role.warm_namespace, images(daemon.folder)[0]
        assert namespace is not None

        def replaced() -> bool:
            daemon.follow()
            return in_sync(daemon) and namespace.base_txid == older

        wait_until("the older image", replaced)
        play(namenode)
        assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
