"""A backup node killed at every step of its life: no acknowledged edit is lost, and the next process continues."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from checkpointer.storage.inspector import list_images
from engine.observer import SilentObserver
from hadoop_common.names import image_name
from tests.checkpointer.backup_support import Daemon, assert_same_segments, backup_config, in_sync, play
from tests.checkpointer.kill_harness import Kill, kill, kills, record
from tests.checkpointer.storage_support import stored_txids, whole_images
from tests.depth import sample
from tests.namenode_stub.namenode_double import streaming_double
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.recorded_cases import RECORDED, Case


def one_life(folder: str, rpc_port: int, http_port: int) -> None:
    """Run a daemon that synchronises, receives some edits and makes a checkpoint; called in a child process."""
    with Daemon(backup_config(Path(folder), rpc_port, http_port)) as daemon:
        daemon.follow()
        assert in_sync(daemon), daemon.role.alarms()
        daemon.role.checkpoint(SilentObserver())
        assert [each.result for each in daemon.role.upload(lambda: False, lambda: None, force=False)] == ["SUCCESS"]


class Place:
    """A NameNode and the directory of its backup node."""

    def __init__(self, folder: Path, source: Place | None = None) -> None:
        if source is not None:
            shutil.copytree(source.folder, folder, copy_function=shutil.copyfile)
        self.folder: Path = folder
        self.namenode = streaming_double(folder / "nn")
        if source is not None:
            self.namenode.go_on_as(source.namenode)
        self.namenode.batches = lambda count: itertools.chain([count // 2], [count - count // 2])
        self.namenode.after_roll = 6

    def arguments(self) -> tuple[str, int, int]:
        return str(self.folder / "backup"), self.namenode.rpc_port, self.namenode.http_port

    @property
    def current(self) -> Path:
        return self.folder / "backup" / "current"

    def check_remains(self, where: Kill) -> None:
        """Check that files under final names are complete, and that every acknowledged transaction can be read."""
        if not self.current.is_dir():
            return
        assert len(whole_images(self.current)) == len(list_images(self.current)), where
        found = stored_txids(self.current)
        for stream in self.namenode.streams.values():
            assert stream.acknowledged <= found, where

    def go_on(self) -> None:
        """Run the next process until all recorded edits are in an image."""
        folder, rpc_port, http_port = self.arguments()
        with Daemon(backup_config(Path(folder), rpc_port, http_port)) as daemon:
            daemon.follow(3)
            assert in_sync(daemon), daemon.role.alarms()
            play(self.namenode)
            daemon.follow(2)
            daemon.checkpoint()
            newest = list_images(self.current)[-1]
            found = Case(RECORDED / DEFAULT_CASE).differences(newest.path)
            # the image may also contain some empty segments that follow
            assert [each for each in found if not each.startswith("NS_INFO field 6")] == []
            assert_same_segments(self.namenode, daemon)
            theirs = self.namenode.folder / image_name(newest.txid)
            assert theirs.read_bytes() == newest.path.read_bytes()
        assert [path.name for path in self.current.iterdir() if "ckpt" in path.name or "tmp" in path.name] == []


@pytest.mark.parameters(1)
@pytest.mark.parametrize("number", [1, 2])
def test_recovery_after_a_kill_at_every_step(number: int, tmp_path: Path) -> None:
    source = None
    if number == 2:
        first = Place(tmp_path / "first")
        with first.namenode:
            one_life(*first.arguments())
        source = first
    place = Place(tmp_path / "recorded", source)
    with place.namenode:
        steps = record(one_life, *place.arguments())
    for needed in ("fsync", "replace", "RpcClient.call"):
        assert needed in steps
    for where in sample(list(kills(steps)), 4, f"backup {number}"):
        place = Place(tmp_path / str(where).replace("/", "_"), source)
        with place.namenode:
            kill(where, one_life, *place.arguments())
            place.check_remains(where)
            place.go_on()
        shutil.rmtree(place.folder)
