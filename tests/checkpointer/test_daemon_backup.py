"""The backup role against a NameNode that streams a recorded case, over real sockets."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpointer.errors import RoleGaveUpError
from checkpointer.roles.backup.role import BackupRole
from checkpointer.roles.backup.states import BackupState
from checkpointer.storage.inspector import list_images
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.observer import SilentObserver
from engine.settings import MergeSettings, ReplayRules
from hadoop_common.errors import StorageError
from hadoop_rpc.errors import RemoteError, RpcError
from hadoop_rpc.journal_protocol import JournalClient, JournalInfo
from image_format.reader import ImageFile
from journal.segment_file import list_segments
from servlets.status import TriggerState
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.backup_support import Daemon, assert_same_segments, backup_config, in_sync, play
from tests.checkpointer.fake_namenode import DEFAULT_CASE
from tests.checkpointer.streaming_namenode import StreamingNamenode
from tests.recorded_cases import RECORDED, Case, replications

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)


@pytest.fixture
def namenode(tmp_path: Path) -> Iterator[StreamingNamenode]:
    with StreamingNamenode(tmp_path / "nn") as running:
        yield running


def config_for(namenode: StreamingNamenode, folder: Path, **changes: Any) -> CheckpointConfig:
    return replace(backup_config(folder, namenode.rpc_port, namenode.http_port), **changes)


@pytest.fixture
def daemon(namenode: StreamingNamenode, tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(config_for(namenode, tmp_path / "backup")) as running:
        yield running


def images(folder: Path) -> list[int]:
    return [image.txid for image in list_images(folder)]


# ---- the whole way -----------------------------------------------------------------------------------------


def test_a_new_backup_follows_the_stream_and_makes_the_checkpoint(namenode: StreamingNamenode, daemon: Daemon) -> None:
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
    # the stream delivered all of it
    assert not [step for step in namenode.steps if step.startswith("segment-")]
    assert_same_segments(namenode, daemon)


def test_the_namenode_is_told_when_the_daemon_stops(namenode: StreamingNamenode, tmp_path: Path) -> None:
    with Daemon(config_for(namenode, tmp_path / "backup")) as daemon:
        daemon.follow()
        namenode.write(5)
        assert namenode.streams
    assert namenode.reports == [(1, "Shutting down.")]
    assert not namenode.streams
    assert [each.in_progress for each in list_segments(daemon.folder)] == [True]


def test_a_second_life_goes_on_where_the_first_ended(namenode: StreamingNamenode, tmp_path: Path) -> None:
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


def test_checkpoints_come_by_the_service(namenode: StreamingNamenode, tmp_path: Path) -> None:
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


def test_a_checkpoint_node_fetches_what_it_needs(namenode: StreamingNamenode, tmp_path: Path) -> None:
    with Daemon(config_for(namenode, tmp_path / "backup"), streaming=False) as daemon:
        daemon.follow(2)
        assert (daemon.role.alarms(), namenode.streams) == ([], {})
        namenode.roll()
        play(namenode)
        assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
        assert len(namenode.ended) == 1


# ---- faults of the stream ----------------------------------------------------------------------------------


def test_a_namenode_that_was_restarted_is_registered_with_again(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(5)
    namenode.restart()
    daemon.follow(3)
    assert in_sync(daemon)
    assert namenode.steps.count("registerSubordinateNamenode") == 2
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
    assert_same_segments(namenode, daemon)


def test_segments_that_did_not_come_are_fetched(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(3)
    namenode.roll(streamed=False)
    namenode.roll(streamed=False)
    daemon.follow(3)
    assert in_sync(daemon)
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
    assert_same_segments(namenode, daemon)


def test_a_gap_at_the_beginning_of_a_segment_is_closed(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(3)
    namenode.roll(streamed=False)
    namenode.roll()
    assert daemon.state == BackupState.JOURNAL_ONLY.value
    daemon.follow()
    assert in_sync(daemon)
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []


TAMPERS: dict[str, Callable[[int, int, bytes], tuple[int, int, bytes]]] = {
    "garbage": lambda first, count, records: (first, count, b"\x05" + bytes(40)),
    "flipped": lambda first, count, records: (first, count, records[:-1] + bytes([records[-1] ^ 1])),
    "cut": lambda first, count, records: (first, count, records[:-3]),
    "empty": lambda first, count, records: (first, 0, b""),
    "count": lambda first, count, records: (first, count + 1, records),
    "gap": lambda first, count, records: (first + 1, count, records),
    "again": lambda first, count, records: (first - 1, count, records),
}


@pytest.mark.parametrize("kind", TAMPERS)
def test_a_bad_batch_is_refused_whole_and_the_stream_starts_over(
    kind: str, namenode: StreamingNamenode, daemon: Daemon
) -> None:
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
    assert in_sync(daemon)
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
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
def test_somebody_elses_edits_change_nothing(
    change: dict[str, Any], epoch: int, java_class: str, namenode: StreamingNamenode, daemon: Daemon
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


def test_what_a_namenode_lost_is_set_aside(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(5)
    written = namenode.written
    namenode._written -= 3
    # transactions in transit to other journals are not lost
    daemon.follow()
    assert in_sync(daemon)
    before = daemon.role.latest_image().name
    daemon.follow()
    begun = daemon.service.status()["lostPast"]
    assert f"edits up to {written} are here" in begun["reason"]
    (folder,) = map(Path, begun["setAside"])
    assert (folder / before).is_file()
    (lost,) = list_segments(folder)
    assert lost.last == written
    daemon.follow(2)
    assert in_sync(daemon)


def test_a_namenode_in_safe_mode_is_waited_for(namenode: StreamingNamenode, daemon: Daemon) -> None:
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


def test_a_poll_that_is_due_with_every_look_keeps_none_from_it(namenode: StreamingNamenode, daemon: Daemon) -> None:
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


def test_a_namenode_that_cannot_connect_is_told_of(namenode: StreamingNamenode, daemon: Daemon) -> None:
    namenode.faults["registerSubordinateNamenode"] = RemoteError("no", class_name="java.io.IOException")
    daemon.follow()
    assert daemon.role.alarms()
    namenode.faults.clear()
    daemon.follow()
    assert in_sync(daemon)


# ---- checkpoints -------------------------------------------------------------------------------------------


def test_the_stream_goes_on_while_an_image_is_saved(namenode: StreamingNamenode, daemon: Daemon) -> None:
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


def test_a_namenode_that_wants_us_to_stop_ends_the_daemon(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    namenode.refuses_checkpoints = True
    with pytest.raises(RoleGaveUpError, match="wants this backup node to stop"):
        daemon.role.checkpoint(SilentObserver())


@pytest.mark.parametrize("step", ["startCheckpoint", "upload", "endCheckpoint"])
def test_a_checkpoint_that_fails_at_the_namenode_is_made_at_the_next_attempt(
    step: str, namenode: StreamingNamenode, daemon: Daemon
) -> None:
    daemon.follow()
    namenode.faults[step] = 500 if step == "upload" else "cut"
    daemon.service.request(force=True, wait=True)
    daemon.follow(2)
    assert in_sync(daemon)
    namenode.faults.clear()
    play(namenode)
    result = daemon.service.request(force=True, wait=True)
    assert result.details["uploads"] == {namenode.url: "SUCCESS"}
    image = next(daemon.folder.glob(f"fsimage_{namenode.recorded_end:019d}"))
    assert Case(RECORDED / DEFAULT_CASE).differences(image) == []
    assert namenode.ended[-1].current_segment_txid == namenode.recorded_end + 1


def test_no_image_is_returned_that_is_not_wanted(namenode: StreamingNamenode, daemon: Daemon) -> None:
    namenode.need_to_return_image = False
    daemon.follow()
    daemon.role.checkpoint(SilentObserver())
    assert list(daemon.role.upload(lambda: False, force=False)) == []
    assert len(namenode.ended) == 1


# ---- storage -----------------------------------------------------------------------------------------------


def test_another_namespace_is_refused_at_the_start(namenode: StreamingNamenode, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    namenode.upgrade(namespace_id=namenode.info.namespace_id + 1)
    with pytest.raises(StorageError, match="namespace_id"), Daemon(config):
        pass


def test_a_new_storage_needs_the_namenode(namenode: StreamingNamenode, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    namenode.faults["image"] = 410
    with pytest.raises(CheckpointError), Daemon(config):
        pass
    namenode.stop()
    with pytest.raises(RpcError), Daemon(config):
        pass
    assert not (tmp_path / "backup" / "current").exists()
    namenode.faults.clear()
    namenode.start()
    with Daemon(config) as daemon:
        daemon.follow()
        assert in_sync(daemon)


def test_it_starts_while_the_namenode_is_down(namenode: StreamingNamenode, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    namenode.stop()
    with Daemon(config) as daemon:
        daemon.follow()
        assert daemon.role.alarms()
        namenode.start()
        daemon.follow(2)
        assert in_sync(daemon)


def test_an_image_that_is_too_old_is_fetched_again(namenode: StreamingNamenode, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    with Daemon(config_for(namenode, tmp_path / "other")) as other:
        other.follow()
        for _ in range(3):
            namenode.write(10)
            other.checkpoint()
    assert namenode.known_logs()[0].first > images(tmp_path / "backup/current")[-1] + 1
    with Daemon(config) as daemon:
        daemon.follow()
        assert in_sync(daemon)
        play(namenode)
        assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []


def test_an_upgraded_namenode_is_started_over_with(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    namenode.write(3)
    namenode.upgrade(c_time=77)
    namenode.restart()
    daemon.follow(4)
    assert in_sync(daemon)
    assert daemon.role.storage_info().c_time == 77


def test_a_namenode_with_newer_software_is_followed_during_a_rolling_upgrade(
    namenode: StreamingNamenode, daemon: Daemon
) -> None:
    namenode.layouts_ahead = 1
    daemon.follow()
    assert in_sync(daemon)
    play(namenode)
    assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
    namenode.restart()
    daemon.follow(4)
    assert in_sync(daemon)


@pytest.mark.parametrize("seed", range(4))
def test_random_lives(seed: int, namenode: StreamingNamenode, daemon: Daemon) -> None:
    """Batches, rolls, cuts, restarts and checkpoints in any order; the image at the end is Hadoop's."""
    rng = random.Random(seed)
    namenode.batches = lambda count: _sizes(count, rng)
    while namenode.written < namenode.recorded_end - 1:
        _act(rng, namenode, daemon)
    daemon.follow(4)
    assert in_sync(daemon)
    found = Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint())
    # the image may end some empty segments later
    assert [each for each in found if not each.startswith("NS_INFO field 6")] == []
    assert_same_segments(namenode, daemon)


