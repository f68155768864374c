"""The first image of a standby, and its storage after a start that failed."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.roles.standby.bootstrap import repair_versions
from checkpointer.roles.standby.role import StandbyRole
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.formatting import write_version
from checkpointer.storage.inspector import StorageState, inspect
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import StorageError
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import Daemon, config_for, daemon_of, images, leftovers, write_edits


def test_active_accepts_checkpoints_after_the_bootstrap(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    assert images(tmp_path / "nn2") == [0]
    # a fetched image is not offered to its NameNode
    assert daemon.service.poll().details["uploads"] == {}
    txids = []
    for number in range(3):
        txids.append(write_edits(stub, str(number)))
        stub.namespace.create(f"/{number}/open")
        result = daemon.service.poll()
        assert (result.state, result.details["txid"]) == (TriggerState.DONE, txids[-1])
        assert result.details["uploads"] == {stub.server.url: "SUCCESS"}
    assert images(tmp_path / "nn2") == images(tmp_path / "active/name") == txids[-2:]
    for txid in txids[-2:]:
        ours, theirs = (tmp_path / each / f"current/fsimage_{txid:019d}" for each in ("nn2", "active/name"))
        assert ours.read_bytes() == theirs.read_bytes()
    assert leftovers(tmp_path / "nn2") == []


def test_start_without_an_active_namenode_fails_until_there_is_one(stub_config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(stub_config) as stub:
        address = stub.server.url
    config = config_for(tmp_path, address)
    with pytest.raises(StorageError, match="no image to start from") as caught, Daemon(config):
        pass
    assert caught.value.exit_code == 6
    assert "this daemon can start once a NameNode is active" in caught.value.hint
    assert inspect(tmp_path / "nn2").state is StorageState.NOT_FORMATTED
    with NameNodeStub(replace(stub_config)) as stub, Daemon(config_for(tmp_path, address, stub)) as daemon:
        assert images(tmp_path / "nn2") == [0]
        assert daemon.target(1)["txid"] == 0


def test_daemon_without_namenodes_requires_an_image(stub: NameNodeStub, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no NameNode is configured"), Daemon(config_for(tmp_path)):
        pass
    with Daemon(config_for(tmp_path, stub)):
        pass
    with Daemon(config_for(tmp_path)) as alone:
        write_edits(stub, "a")
        result = alone.service.poll()
        assert (result.state, result.details["uploads"]) == (TriggerState.DONE, {})


def test_cancelled_bootstrap_leaves_no_storage(stub: NameNodeStub, tmp_path: Path) -> None:
    role = StandbyRole(config_for(tmp_path, stub))
    with pytest.raises(CheckpointCancelledError):
        role.open(lambda: True)
    assert inspect(tmp_path / "nn2").state is StorageState.NOT_FORMATTED
    with Daemon(config_for(tmp_path, stub)):
        assert images(tmp_path / "nn2") == [0]


def test_different_versions_left_by_a_kill_are_repaired(stub: NameNodeStub, tmp_path: Path) -> None:
    folders = (tmp_path / "nn2", tmp_path / "nn3")
    with daemon_of(stub, tmp_path, image_directories=folders) as daemon:
        ours = daemon.role.storage_info()
    write_version(folders[1], dataclasses.replace(ours, layout_version=-67))
    with daemon_of(stub, tmp_path, image_directories=folders) as daemon:
        assert daemon.role.storage_info().layout_version == -67
    write_version(folders[1], dataclasses.replace(ours, cluster_id="CID-b"))
    with pytest.raises(StorageError, match="nn3/current/VERSION"), daemon_of(stub, tmp_path, image_directories=folders):
        pass
    storage = StorageDirectories([tmp_path / "empty"])
    repair_versions(storage)
    assert storage.current_folders() == []
