"""A backup node whose images are all damaged sets them aside and continues from the NameNode's image."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.set_back.proof import set_back
from checkpointer.set_back.provenance import image_md5, read_provenances
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED
from checkpointer.storage.usable_images import all_damaged
from engine.observer import SilentObserver
from hadoop_common.durable import write_atomically
from hadoop_common.errors import StorageError
from hadoop_common.mapped_file import FailedDiskError
from hadoop_common.names import image_name, md5_name
from hadoop_rpc.errors import RpcTimeoutError
from image_format.errors import DigestMismatchError, ImageStorageError, UnreadableImageError, UnsupportedCodecError
from image_format.publish import place_image
from image_format.reader import ImageFile
from journal.segment_file import list_segments
from servlets.status import TriggerState
from tests.checkpointer.backup_support import (
    Daemon,
    assert_follows,
    assert_same_segments,
    config_for,
    images,
    in_sync,
    play,
)
from tests.checkpointer.storage_support import (
    Damage,
    damage_all,
    damage_content,
    damage_digest,
    damage_frame,
    put_image,
    unreadable,
)
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE
from tests.namenode_stub.stub_support import wait_until
from tests.recorded_cases import RECORDED, Case


def aside(daemon: Daemon) -> dict[str, bytes]:
    """Return the images that were set aside, by name."""
    (folder,) = (daemon.folder.parent / NOT_COMPARED).iterdir()
    return {path.name: path.read_bytes() for path in folder.glob("fsimage_*") if path.suffix != ".md5"}


def assert_started_over(namenode: NamenodeDouble, daemon: Daemon, damaged: dict[str, bytes]) -> None:
    """Check that the damaged images are set aside, and that the node continues from the NameNode's image."""
    started_over = daemon.role.details().lost_past
    assert started_over is not None
    assert started_over.reason.startswith("no image of this node is intact: ")
    assert aside(daemon) == damaged
    assert not (daemon.folder.parent / LOST_PAST).exists()
    assert images(daemon.folder) == [namenode.image_txids()[-1]]
    ours = daemon.role.latest_image()
    assert ours.read_bytes() == namenode.image(namenode.image_txids()[-1]).read_bytes()
    assert list(read_provenances([daemon.folder])) == [image_md5(ours)]


def assert_continues(namenode: NamenodeDouble, daemon: Daemon) -> None:
    assert_follows(namenode, daemon)
    assert namenode.image_txids()[-1] == images(daemon.folder)[-1]
    assert_same_segments(namenode, daemon)


# ---- a running node ----------------------------------------------------------------------------------------


def test_images_damaged_while_in_sync_are_replaced(namenode: NamenodeDouble, daemon: Daemon) -> None:
    """The image of the NameNode has the same name as the damaged image. The open segment remains, and its edits are not
    fetched.
    """
    namenode.started_at = 1000
    daemon.follow()
    namenode.write(5)
    damaged = damage_all(daemon.folder, damage_frame)
    (open_segment,) = list_segments(daemon.folder)
    daemon.follow()
    assert_started_over(namenode, daemon, damaged)
    assert [each.path for each in list_segments(daemon.folder)] == [open_segment.path]
    assert_continues(namenode, daemon)
    assert not [step for step in namenode.steps if step.startswith("segment-")]


@pytest.mark.parametrize("damage", [damage_content, damage_digest])
def test_images_that_fail_their_verification_while_in_sync_are_replaced(
    namenode: NamenodeDouble, tmp_path: Path, damage: Damage
) -> None:
    namenode.started_at = 1000
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config):
        pass
    with Daemon(config) as daemon:
        damaged = damage_all(daemon.folder, damage)

        def started_over() -> bool:
            daemon.follow()
            return daemon.role.details().lost_past is not None

        wait_until("the start over", started_over)
        assert_started_over(namenode, daemon, damaged)
        assert_continues(namenode, daemon)


def test_damaged_image_is_no_evidence_of_a_lost_past(namenode: NamenodeDouble, daemon: Daemon) -> None:
    """An image in the middle of a segment of the NameNode does not prove a set-back if its content is damaged."""
    daemon.follow()
    namenode.write(5)
    namenode.roll()
    newest = daemon.role.latest_image()
    last = namenode.segments()[-1].last
    assert last is not None
    damaged = put_image(daemon.folder, last - 1)
    damage_content(damaged)
    namenode.restart()
    daemon.follow(3)
    assert in_sync(daemon)
    assert daemon.role.details().lost_past is None
    assert daemon.role.latest_image() == newest
    assert damaged.exists()
    assert_continues(namenode, daemon)


def test_edits_next_to_damaged_images_are_a_lost_past(namenode: NamenodeDouble, daemon: Daemon) -> None:
    """The edits can undo an accidental restore of the NameNode, so `check` has to warn about them."""
    daemon.follow()
    namenode.write(5)
    written = namenode.written
    namenode.written -= 3
    # transactions in transit to other journals are not lost
    daemon.follow()
    damaged = damage_all(daemon.folder, damage_frame)
    daemon.follow()
    lost = daemon.role.details().lost_past
    assert lost is not None
    (folder,) = lost.set_aside
    assert folder.parent.name == LOST_PAST
    assert [each.last for each in list_segments(folder)] == [written]
    assert set(damaged) <= {path.name for path in folder.iterdir()}


