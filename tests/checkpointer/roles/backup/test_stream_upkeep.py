"""How a backup node repairs its stream: its pace, missing segments, damaged batches, and lost pasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.roles.backup.states import BackupState
from checkpointer.roles.backup.stream_upkeep import UpkeepPace
from checkpointer.set_back.proof import set_back
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.lost_pasts import folders_aside
from engine.observer import SilentObserver
from hadoop_common.back_off import BackOff
from hadoop_common.errors import HdfsError, StorageError
from image_format.errors import UnsupportedLayoutError
from journal.segment_file import list_segments
from tests.checkpointer.backup_support import TAMPERS, Daemon, assert_follows, assert_same_segments, config_for, in_sync
from tests.namenode_stub.namenode_double import NamenodeDouble


def test_waits_double_up_to_a_maximum() -> None:
    now = 100.0
    pace = UpkeepPace(BackOff(2.0, 10.0), BackOff(2.0, 30.0), lambda: now)
    waits = []
    for _ in range(5):
        assert pace.due()
        pace.failed(at_once=False)
        began = now
        while not pace.due():
            now += 0.5
        waits.append(now - began)
    assert waits == [2.0, 4.0, 8.0, 10.0, 10.0]
    pace.failed(at_once=True)
    assert pace.due()
    pace.succeeded()
    pace.failed(at_once=False)
    now += 2.0
    assert pace.due()


def test_stream_is_stalled_if_known_transactions_did_not_arrive() -> None:
    pace = UpkeepPace(BackOff(2.0, 10.0), BackOff(2.0, 30.0), lambda: 0.0)
    assert not pace.stalled(10, 12)
    assert not pace.stalled(11, 12)
    assert pace.stalled(11, 12)
    assert not pace.stalled(12, 12)
    assert not pace.stalled(12, 12)


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


@pytest.mark.parametrize(
    ("fault", "alarm"),
    [
        (StorageError("another namespace"), "another namespace"),
        (UnsupportedLayoutError("the layout is too new"), "the layout is too new"),
    ],
)
def test_namenode_of_another_namespace_or_layout_leaves_no_start_over(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, fault: HdfsError, alarm: str
) -> None:
    upkeep = daemon.role._parts.upkeep
    daemon.follow()

    def refuse() -> None:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "_check_namespace", refuse)
        with pytest.raises(type(fault), match=alarm):
            upkeep.start_over(set_back("it has fewer transactions"))
    assert daemon.state == "dropUntilNextRoll"
    assert upkeep._unfinished is None
    assert daemon.role.details().lost_past is None
    daemon.follow(3)
    assert in_sync(daemon)
