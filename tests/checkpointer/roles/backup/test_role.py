"""A backup daemon of a NameNode that streams edits: normal operation, faults of the stream, and checkpoints."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.errors import RemoteError
from hadoop_rpc.journal_protocol import JournalClient, JournalInfo
from tests.checkpointer.backup_support import Daemon, assert_same_segments, config_for, images, in_sync, play
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.recorded_cases import RECORDED, Case

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)


# ---- normal operation --------------------------------------------------------------------------------------


def test_new_backup_node_follows_the_stream_and_makes_a_checkpoint(namenode: NamenodeDouble, daemon: Daemon) -> None:
    base = namenode.image_txids()[-1]
    assert images(daemon.folder) == [base]
    daemon.follow()
    assert in_sync(daemon)
    namenode.batches = lambda count: iter([7] * (count // 7) + [count % 7])
    play(namenode)
    assert in_sync(daemon)
    assert daemon.role.details().stream_txid == namenode.written == namenode.recorded_end - 1
    image = daemon.checkpoint()
    assert in_sync(daemon)
    assert Case(RECORDED / DEFAULT_CASE).differences(image) == []
    assert images(namenode.folder) == images(daemon.folder) == [base, namenode.recorded_end]
    assert [each.current_segment_txid for each in namenode.ended] == [namenode.recorded_end + 1]
    # the stream delivered all edits
    assert not [step for step in namenode.steps if step.startswith("segment-")]
    assert_same_segments(namenode, daemon)


def test_restarted_daemon_continues_where_it_stopped(namenode: NamenodeDouble, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config) as first:
        first.follow()
        namenode.write(5)
    with Daemon(config) as second:
        assert second.role.progress().journal_txid == namenode.written
        namenode.write(3)
        second.follow()
        assert in_sync(second)
        play(namenode)
        assert Case(RECORDED / DEFAULT_CASE).differences(second.checkpoint()) == []
        assert_same_segments(namenode, second)


@pytest.mark.parametrize(
    ("change", "epoch", "java_class"),
    [
        ({"cluster_id": "CID-other"}, 0, "UnregisteredNodeException"),
        ({"namespace_id": 7}, 0, "UnregisteredNodeException"),
        ({"layout_version": -60}, 0, "IncorrectVersionException"),
        ({}, 1, "FencedException"),
    ],
)
def test_edits_of_another_sender_are_rejected(
    change: dict[str, Any], epoch: int, java_class: str, namenode: NamenodeDouble, daemon: Daemon
) -> None:
    daemon.follow()
    info = replace(JournalInfo.of(namenode.info), **change)
    before = daemon.role.details()
    (address,) = namenode.streams
    with JournalClient("127.0.0.1", int(address.rpartition(":")[2]), user="x") as other:
        with pytest.raises(RemoteError) as caught:
            other.journal(info, epoch, namenode.written + 1, 1, b"\x00")
        assert caught.value.class_name.endswith(java_class)
        with pytest.raises(RemoteError):
            other.start_log_segment(info, epoch, namenode.written + 1)
    assert daemon.role.details() == before
    namenode.write(2)
    assert in_sync(daemon)


class _WatchedLock:
    """A lock that reports when a thread has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.wanted = threading.Event()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        self.wanted.set()
        return blocking and self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def test_frequent_polls_do_not_prevent_following(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.safe_mode()
    daemon.follow()
    namenode.faults.clear()
    lock = _WatchedLock()
    daemon.role._work = lock  # type: ignore[assignment]
    with lock:
        look = threading.Thread(target=daemon.follow)
        look.start()
        assert lock.wanted.wait(600)
    look.join(600)
    assert in_sync(daemon)
