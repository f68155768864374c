"""The registration of a backup node at its NameNode, and what the NameNode requests of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.errors import RoleGaveUpError
from engine.observer import SilentObserver
from hadoop_rpc.errors import RemoteError
from journal.segment_file import list_segments
from tests.checkpointer.backup_support import Daemon, assert_same_segments, config_for, in_sync, play
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.recorded_cases import RECORDED, Case


def test_stop_of_the_daemon_is_reported_to_the_namenode(namenode: NamenodeDouble, tmp_path: Path) -> None:
    with Daemon(config_for(namenode, tmp_path / "backup")) as daemon:
        daemon.follow()
        namenode.write(5)
        assert namenode.streams
    assert namenode.reports == [(1, "Shutting down.")]
    assert not namenode.streams
    assert [each.in_progress for each in list_segments(daemon.folder)] == [True]


def test_daemon_registers_again_with_a_restarted_namenode(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(5)
    namenode.restart()
    daemon.follow(3)
    assert in_sync(daemon)
    assert namenode.steps.count("registerSubordinateNamenode") == 2
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
    assert_same_segments(namenode, daemon)


def test_daemon_waits_for_a_namenode_in_safe_mode(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.safe_mode()
    daemon.follow()
    assert "safe mode" in daemon.role.alarms()[0]
    namenode.faults.clear()
    daemon.follow()
    assert in_sync(daemon)


def test_refused_registration_is_an_alarm(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.faults["registerSubordinateNamenode"] = RemoteError("no", class_name="java.io.IOException")
    daemon.follow()
    assert daemon.role.alarms()
    namenode.faults.clear()
    daemon.follow()
    assert in_sync(daemon)


def test_daemon_stops_if_the_namenode_requires_it(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.refuses_checkpoints = True
    with pytest.raises(RoleGaveUpError, match="requires this backup node to stop"):
        daemon.role.checkpoint(SilentObserver())
