"""A standby or backup node keeps an image that the NameNode has purged if other evidence proves the image's past."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.storage.lost_pasts import NOT_COMPARED
from journal.segment_file import list_segments
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.backup_support import Daemon as Backup
from tests.checkpointer.backup_support import backup_config
from tests.checkpointer.purge_support import Processes, assert_accepted, processes, stub_config, write_and_save
from tests.checkpointer.standby_support import Daemon, config_for, images, write_edits
from tests.namenode_stub.namenode_double import NamenodeDouble

__all__ = ["processes"]


@pytest.mark.parametrize("fetched", [0, 1], ids=["the-formatted-image", "a-later-image"])
@pytest.mark.parametrize("restarted", [False, True])
def test_fetched_image_after_a_purge(
    tmp_path: Path, processes: Processes, caplog: pytest.LogCaptureFixture, fetched: int, restarted: bool
) -> None:
    """Either the NameNode's process or the edits that end with the image prove the image."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        first = write_and_save(stub, "first") if fetched else 0
        with Daemon(config) as daemon:
            daemon.role.tail()
        assert images(tmp_path / "nn2") == [first]
        newest = write_and_save(stub, "second")
        assert images(tmp_path / "active/name") == [newest]
        if restarted:
            processes.restart()
        with Daemon(config) as daemon:
            daemon.role.tail()
            # only an image before the first edit lacks edits that end with the image
            proven = bool(first) or not restarted
            assert images(tmp_path / "nn2") == [first if proven else newest]
            lost = daemon.role.details().lost_past
            assert (lost is None) == proven
            if lost is not None:
                assert "cannot be compared" in lost.reason
                assert [folder.parent.name for folder in lost.set_aside] == [NOT_COMPARED]
            assert_accepted(stub, daemon, tmp_path)
    assert "was set back" not in caplog.text


def test_forced_checkpoint_that_starts_over_needs_no_action(tmp_path: Path, processes: Processes) -> None:
    """The NameNode's image contains all finalized edits, so there is nothing to merge."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            daemon.role.tail()
        newest = write_and_save(stub, "edits")
        processes.restart()
        with Daemon(config) as daemon:
            result = daemon.service.request(force=True, wait=True)
            assert images(tmp_path / "nn2") == [newest]
            assert result.message == f"no finalized edits after txid {newest}"
            assert result.details["hint"].startswith("No action is needed")
            assert "hdfs dfsadmin -rollEdits" in result.details["hint"]
            assert_accepted(stub, daemon, tmp_path)


@pytest.mark.parametrize(("extra_edits", "kept"), [(15, True), (0, False)], ids=["later-edits-exist", "gap"])
def test_own_image_after_a_purge(tmp_path: Path, processes: Processes, extra_edits: int, kept: bool) -> None:
    """The NameNode has also purged the edits from which the image was made, so only the NameNode's process proves the
    image.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            write_edits(stub, "first")
            made = daemon.service.poll().details["txid"]
            assert images(tmp_path / "active/name") == [made]
        # another checkpointer makes the next image
        newest = write_and_save(stub, "second")
        edits = min(segment.first for segment in list_segments(tmp_path / "active/shared/current"))
        assert edits == (made if kept else newest) + 1
        with Daemon(config) as daemon:
            daemon.role.tail()
            assert_accepted(stub, daemon, tmp_path)
            assert (daemon.role.details().lost_past is None) == kept
            assert images(tmp_path / "nn2")[0] == (made if kept else newest)


def test_fetched_image_of_a_backup_node_after_a_purge(tmp_path: Path) -> None:
    with NamenodeDouble(tmp_path / "nn", per_roll=1) as node:
        node.started_at, node.keeps_edits = 1000, True
        config = backup_config(tmp_path / "backup", node.rpc_port, node.http_port)
        with Backup(config):
            fetched = node.image_txids()[-1]
        node.save_namespace()
        node.save_namespace()
        assert fetched not in node.image_txids()
        with Backup(config) as daemon:
            daemon.follow()
            made = daemon.service.request(force=True, wait=True)
            assert (made.state, made.details["outcome"]) == (TriggerState.DONE, "taken")
            assert daemon.role.details().lost_past is None


def test_edits_purged_before_they_are_tailed(tmp_path: Path, processes: Processes) -> None:
    """The NameNode has not restarted, which proves the daemon's state in memory, but it has purged the edits after this
    state.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits=0)) as stub, Daemon(config_for(tmp_path, stub)) as daemon:
        write_edits(stub, "first")
        made = daemon.service.poll().details["txid"]
        write_and_save(stub, "second")
        newest = write_and_save(stub, "third")
        write_edits(stub, "fourth")
        daemon.role.tail()
        assert daemon.service.status()["alarms"] == []
        assert images(tmp_path / "nn2") == [0, made, newest]
        assert daemon.role.details().lost_past is None
        assert_accepted(stub, daemon, tmp_path)
