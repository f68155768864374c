"""The standby between its checkpoints: it follows the edits, requests rolls, and reports gaps and errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from journal.segment_file import list_segments
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import TRANSACTIONS, Daemon, config_for, daemon_of, images, write_edits

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
