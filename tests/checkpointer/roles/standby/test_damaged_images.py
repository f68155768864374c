"""A standby whose images are damaged or of a lost past: it sets them aside and continues from the NameNode's image."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from checkpointer.set_back.proof import set_back
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED, folders_aside, link_aside, start_over_of
from hadoop_common.durable import write_atomically
from hadoop_common.names import image_name
from namenode_stub.node import NameNodeStub
from tests.checkpointer.purge_support import Processes, assert_accepted, processes, stub_config
from tests.checkpointer.standby_support import PERIOD, Daemon, config_for, images, write_edits
from tests.namenode_stub.stub_support import wait_until

__all__ = ["processes"]


def test_kill_while_the_only_image_is_replaced(tmp_path: Path, processes: Processes) -> None:
    """The image belongs to a lost past, but its digest file already belongs to the NameNode's image."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            ours = daemon.role.latest_image()
        theirs = ours.read_bytes()
        lost = theirs.replace(b"supergroup", b"otherGroup")
        write_atomically(ours, lost)
        root = tmp_path / "nn2"
        link_aside(root, start_over_of([root], LOST_PAST, "the NameNode was set back: the edits differ"))
        (folder,) = folders_aside(tmp_path / "nn2")
        with Daemon(config) as daemon:
            daemon.role.tail()
            assert daemon.service.status()["alarms"] == []
            assert ours.read_bytes() == theirs
            started_over = daemon.role.details().lost_past
            assert started_over is not None
            assert started_over.reason == "the NameNode was set back: the edits differ"
            assert list(started_over.set_aside) == [folder]
            daemon.clock.now += PERIOD
            txid = write_edits(stub, "more")
            assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
            assert images(tmp_path / "active/name") == [txid]
        assert (folder / ours.name).read_bytes() == lost


@pytest.mark.parametrize("count", [1, 2])
def test_damaged_images_are_no_lost_past(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The NameNode was set back, and none of the node's images is intact, so no image is kept as the NameNode's lost
    state.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub, Daemon(config_for(tmp_path, stub)) as daemon:
        write_edits(stub, "first")
        if count == 2:
            daemon.service.poll()
        ours = [tmp_path / "nn2/current" / image_name(txid) for txid in images(tmp_path / "nn2")]
        assert len(ours) == count
        for each in ours:
            write_atomically(each, each.read_bytes().replace(b"supergroup", b"otherGroup"))
        compare, found = PastWatch.check, [set_back("the edits are different")]
        monkeypatch.setattr(
            PastWatch, "check", lambda self, *, deep: found.pop() if found else compare(self, deep=deep)
        )
        daemon.role.tail()
        assert not found
        assert daemon.role.alarms() == []
        started_over = daemon.role.details().lost_past
        assert started_over is not None
        assert started_over.reason == "the NameNode was set back: the edits are different"
        assert (tmp_path / "nn2" / NOT_COMPARED).exists()
        assert_accepted(stub, daemon, tmp_path)


def test_image_damaged_while_the_namespace_is_in_memory_is_fetched_again(tmp_path: Path, processes: Processes) -> None:
    """Once there is space for an image, the daemon fetches the NameNode's image without a restart."""
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub, Daemon(config_for(tmp_path, stub)) as daemon:
        daemon.role.tail()
        write_edits(stub, "first")
        ours = daemon.role.latest_image()
        whole = ours.read_bytes()
        write_atomically(ours, b"damaged!" + whole[8:])
        with pytest.MonkeyPatch.context() as full:
            full.setattr("checkpointer.storage.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
            daemon.role.tail()
            assert any("4096 bytes free" in alarm for alarm in daemon.role.alarms())
            assert ours.read_bytes()[:8] == b"damaged!"
            assert not (tmp_path / "nn2" / NOT_COMPARED).exists()
        daemon.role.tail()
        assert daemon.role.alarms() == []
        assert ours.read_bytes() == whole
        assert_accepted(stub, daemon, tmp_path)


def test_image_with_a_wrong_digest_is_replaced_by_a_tail(tmp_path: Path, processes: Processes) -> None:
    """A tail after the verification replaces the image. Otherwise, a daemon that serves reads would answer from this
    image.
    """
    with NameNodeStub(stub_config(tmp_path, extra_edits=1000)) as stub:
        config = config_for(tmp_path, stub)
        with Daemon(config) as daemon:
            ours = daemon.role.latest_image()
        theirs = ours.read_bytes()
        write_atomically(ours, theirs.replace(b"supergroup", b"otherGroup"))
        with Daemon(config) as daemon:

            def started_over() -> bool:
                daemon.role.tail()
                return daemon.role.details().lost_past is not None

            wait_until("the start over", started_over)
            assert daemon.role.alarms() == []
            assert ours.read_bytes() == theirs
            assert_accepted(stub, daemon, tmp_path)
