"""The standby between its checkpoints: it follows the edits, requests rolls, and handles a rolling upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkpointer.roles.standby.folder_edits as view_module
from checkpointer.storage.rollback_images import latest_rollback_image, promote_rollback_images
from hadoop_common.names import image_name
from image_format.md5_file import md5_path
from image_format.reader import ImageFile
from journal.ops import EditOp, RollingUpgradeStartOp
from journal.segment_file import list_segments
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import (
    TRANSACTIONS,
    Daemon,
    config_for,
    daemon,
    daemon_of,
    follow_rolling_upgrade,
    images,
    rollbacks,
    stub,
    stub_config,
    write_edits,
)
from tests.checkpointer.storage_support import refuse_to_load

__all__ = ["daemon", "stub", "stub_config"]

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)

ROLL = 120.0


# ---- following ---------------------------------------------------------------------------------------------


def test_edits_are_applied_before_the_checkpoint(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    first = write_edits(stub, "a", 2)
    assert not daemon.role.tail()
    assert daemon.service.status()["appliedTxid"] == daemon.service.status()["sourceTxid"] == first
    last = write_edits(stub, "b", 20)
    assert daemon.service.status()["appliedTxid"] == first
    assert daemon.service.poll().details["txid"] == last
    status = daemon.service.status()
    assert (status["appliedTxid"], status["tailingLagTransactions"], status["alarms"]) == (last, 0, [])
    assert status["tailingLagSeconds"] >= 0
    # the next checkpoint continues with the kept state
    last = write_edits(stub, "c", 20)
    result = daemon.service.poll()
    assert (result.details["txid"], result.details["transactions"]) == (last, 23)
    ours, theirs = (tmp_path / each / f"current/fsimage_{last:019d}" for each in ("nn2", "active/name"))
    assert ours.read_bytes() == theirs.read_bytes()


def test_standby_continues_from_an_older_image_if_the_newest_is_unloadable(
    stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        write_edits(stub, "a")
        newest = daemon.service.poll().details["txid"]
    refuse_to_load(monkeypatch, tmp_path / "nn2/current" / image_name(newest))
    with daemon_of(stub, tmp_path) as daemon:
        last = write_edits(stub, "b")
        failed = daemon.service.request(force=True, wait=True)
        assert (failed.state, "no NameNode loads it" in failed.message) == (TriggerState.FAILED, True)
        assert not daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == last
        result = daemon.service.request(force=True, wait=True)
        assert (result.state, result.details["txid"]) == (TriggerState.DONE, last), result


def test_open_segment_is_read_with_in_progress_tailing(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, tail_in_progress=True) as daemon:
        for number in range(2 * TRANSACTIONS):
            stub.namespace.mkdirs(f"/open/{number}")
            daemon.role.tail()
            assert daemon.service.status()["appliedTxid"] == stub.namespace.transactions.log.durable_txid
        last = stub.namespace.transactions.log.last_txid
        assert daemon.service.poll().details["txid"] == last
        assert images(tmp_path / "nn2")[-1] == last
        end = write_edits(stub, "b")
        # START_LOG_SEGMENT of the next segment is a transaction too
        assert daemon.service.poll().details["txid"] == end + 1
        assert daemon.service.status()["openSegmentFault"] == ""


def test_damaged_open_segment_is_read_once_it_is_complete(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, tail_in_progress=True) as daemon:
        stub.namespace.mkdirs("/a")
        daemon.role.tail()
        applied = daemon.service.status()["appliedTxid"]
        segment = next(s for s in list_segments(tmp_path / "active/shared/current") if s.in_progress).path
        for number in range(5):
            stub.namespace.mkdirs(f"/b{number}")
        content = segment.read_bytes()
        middle = content.index(b"/b1")
        segment.write_bytes(content[:middle] + b"\xee" * 3 + content[middle + 3 :])
        daemon.role.tail()
        status = daemon.service.status()
        assert status["appliedTxid"] == applied
        assert segment.name in status["openSegmentFault"]
        segment.write_bytes(content)
        daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == stub.namespace.transactions.log.last_txid
        assert daemon.service.status()["openSegmentFault"] == ""


def test_gap_alarm_names_txids_sources_and_the_closing_image(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.role.reconfigure(replace(daemon.role._config, rebootstrap=False))
    write_edits(stub, "a", 3)
    daemon.role.tail()
    applied = daemon.service.status()["appliedTxid"]
    end = write_edits(stub, "b", 3)
    write_edits(stub, "c", 3)
    lost = next(s for s in list_segments(tmp_path / "active/shared/current") if s.last == end).path
    away = lost.rename(tmp_path / lost.name)
    assert not daemon.role.tail()
    (alarm,) = daemon.service.status()["alarms"]
    assert f"from {applied + 1} to {end} are missing in {tmp_path / 'active/shared/current'}" in alarm
    assert "has 0" in alarm
    assert not daemon.service.ready().ok
    assert stub.rpc_address is not None
    with Daemon(config_for(tmp_path, stub, image_directories=(tmp_path / "other",))) as other:
        # another checkpointer, which has all edits, uploads an image beyond the gap to the active NameNode
        away.rename(lost)
        assert other.service.request(force=True, wait=True).state is TriggerState.DONE
        lost.rename(away)
    daemon.role.tail()
    (alarm,) = daemon.service.status()["alarms"]
    assert "closes the gap" in alarm
    away.rename(lost)
    daemon.role.tail()
    assert daemon.service.status()["alarms"] == []
    assert daemon.service.ready().ok


def test_standby_continues_from_an_image_copied_by_an_operator(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    write_edits(stub, "a", 3)
    daemon.role.tail()
    end = write_edits(stub, "b", 3)
    with Daemon(config_for(tmp_path, stub, image_directories=(tmp_path / "other",))) as other:
        assert other.service.request(force=True, wait=True).details["txid"] == end
    for path in (tmp_path / "other/current").glob(f"fsimage_{end:019d}*"):
        path.rename(tmp_path / "nn2/current" / path.name)
    for segment in list_segments(tmp_path / "active/shared/current"):
        if segment.last is not None:
            segment.path.unlink()
    last = write_edits(stub, "c")
    daemon.role.tail()
    assert daemon.service.status()["appliedTxid"] == last


@pytest.mark.parametrize("fault", [MemoryError("no memory"), OSError(5, "Input/output error"), KeyError("bug")])
def test_tail_error_is_an_alarm_until_a_tail_succeeds(
    stub: NameNodeStub, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    last = write_edits(stub, "a", 3)

    def broken(*_: object, **__: object) -> None:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr("engine.warm_namespace.replay", broken)
        assert not daemon.role.tail()
    assert len(daemon.service.status()["alarms"]) == 1
    daemon.role.tail()
    assert (daemon.service.status()["alarms"], daemon.service.status()["appliedTxid"]) == ([], last)


def test_close_ends_a_tail(stub: NameNodeStub, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.replay.replayer._REPORT_EVERY", 1)
    monkeypatch.setattr("engine.replay.replayer._KERNEL_RUN", 1)
    write_edits(stub, "a", 3)
    daemon.role._follower._closing.set()
    assert not daemon.role.tail()
    assert daemon.service.status()["appliedTxid"] < 3
    assert daemon.service.status()["alarms"] == []


def test_standby_without_checkpoints_tails_no_edits(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, standby_checkpoints=False) as daemon:
        write_edits(stub, "a", 3)
        assert not daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == -1


# ---- rolls -------------------------------------------------------------------------------------------------


def test_roll_is_requested_while_edits_wait(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, log_roll_period=ROLL) as daemon:
        daemon.role.tail()
        begun = stub.namespace.transactions.log.segment_first_txid
        for number in range(3):
            stub.namespace.mkdirs(f"/{number}")
        daemon.clock.now = ROLL
        daemon.role.tail()
        assert stub.namespace.transactions.log.segment_first_txid == begun
        daemon.clock.now += 1
        daemon.role.tail()
        assert stub.namespace.transactions.log.segment_first_txid > begun
        status = daemon.service.status()
        assert status["appliedTxid"] == stub.namespace.transactions.log.segment_first_txid - 1
        assert status["alarms"] == []
        # only START_LOG_SEGMENT is present, which does not justify a roll
        begun = stub.namespace.transactions.log.segment_first_txid
        daemon.clock.now += 10 * ROLL
        daemon.role.tail()
        daemon.clock.now += 10 * ROLL
        daemon.role.tail()
        assert stub.namespace.transactions.log.segment_first_txid == begun


def test_no_roll_is_requested_while_rolls_are_disabled(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, log_roll_period=0.0) as daemon:
        begun = stub.namespace.transactions.log.segment_first_txid
        stub.namespace.mkdirs("/a")
        stub.namespace.mkdirs("/b")
        for _ in range(3):
            daemon.clock.now += 1000.0
            daemon.role.tail()
        assert stub.namespace.transactions.log.segment_first_txid == begun


# ---- rolling upgrade ---------------------------------------------------------------------------------------


def test_a_rolling_upgrade_from_start_to_finalize(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    follow_rolling_upgrade(stub, daemon, tmp_path)


def test_upgrade_start_in_the_open_segment_is_applied_after_its_end(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, tail_in_progress=True) as daemon:
        stub.namespace.mkdirs("/a")
        stub.active.administration._roll = lambda: 0  # type: ignore[assignment]
        assert stub.active.administration.start_rolling_upgrade() is not None
        start = stub.namespace.transactions.log.last_txid
        stub.namespace.mkdirs("/b")
        assert not daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == start - 1
        end = stub.active.roll() - 1
        assert daemon.role.tail()
        assert daemon.service.poll().details["txid"] == end
        assert rollbacks(tmp_path / "nn2") == [end]


@pytest.mark.parametrize("behind", [0, 1])
def test_upgrade_start_is_found_after_a_read_error_behind_it(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """The next tail still takes START into account, whether only START or its whole segment was applied."""
    assert stub.active.administration.start_rolling_upgrade() is not None
    end = stub.namespace.transactions.log.segment_first_txid - 1
    write_edits(stub, "during", 3)
    real = view_module.read_ops

    def broken(*arguments: Any, **options: Any) -> Iterator[EditOp]:
        left = None
        for op in real(*arguments, **options):
            yield op
            if isinstance(op, RollingUpgradeStartOp):
                left = behind
            if left == 0:
                raise OSError(5, "Input/output error")
            left = None if left is None else left - 1

    with monkeypatch.context() as patched:
        patched.setattr(
            view_module.FinalizedFile, "transactions", lambda each, first: broken(each.segment, from_txid=first)
        )
        assert not daemon.role.tail()
        assert daemon.service.status()["alarms"] != []
    # the checkpoint that an operator requests is also the rollback image
    assert daemon.service.request(force=True, wait=True).details["txid"] == end
    assert rollbacks(tmp_path / "nn2") == [end]


def test_existing_rollback_image_is_not_made_again(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    write_edits(stub, "before", 3)
    assert stub.active.administration.start_rolling_upgrade() is not None
    assert daemon.role.tail()
    assert daemon.service.poll().state is TriggerState.DONE
    daemon.role.close()
    last = write_edits(stub, "during", 3)
    # edits are replayed from the image before START
    with daemon_of(stub, tmp_path) as again:
        assert not again.role.tail()
        assert again.service.status()["appliedTxid"] == last
        assert len(rollbacks(tmp_path / "nn2")) == 1


def test_failed_rollback_image_is_made_at_the_next_attempt(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stub.active.administration.start_rolling_upgrade() is not None
    end = stub.namespace.transactions.log.segment_first_txid - 1
    write_edits(stub, "during", 3)
    assert daemon.role.tail()

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("engine.warm_namespace.save_image", broken)
        assert daemon.service.poll().state is TriggerState.FAILED
    assert daemon.role.tail()
    assert daemon.service.request(force=True, wait=True).details["txid"] == end
    assert rollbacks(tmp_path / "nn2") == [end]


def test_replay_of_a_finalized_upgrade_keeps_later_rollback_images(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    """Replaying the FINALIZE of one upgrade must not remove the rollback image of the next upgrade."""
    for _ in range(2):
        assert stub.active.administration.start_rolling_upgrade() is not None
        assert daemon.role.tail()
        assert daemon.service.poll().details["reason"] == "urgent"
        if _ == 0:
            assert stub.active.administration.finalize_rolling_upgrade() is not None
            daemon.role.tail()
    (newest,) = rollbacks(tmp_path / "nn2")
    daemon.role.close()
    for path in (tmp_path / "nn2/current").glob("fsimage_[0-9]*"):
        if not path.name.startswith("fsimage_0000000000000000000"):
            path.unlink()
    with daemon_of(stub, tmp_path) as again:
        # the edits after image 0: START and FINALIZE of the first upgrade, START of the second
        again.role.tail()
        assert rollbacks(tmp_path / "nn2") == [newest]


# ---- renaming ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["write_md5_file", "rename_durably"])
def test_failed_rename_leaves_the_rollback_image_valid(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    assert stub.active.administration.start_rolling_upgrade() is not None
    assert daemon.role.tail()
    daemon.service.poll()
    folder = tmp_path / "nn2/current"
    (txid,) = rollbacks(tmp_path / "nn2")
    image = latest_rollback_image([folder])
    assert image is not None

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(f"image_format.publish.{step}", broken)
        (warning,) = promote_rollback_images([folder], txid + 1)
    assert "could not be renamed" in warning
    assert latest_rollback_image([folder]) == image
    assert images(tmp_path / "nn2") == [0, txid]
    assert promote_rollback_images([folder], txid) == []
    assert latest_rollback_image([folder]) == image
    assert promote_rollback_images([folder], txid + 1) == []
    assert latest_rollback_image([folder]) is None
    plain = folder / f"fsimage_{txid:019d}"
    ImageFile.open(plain).close()
    assert not md5_path(image.path).exists()


# ---- a damaged image ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "record", "digest"])
def test_standby_continues_from_an_older_image_if_the_newest_is_damaged(
    stub: NameNodeStub, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        for name in "ab":
            write_edits(stub, name, 20)
            newest = daemon.service.poll().details["txid"]
    path = tmp_path / f"nn2/current/fsimage_{newest:019d}"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-9])
    elif damage == "digest":
        md5_path(path).write_text(f"{'0' * 32} *{path.name}\n")
    else:
        path.write_bytes(content[:60] + b"\xff" * 9 + content[69:])
    with daemon_of(stub, tmp_path) as daemon:
        last = write_edits(stub, "c", 20)
        daemon.role.tail()
        status = daemon.service.status()
        assert (status["appliedTxid"], status["lostPast"]) == (last, None)
        (alarm,) = status["alarms"]
        assert str(path) in alarm
        assert daemon.service.poll().details["txid"] == last
    assert path.name in caplog.text
    ours, theirs = (tmp_path / each / f"current/fsimage_{last:019d}" for each in ("nn2", "active/name"))
    assert ours.read_bytes() == theirs.read_bytes()