def test_failed_start_over_is_repeated_and_causes_no_rolls(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest image has no counterpart at the NameNode, whose image is older."""
    namenode.started_at = 1000
    daemon.follow()
    namenode.write(5)
    daemon.role.checkpoint(SilentObserver())
    theirs, newest = images(daemon.folder)
    assert namenode.image_txids()[-1] == theirs < newest
    damaged = damage_all(daemon.folder, damage_frame)

    def broken(*_: object, **__: object) -> None:
        raise TransferError("nn", "the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr("checkpointer.roles.backup.follower.download_image", broken)
        begun = namenode.segment
        daemon.follow(3)
        assert daemon.role.alarms() == ["nn: the connection broke"]
        assert namenode.segment == begun
        assert daemon.role.details().lost_past is None
        assert {name: (daemon.folder / name).read_bytes() for name in damaged} == damaged
    daemon.follow()
    assert_started_over(namenode, daemon, damaged)
    assert_continues(namenode, daemon)


def test_fetched_image_that_cannot_be_loaded_is_fetched_and_set_aside_only_once(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image of the NameNode has the same name as the damaged image."""
    namenode.started_at = 1000
    daemon.follow()
    namenode.write(5)
    damage_all(daemon.folder, damage_frame)
    fetched = namenode.steps.count("image")

    def unreadable(*_: object, **__: object) -> None:
        raise UnsupportedCodecError("no codec", file="fsimage")

    with monkeypatch.context() as patched:
        patched.setattr("engine.warm_namespace.WarmNamespace.load", unreadable)
        daemon.follow(3)
        assert "this node recently started over" in daemon.role.alarms()[0]
        assert namenode.steps.count("image") == fetched + 1
        assert len(list((daemon.folder.parent / NOT_COMPARED).iterdir())) == 1
        assert list_segments(daemon.folder)[-1].last is None


def test_start_over_that_failed_before_the_fetch_is_repeated(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deep comparison found the cause; the next check compares less."""
    daemon.follow()
    upkeep = daemon.role._parts.upkeep

    def silent(*_: object) -> int:
        raise RpcTimeoutError("no answer")

    with monkeypatch.context() as patched, pytest.raises(RpcTimeoutError):
        patched.setattr(type(upkeep.link), "newest_image_txid", silent)
        upkeep.start_over(set_back("the images differ"))
    daemon.follow()
    started_over = daemon.role.details().lost_past
    assert started_over is not None
    assert "the images differ" in started_over.reason


def test_no_image_is_fetched_to_a_full_disk_if_all_are_damaged(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even the size of a damaged image shows how much space an image needs."""
    namenode.started_at = 1000
    daemon.follow()
    damaged = damage_all(daemon.folder, damage_frame)
    fetched, present = namenode.steps.count("image"), shutil.disk_usage(daemon.folder)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda path: present._replace(free=1 << 20))
        daemon.follow(3)
        assert f"has {1 << 20} bytes free" in daemon.role.alarms()[0]
        assert namenode.steps.count("image") == fetched
        assert not (daemon.folder.parent / NOT_COMPARED).exists()
    daemon.follow()
    assert_started_over(namenode, daemon, damaged)
    assert_continues(namenode, daemon)


def test_image_that_becomes_damaged_again_is_not_fetched_at_each_check(
    namenode: NamenodeDouble, daemon: Daemon
) -> None:
    daemon.follow()
    damage_all(daemon.folder, damage_frame)
    daemon.follow()
    assert in_sync(daemon)
    damage_all(daemon.folder, damage_frame)
    fetched = namenode.steps.count("image")
    daemon.follow(2)
    assert "this node recently started over" in daemon.role.alarms()[0]
    assert namenode.steps.count("image") == fetched


def test_fault_whose_text_counts_down_is_logged_once(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    daemon.follow()
    upkeep = daemon.role._parts.upkeep
    caplog.clear()
    for seconds in (60, 58, 9):
        upkeep.note(StorageError(f"this node recently started over, and will start over again in {seconds} s"))
        assert f"in {seconds} s" in upkeep.alarm
    assert len(caplog.records) == 1


# ---- a start -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [damage_frame, damage_content, damage_digest])
def test_node_whose_images_are_all_damaged_starts(namenode: NamenodeDouble, tmp_path: Path, damage: Damage) -> None:
    namenode.started_at = 1000
    config = config_for(namenode, tmp_path / "backup")
    with Daemon(config) as daemon:
        daemon.follow()
        namenode.write(5)
        daemon.checkpoint()
        namenode.write(3)
    damaged = damage_all(daemon.folder, damage)
    namenode.stop()
    with Daemon(config) as daemon:
        daemon.follow()
        assert "127.0.0.1" in daemon.role.alarms()[0]
        assert "every copy of the newest image is damaged" in daemon.service.poll().message
        assert {name: (daemon.folder / name).read_bytes() for name in damaged} == damaged
        assert not (daemon.folder.parent / NOT_COMPARED).exists()
        namenode.start()
        daemon.follow()
        assert_started_over(namenode, daemon, damaged)
        assert_continues(namenode, daemon)
    # everything that was set aside can be examined, including the edits of the previous run
    (folder,) = (daemon.folder.parent / NOT_COMPARED).iterdir()
    assert list_segments(folder)


def test_every_directory_receives_the_image_with_the_same_name(namenode: NamenodeDouble, tmp_path: Path) -> None:
    roots = (tmp_path / "a", tmp_path / "b")
    config = config_for(namenode, tmp_path / "a", image_directories=roots)
    with Daemon(config):
        pass
    (name,) = damage_all(roots[0] / "current", damage_content)
    damage_all(roots[1] / "current", damage_frame)
    theirs = namenode.image(namenode.image_txids()[-1])
    with Daemon(config) as daemon:
        daemon.follow()
        for root in roots:
            assert (root / "current" / name).read_bytes() == theirs.read_bytes()
            assert image_md5(root / "current" / name) == image_md5(theirs)
            assert list((root / NOT_COMPARED).glob(f"*/{name}"))
        assert_continues(namenode, daemon)


def test_directory_that_cannot_store_the_image_is_not_used(
    namenode: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, its damaged image would count as a copy of the NameNode's image."""
    roots = (tmp_path / "a", tmp_path / "b")
    config = config_for(namenode, tmp_path / "a", image_directories=roots)
    with Daemon(config):
        pass
    for root in roots:
        (name,) = damage_all(root / "current", damage_content)

    def place(unfinished: Path, target: Path, md5: bytes) -> None:
        if target.is_relative_to(roots[0]):
            raise OSError(errno.ENOSPC, "No space left on device")
        place_image(unfinished, target, md5)

    with Daemon(config) as daemon:
        with monkeypatch.context() as patched:
            patched.setattr("servlets.received_files.place_image", place)
            daemon.follow()
        assert "No space left" in daemon.role.storage()[str(roots[0])]
        assert daemon.role.latest_image() == roots[1] / "current" / name
        assert_follows(namenode, daemon)


# ---- a node without a stream -------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [damage_frame, damage_content])
def test_node_that_receives_no_stream_replaces_damaged_images(
    namenode: NamenodeDouble, tmp_path: Path, damage: Damage
) -> None:
    namenode.started_at, namenode.reaches_nodes = 1000, False
    with Daemon(config_for(namenode, tmp_path / "backup")) as daemon:
        play(namenode)
        daemon.follow()
        damaged = damage_all(daemon.folder, damage)
        results = []
        for _ in range(2):
            results.append(daemon.service.request(force=True, wait=True).state)
            daemon.follow()
        assert results == [TriggerState.FAILED, TriggerState.DONE]
        assert aside(daemon) == damaged
        newest = namenode.image_txids()[-1]
        assert images(daemon.folder)[-1] == newest
        found = Case(RECORDED / DEFAULT_CASE).differences(namenode.image(newest))
        # the second checkpoint begins with another roll
        assert [each for each in found if not each.startswith("NS_INFO field 6")] == []


# ---- proof of the damage -----------------------------------------------------------------------------------


def test_image_that_cannot_be_read_is_not_replaced(
    namenode: NamenodeDouble, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.follow()
    namenode.write(5)
    daemon.role.checkpoint(SilentObserver())
    older, newest = (daemon.folder / image_name(txid) for txid in images(daemon.folder))
    damage_frame(older)
    # otherwise, the known file would not be opened
    write_atomically(newest, newest.read_bytes())
    with unreadable(newest, monkeypatch):
        daemon.follow(2)
        assert "Permission denied" in daemon.role.alarms()[0]
    assert daemon.role.details().lost_past is None
    daemon.follow(2)
    assert in_sync(daemon)
    assert daemon.role.latest_image() == newest
    assert not (daemon.folder.parent / NOT_COMPARED).exists()


def test_only_damaged_content_is_proof(tmp_path: Path) -> None:
    assert not all_damaged([tmp_path])
    first, second = (put_image(tmp_path, txid) for txid in (5, 9))
    damage_frame(first)
    assert not all_damaged([tmp_path])
    damage_digest(second)
    assert all_damaged([tmp_path])
    assert not all_damaged([tmp_path, tmp_path / "missing"])
    second.with_name(md5_name(second.name)).unlink()
    assert not all_damaged([tmp_path])


@pytest.mark.parametrize(
    ("fault", "proved"),
    [
        (DigestMismatchError("another digest"), True),
        (UnreadableImageError("Input/output error"), False),
        (FailedDiskError("the disk failed"), False),
        (ImageStorageError("Permission denied"), False),
    ],
)
def test_failed_disk_is_no_proof(
    tmp_path: Path, fault: Exception, proved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_image(tmp_path, 5)

    def fail(*_: object, **__: object) -> ImageFile:
        raise fault

    monkeypatch.setattr(ImageFile, "open", fail)
    assert all_damaged([tmp_path]) == proved
