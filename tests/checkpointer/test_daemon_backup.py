"""A backup daemon of a NameNode that streams edits: normal operation, faults of the stream, and checkpoints."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpointer.errors import RoleGaveUpError
from checkpointer.roles.backup.states import BackupState
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.lost_pasts import folders_aside
from engine.observer import SilentObserver
from hadoop_rpc.errors import RemoteError
from hadoop_rpc.journal_protocol import JournalClient, JournalInfo
from journal.segment_file import list_segments
from servlets.status import TriggerState
from tests.checkpointer.backup_support import (
    TAMPERS,
    Daemon,
    assert_follows,
    assert_same_segments,
    config_for,
    daemon,
    images,
    in_sync,
    namenode,
    play,
)
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.recorded_cases import RECORDED, Case

__all__ = ["daemon", "namenode"]

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


def test_stop_of_the_daemon_is_reported_to_the_namenode(namenode: NamenodeDouble, tmp_path: Path) -> None:
    with Daemon(config_for(namenode, tmp_path / "backup")) as daemon:
        daemon.follow()
        namenode.write(5)
        assert namenode.streams
    assert namenode.reports == [(1, "Shutting down.")]
    assert not namenode.streams
    assert [each.in_progress for each in list_segments(daemon.folder)] == [True]


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


# ---- faults of the stream ----------------------------------------------------------------------------------


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


def test_segments_missing_in_the_stream_are_fetched(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(3)
    namenode.roll(streamed=False)
    namenode.roll(streamed=False)
    daemon.follow(3)
    assert_follows(namenode, daemon)
    assert_same_segments(namenode, daemon)


def test_gap_before_a_streamed_segment_is_closed(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(3)
    namenode.roll(streamed=False)
    namenode.roll()
    assert daemon.state == BackupState.JOURNAL_ONLY.value
    daemon.follow()
    assert_follows(namenode, daemon)


@pytest.mark.parametrize("kind", TAMPERS)
def test_damaged_batch_is_rejected_and_the_stream_restarts(kind: str, namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(5)
    good, namenode.tamper = namenode.tamper, TAMPERS[kind]
    before = daemon.role.details().stream_txid
    namenode.write(4)
    namenode.tamper = good
    (stream,) = namenode.streams.values()
    assert (stream.active, len(stream.faults)) == (False, 1)
    assert (daemon.role.details().stream_txid, daemon.state) == (before, BackupState.DROP_UNTIL_NEXT_ROLL.value)
    daemon.follow()
    assert_follows(namenode, daemon)
    assert_same_segments(namenode, daemon)


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


def test_edits_that_the_namenode_lost_are_set_aside(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(5)
    written = namenode.written
    namenode.written -= 3
    # transactions in transit to other journals are not lost
    daemon.follow()
    assert in_sync(daemon)
    before = daemon.role.latest_image().name
    daemon.follow()
    begun = daemon.service.status()["lostPast"]
    assert f"this node has edits up to {written}" in begun["reason"]
    (folder,) = map(Path, begun["setAside"])
    assert (folder / before).is_file()
    (lost,) = list_segments(folder)
    assert lost.last == written
    daemon.follow(2)
    assert in_sync(daemon)


@pytest.mark.parametrize("links", [True, False])
def test_whole_lost_past_is_kept_in_one_folder_if_the_daemon_is_killed_after_each_fetch(
    namenode: NamenodeDouble, tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(1, "not permitted")))
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(5)
        written = namenode.written
        namenode.written -= 3
        daemon.follow()
        ours = daemon.role.latest_image()
        content, root = ours.read_bytes(), daemon.folder.parent
    for _ in range(3):
        with monkeypatch.context() as killed, Daemon(config) as daemon:
            killed.setattr(StorageDirectories, "finish_start_over", die)
            with pytest.raises(KeyboardInterrupt):
                daemon.follow(2)
        (folder,) = folders_aside(root)
        assert (folder / ours.name).read_bytes() == content
        assert [segment.last for segment in list_segments(folder)] == [written]
    with Daemon(config) as daemon:
        daemon.follow(2)
        begun = daemon.service.status()["lostPast"]
        assert "our segment" in begun["reason"] or f"has edits up to {written}" in begun["reason"]
        assert begun["setAside"] == [str(folder)]
        daemon.follow(2)
        assert in_sync(daemon)
    assert folders_aside(root) == (folder,)
    assert [segment.last for segment in list_segments(folder)] == [written]


def test_daemon_waits_for_a_namenode_in_safe_mode(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.safe_mode()
    daemon.follow()
    assert "safe mode" in daemon.role.alarms()[0]
    namenode.faults.clear()
    daemon.follow()
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


def test_refused_registration_is_an_alarm(namenode: NamenodeDouble, daemon: Daemon) -> None:
    namenode.faults["registerSubordinateNamenode"] = RemoteError("no", class_name="java.io.IOException")
    daemon.follow()
    assert daemon.role.alarms()
    namenode.faults.clear()
    daemon.follow()
    assert in_sync(daemon)


def test_namenode_that_cannot_stream_is_rarely_asked_to_roll(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Kerberos, a NameNode cannot stream its edits, because it cannot log in to a backup node."""
    rolls = 0
    real = namenode.roll

    def silent(**_: bool) -> int:
        nonlocal rolls
        rolls += 1
        return real(streamed=False)

    with monkeypatch.context() as patched:
        patched.setattr(namenode, "roll", silent)
        for _ in range(8 * 60):
            daemon.now += 60.0
            daemon.role.follow()
        assert "no stream of edits arrived at this node" in daemon.role.alarms()[0]
        # the first rolls are requested in quick succession; later, one roll is requested per period
        assert 8 <= rolls <= 20
    # the roll of a checkpoint begins the stream
    daemon.role.checkpoint(SilentObserver())
    daemon.role.follow()
    assert in_sync(daemon)


# ---- checkpoints -------------------------------------------------------------------------------------------


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


def test_daemon_stops_if_the_namenode_requires_it(namenode: NamenodeDouble, daemon: Daemon) -> None:
    daemon.follow()
    namenode.refuses_checkpoints = True
    with pytest.raises(RoleGaveUpError, match="requires this backup node to stop"):
        daemon.role.checkpoint(SilentObserver())


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