def _sizes(count: int, rng: random.Random) -> Iterator[int]:
    while count:
        size = rng.randint(1, count)
        yield size
        count -= size


def _act(rng: random.Random, namenode: StreamingNamenode, daemon: Daemon) -> None:
    choice = rng.random()
    if choice < 0.55:
        namenode.write(rng.randint(1, 30))
    elif choice < 0.7:
        daemon.follow()
    elif choice < 0.8:
        namenode.roll(streamed=rng.random() < 0.7)
    elif choice < 0.9:
        kind = rng.choice(list(TAMPERS))
        good, namenode.tamper = namenode.tamper, TAMPERS[kind]
        namenode.write(rng.randint(1, 4))
        namenode.tamper = good
    elif choice < 0.95:
        namenode.restart()
    else:
        daemon.follow(3)
        daemon.service.request(force=True, wait=True)


def test_a_storage_directory_that_fails_is_left_out(namenode: StreamingNamenode, tmp_path: Path) -> None:
    folders = (tmp_path / "a", tmp_path / "b")
    config = config_for(namenode, tmp_path / "a", image_directories=folders, restore_directories=True)
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(3)
        shutil.rmtree(folders[1] / "current")
        namenode.roll()
        assert in_sync(daemon)
        daemon.follow()
        assert daemon.role.storage()[str(folders[0])] == "in use"
        assert "No such file" in daemon.role.storage()[str(folders[1])]
        # it is created again if an operator wants it, and is complete with the next image
        (folders[1] / "current").mkdir()
        result = daemon.service.request(force=True, wait=True)
        assert result.state is TriggerState.DONE
        assert set(daemon.role.storage().values()) == {"in use"}
        assert images(folders[1] / "current") == [result.details["txid"]]
        play(namenode)
        assert Case(RECORDED / DEFAULT_CASE).differences(daemon.checkpoint()) == []
        assert_same_segments(namenode, daemon)


