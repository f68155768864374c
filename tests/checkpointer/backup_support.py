"""A backup node in the process of the test, and the expected results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.backup.role import BackupRole
from checkpointer.roles.backup.states import BackupState
from checkpointer.storage.inspector import list_images
from engine.observer import SilentObserver
from hadoop_common.configuration import Configuration
from journal.segment_file import list_segments
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.namenode_stub.namenode_double import NamenodeDouble, streaming_double
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.recorded_cases import RECORDED, Case


def backup_config(folder: Path, rpc_port: int, http_port: int, **changes: str) -> CheckpointConfig:
    given = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{rpc_port}",
        "dfs.namenode.http-address": f"127.0.0.1:{http_port}",
        "dfs.namenode.name.dir": str(folder),
        "dfs.namenode.backup.address": "127.0.0.1:0",
        "dfs.namenode.backup.http-address": "127.0.0.1:0",
        "hadoop.user.name": "hdfs",
        # a busy machine may be slow to respond
        "ipc.client.rpc-timeout.ms": "600000",
        "dfs.image.transfer.timeout": "600000",
        **changes,
    }
    return CheckpointConfig.from_configuration(Configuration.from_mapping(given, {}), Role.BACKUP)


class Daemon:
    """The role and the service without a scheduler; only a test advances the clock."""

    def __init__(self, config: CheckpointConfig) -> None:
        self.now = 0.0
        self.config = config
        self.role = BackupRole(config, clock=lambda: self.now)
        self.service = CheckpointService(self.role, config, clock=lambda: self.now)

    def __enter__(self) -> Daemon:
        self.role.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.role.close()

    @property
    def state(self) -> str:
        return str(self.role.details().state.value)

    @property
    def folder(self) -> Path:
        return self.config.image_directories[0] / "current"

    def follow(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 1000.0
            self.role.follow()

    def checkpoint(self) -> Path:
        result = self.role.checkpoint(SilentObserver())
        assert [each.result for each in self.role.upload(lambda: False, lambda: None, force=False)] == ["SUCCESS"]
        return result.saved.paths[0]


def in_sync(daemon: Daemon) -> bool:
    return daemon.state == BackupState.IN_SYNC.value and not daemon.role.alarms()


def play(namenode: NamenodeDouble) -> None:
    """Write all recorded segments, except the end of the last segment, which a checkpoint writes."""
    while namenode.written < namenode.recorded_end - 1:
        namenode.write_all()
        if namenode.written < namenode.recorded_end - 1:
            namenode.roll()


def assert_follows(namenode: NamenodeDouble, daemon: Daemon) -> None:
    """Check that the daemon receives all recorded edits, and that its checkpoint equals Hadoop's checkpoint."""
    assert in_sync(daemon), daemon.role.alarms()
    play(namenode)
    assert in_sync(daemon), daemon.role.alarms()
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []


def assert_same_segments(namenode: NamenodeDouble, daemon: Daemon) -> None:
    ours = [each for each in list_segments(daemon.folder) if not each.in_progress]
    assert ours
    for segment in ours:
        assert segment.last is not None
        assert segment.path.read_bytes() == namenode.content(segment.first, segment.last), segment.path.name


TAMPERS: dict[str, Callable[[int, int, bytes], tuple[int, int, bytes]]] = {
    "garbage": lambda first, count, records: (first, count, b"\x05" + bytes(40)),
    "flipped": lambda first, count, records: (first, count, records[:-1] + bytes([records[-1] ^ 1])),
    "cut": lambda first, count, records: (first, count, records[:-3]),
    "empty": lambda first, count, records: (first, 0, b""),
    "count": lambda first, count, records: (first, count + 1, records),
    "gap": lambda first, count, records: (first + 1, count, records),
    "again": lambda first, count, records: (first - 1, count, records),
}


@pytest.fixture
def namenode(tmp_path: Path) -> Iterator[NamenodeDouble]:
    with streaming_double(tmp_path / "nn") as running:
        yield running


def config_for(namenode: NamenodeDouble, folder: Path, **changes: Any) -> CheckpointConfig:
    return replace(backup_config(folder, namenode.rpc_port, namenode.http_port), **changes)


@pytest.fixture
def daemon(namenode: NamenodeDouble, tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(config_for(namenode, tmp_path / "backup")) as running:
        yield running


def images(folder: Path) -> list[int]:
    return [image.txid for image in list_images(folder)]
