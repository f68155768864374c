"""A backup node with an unfinished start-over: its images and edits are not used, but the node starts and continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.set_back.proof import set_back
from checkpointer.storage.lost_pasts import LOST_PAST, START_OVER, begin_start_over, link_aside, start_over_of
from engine.observer import SilentObserver
from hadoop_common.errors import StorageError
from hadoop_rpc.errors import RpcTimeoutError
from journal.segment_file import list_segments
from servlets.status import TriggerState
from tests.checkpointer.backup_support import Daemon, config_for, in_sync
from tests.namenode_stub.namenode_double import NamenodeDouble


def test_loss_is_recorded_before_the_namenode_answers(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.follow()
    upkeep = daemon.role._parts.upkeep

    def silent(*_: object) -> int:
        raise RpcTimeoutError("no answer")

    with monkeypatch.context() as patched, pytest.raises(RpcTimeoutError):
        for name in ("newest_image_txid", "namespace"):
            patched.setattr(type(upkeep.link), name, silent)
        upkeep.start_over(set_back("the images differ"))
    with pytest.raises(StorageError, match="the images differ"):
        daemon.role.latest_image()


def test_another_namespace_is_not_recorded_as_a_loss(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.follow()
    upkeep = daemon.role._parts.upkeep
    theirs = upkeep.link.namespace()
    other = replace(theirs, storage_info=replace(theirs.storage_info, namespace_id=1))
    with monkeypatch.context() as patched, pytest.raises(StorageError, match="namespace"):
        patched.setattr(type(upkeep.link), "namespace", lambda self: other)
        upkeep.start_over(set_back("the images differ"))
    assert not (daemon.folder / START_OVER).exists()
    assert daemon.role.latest_image().exists()


def test_nothing_of_a_lost_past_is_served_or_offered(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(5)
        daemon.role.checkpoint(SilentObserver())
        image, root = daemon.role.latest_image(), daemon.folder.parent
        last = daemon.role.progress().image_txid
    begin_start_over(root, start_over_of([root], LOST_PAST, "the NameNode was set back"))
    with Daemon(config) as daemon:
        uses: tuple[Callable[[], object], ...] = (
            daemon.role.segments,
            lambda: next(daemon.role.operations(1, last)),
            daemon.role.latest_image,
            daemon.role.serving_folders,
            daemon.role.confirm_image,
            lambda: daemon.role._confirm(image, last),
        )
        for use in uses:
            with pytest.raises(StorageError, match="not used: the NameNode was set back"):
                use()
        assert daemon.role.progress().image_txid == -1
        daemon.follow(2)
        assert daemon.role.progress().image_txid >= 0
        assert daemon.role.details().lost_past is not None


@pytest.mark.parametrize("left", ["edits", "nothing"])
def test_node_starts_after_a_kill_that_left_no_image(namenode: NamenodeDouble, tmp_path: Path, left: str) -> None:
    """Without hard links, every image was moved; the segment of the running stream remained."""
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(5)
        root, current = daemon.folder.parent, daemon.folder
        open_segment = next(each.path for each in list_segments(current) if each.last is None)
        content = open_segment.read_bytes()
    begun = start_over_of([root], LOST_PAST, "the NameNode was set back")
    link_aside(root, begun)
    for path in [path for path in current.iterdir() if path.name.startswith(("fsimage", "edits", "provenance"))]:
        path.unlink()
    if left == "edits":
        open_segment.write_bytes(content)
    with Daemon(config) as daemon:
        assert daemon.role.progress().image_txid == -1
        assert daemon.service.request(force=True, wait=True).state is TriggerState.DONE
        lost = daemon.role.details().lost_past
        assert lost is not None
        assert lost.reason == "the NameNode was set back"
        assert list(lost.set_aside) == [root / LOST_PAST / begun.folder]
        daemon.follow(2)
        assert in_sync(daemon)