def test_a_layout_that_does_not_fit_the_image_is_started_over_with(namenode: StreamingNamenode, tmp_path: Path) -> None:
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    # VERSION was written after an upgrade, and the process was killed before it had the image
    version = tmp_path / "backup/current/VERSION"
    version.write_text(version.read_text().replace("layoutVersion=-63", "layoutVersion=-64"))
    namenode.upgrade(layout_version=-64)
    before = namenode.steps.count("image")
    with Daemon(config) as daemon:
        daemon.follow()
        assert namenode.steps.count("image") == before + 1


def test_images_have_the_layout_of_a_finalized_rolling_upgrade(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    play(namenode)
    namenode.upgrade(layout_version=-66)
    namenode.restart()
    daemon.follow(4)
    assert in_sync(daemon)
    daemon.role.reconfigure(daemon.config)
    for _ in range(2):
        with ImageFile.open(daemon.checkpoint()) as image:
            assert image.layout_version == -66


def test_new_settings_hold_from_the_next_checkpoint_on(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    codec = "org.apache.hadoop.io.compress.GzipCodec"
    daemon.role.reconfigure(replace(daemon.config, merge_settings=MergeSettings(codec=codec), transfer_timeout=7.0))
    with ImageFile.open(daemon.checkpoint()) as image:
        assert image.codec == codec


def test_new_rules_of_replay_hold_for_all_edits_after_the_newest_image(
    namenode: StreamingNamenode, daemon: Daemon
) -> None:
    """As in a NameNode that starts with the new setting; streamed edits were replayed by the old one."""
    before = replications(daemon.role.latest_image())
    daemon.follow()
    play(namenode)
    assert in_sync(daemon)
    rules = ReplayRules(max_replication=1)
    daemon.role.reconfigure(replace(daemon.config, merge_settings=MergeSettings(rules=rules)))
    found = replications(daemon.checkpoint())
    assert {factor for number, factor in found.items() if number not in before} == {1}


def test_a_new_timeout_holds_for_the_next_call(namenode: StreamingNamenode, daemon: Daemon) -> None:
    daemon.follow()
    daemon.role.reconfigure(replace(daemon.config, rpc_timeout=3.0))
    daemon.follow()
    assert in_sync(daemon)
    namenode.faults["startCheckpoint"] = "hang"
    with pytest.raises(RpcError, match=r"within 3 s"):
        daemon.role.checkpoint(SilentObserver())
    namenode.faults.clear()
    namenode.release()
    daemon.follow(3)
    assert in_sync(daemon)


def test_a_start_is_cancelled_while_the_first_image_comes(namenode: StreamingNamenode, tmp_path: Path) -> None:
    role = BackupRole(config_for(namenode, tmp_path / "backup"))
    with pytest.raises(CheckpointCancelledError):
        role.open(lambda: True)
    assert not (tmp_path / "backup/current").exists()


def test_a_checkpoint_is_cancelled_while_edits_are_fetched(namenode: StreamingNamenode, tmp_path: Path) -> None:
    class Cancelled(SilentObserver):
        def cancelled(self) -> bool:
            return True

    with Daemon(config_for(namenode, tmp_path / "backup"), streaming=False) as daemon:
        daemon.follow()
        namenode.roll()
        with pytest.raises(CheckpointCancelledError):
            daemon.role.checkpoint(Cancelled())
        assert len(images(daemon.folder)) == 1
        assert daemon.checkpoint().exists()
