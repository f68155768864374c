"""Checkpoints of a backup node, and their begin and end at the NameNode."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.roles.backup.states import BackupState
from engine.observer import SilentObserver
from journal.segment_file import list_segments
from servlets.status import TriggerState
from tests.checkpointer.backup_support import Daemon, config_for, images, in_sync, play
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.recorded_cases import RECORDED, Case


def test_service_makes_checkpoints_and_applies_retention(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup", transactions=20, images_retained=1, extra_edits_retained=0)
    with Daemon(config) as daemon:
        daemon.follow()
        assert daemon.service.poll().state is TriggerState.SKIPPED
        play(namenode)
        result = daemon.service.poll()
        assert (result.state, result.details["txid"]) == (TriggerState.DONE, namenode.recorded_end)
        assert daemon.service.ready().ok
        assert images(daemon.folder) == [namenode.recorded_end]
        assert [each.first for each in list_segments(daemon.folder)] == [namenode.recorded_end + 1]


def test_node_that_receives_no_stream_fetches_edits_for_a_checkpoint(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.reaches_nodes = False
    daemon.follow(2)
    assert "no stream of edits arrived at this node" in daemon.role.alarms()[0]
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
    assert len(namenode.ended) == 1


def test_stream_continues_while_an_image_is_saved(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(5)

    class Watcher(SilentObserver):
        def phase(self, name: str, total: int | None) -> None:
            if name == "save":
                assert daemon.state == BackupState.JOURNAL_ONLY.value
                namenode.write(4)
                namenode.roll()
                namenode.write(2)

    result = daemon.role.checkpoint(Watcher())
    assert in_sync(daemon)
    assert result.txid < namenode.segment
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []


@pytest.mark.parametrize("step", ["startCheckpoint", "upload", "endCheckpoint"])
def test_checkpoint_that_fails_at_the_namenode_is_retried(step: str, namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.faults[step] = 500 if step == "upload" else "cut"
    daemon.service.request(force=True, wait=True)
    namenode.await_calls()
    daemon.follow(2)
    assert in_sync(daemon)
    namenode.faults.clear()
    play(namenode)
    result = daemon.service.request(force=True, wait=True)
    assert result.details["uploads"] == {namenode.url: "SUCCESS"}
    image = next(daemon.folder.glob(f"fsimage_{namenode.recorded_end:019d}"))
    assert Case(RECORDED / DEFAULT_CASE).differences(image) == []
    assert namenode.ended[-1].current_segment_txid == namenode.recorded_end + 1


def test_no_image_is_uploaded_if_the_namenode_needs_none(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.need_to_return_image = False
    daemon.follow()
    daemon.role.checkpoint(SilentObserver())
    assert list(daemon.role.upload(lambda: False, lambda: None, force=False)) == []
    assert len(namenode.ended) == 1
