"""Fetches of the active NameNode's image by a standby when edits are missing, or every copy of them is damaged."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from checkpointer.errors import TransferError
from checkpointer.roles.standby import namenodes
from checkpointer.storage.lost_pasts import NOT_COMPARED
from hadoop_common.names import image_name
from journal.binary_codec import encode_op
from journal.segment_file import list_segments
from journal.segment_format import HEADER_SIZE, SegmentCursor, decode_header, encode_header
from journal.segment_frames import CHECKSUM_SIZE, iter_frames
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import Daemon, assert_in_sync, daemon_of, images, write_edits
from tests.engine.op_makers import add

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)


def cut_header(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


def damage_an_opcode(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[HEADER_SIZE] = 120
    path.write_bytes(content)


def write_an_unknown_opcode(path: Path) -> None:
    damage_an_opcode(path)
    content = bytearray(path.read_bytes())
    end = next(iter_frames(content, HEADER_SIZE, len(content))).end - CHECKSUM_SIZE
    content[end : end + CHECKSUM_SIZE] = crc32(content[HEADER_SIZE:end]).to_bytes(CHECKSUM_SIZE, "big")
    path.write_bytes(content)


def write_an_unknown_field(path: Path) -> None:
    content = path.read_bytes()
    frame = next(iter_frames(content, HEADER_SIZE, len(content)))
    body = bytearray(content[frame.start : frame.end - CHECKSUM_SIZE] + b"\x07")
    body[1:5] = (len(body) - 1).to_bytes(4, "big")
    checksum = crc32(body).to_bytes(CHECKSUM_SIZE, "big")
    path.write_bytes(content[: frame.start] + body + checksum + content[frame.end :])


def write_an_operation_of_another_layout(path: Path) -> None:
    content = path.read_bytes()
    layout = decode_header(content)
    first, replaced, *rest = SegmentCursor(content)
    op = add("/file", 17000, erasure_coding_policy_id=0)
    op.txid = replaced.txid
    after = b"".join(encode_op(each, layout) for each in rest)
    path.write_bytes(encode_header(layout) + encode_op(first, layout) + encode_op(op, -63) + after)


def damage_first_transaction(tmp_path: Path, last: int) -> None:
    """Damage the beginning of the segment that ends at `last`, so that it cannot be compared."""
    damaged = next(each for each in list_segments(tmp_path / "active/shared/current") if each.last == last).path
    content = bytearray(damaged.read_bytes())
    content[HEADER_SIZE + 10] ^= 0x40
    damaged.write_bytes(content)


def save_namespace(stub: NameNodeStub) -> None:
    administration = stub.active.administration
    administration.set_safe_mode(on=True)
    administration.save_namespace()
    administration.set_safe_mode(on=False)


def make_a_gap(stub: NameNodeStub, daemon: Daemon, tmp_path: Path, lose: Callable[[Path], object] = Path.unlink) -> int:
    """Prepare applied edits, lost edits, an image of the active NameNode that contains both, and more edits."""
    write_edits(stub, "a", 3)
    daemon.role.tail()
    end = write_edits(stub, "b", 3)
    with daemon_of(stub, tmp_path, image_directories=(tmp_path / "other",)) as other:
        assert other.service.request(force=True, wait=True).state is TriggerState.DONE
    last = write_edits(stub, "c", 3)
    lost = next(s for s in list_segments(tmp_path / "active/shared/current") if s.last == end)
    lose(lost.path)
    return last


@pytest.mark.parametrize("lose", [Path.unlink, cut_header, flip_a_bit, damage_an_opcode])
def test_image_is_fetched_if_edits_are_missing_or_damaged(
    stub: NameNodeStub, tmp_path: Path, lose: Callable[[Path], object]
) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        last = make_a_gap(stub, daemon, tmp_path, lose)
        daemon.role.tail()
        status = daemon.service.status()
        assert (status["alarms"], status["appliedTxid"]) == ([], last)
        assert images(tmp_path / "nn2") == images(tmp_path / "active/name")
        assert daemon.service.poll().details["uploads"] == {}
        assert_in_sync(stub, daemon, tmp_path)


@pytest.mark.parametrize(
    "change", [write_an_unknown_opcode, write_an_unknown_field, write_an_operation_of_another_layout]
)
def test_no_image_is_fetched_for_edits_that_only_other_software_reads(
    stub: NameNodeStub, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    """The alarm remains until an operator acts; for edits of another layout, see HDFS-13596."""
    with daemon_of(stub, tmp_path) as daemon:
        make_a_gap(stub, daemon, tmp_path, change)
        daemon.role.tail()
        assert "edits are not read or applied" in daemon.service.status()["alarms"][0]
        assert images(tmp_path / "nn2") == [0]


def test_no_image_is_fetched_with_rebootstrap_disabled(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, rebootstrap=False) as daemon:
        make_a_gap(stub, daemon, tmp_path)
        daemon.role.tail()
        assert "closes the gap" in daemon.service.status()["alarms"][0]
        assert images(tmp_path / "nn2") == [0]
        wanted = dataclasses.replace(daemon.role._config, rebootstrap=True)
        daemon.role.reconfigure(wanted)
        daemon.role.tail()
        assert daemon.service.status()["alarms"] == []


def test_no_image_is_fetched_before_the_active_has_one_after_the_damage(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        write_edits(stub, "a", 3)
        daemon.role.tail()
        applied = daemon.service.status()["appliedTxid"]
        end = write_edits(stub, "b", 3)
        flip_a_bit(next(s for s in list_segments(tmp_path / "active/shared/current") if s.last == end).path)
        for _ in range(2):
            daemon.role.tail()
            status = daemon.service.status()
            assert applied <= status["appliedTxid"] < end
            assert "edits are not read or applied" in status["alarms"][0]
            assert "do not restart a NameNode" in status["nextSteps"][status["alarms"][0]]
        assert images(tmp_path / "nn2") == [0]


@pytest.mark.parametrize("restarted", [False, True])
def test_applied_edits_that_were_damaged_later(
    restarted: bool, stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the NameNode's process runs, its past has not changed, and its next start needs an image with these edits.
    After a restart, the NameNode may lack them, but our namespace may be the only copy.
    """
    started_at = [7]
    monkeypatch.setattr(namenodes, "ask_start_time", lambda *_, **__: started_at[0])
    with daemon_of(stub, tmp_path) as daemon:
        write_edits(stub, "a", 3)
        assert daemon.service.request(force=True, wait=True).state is TriggerState.DONE
        last = write_edits(stub, "b", 3)
        daemon.role.tail()
        damage_first_transaction(tmp_path, last)
        started_at[0] += restarted
        result = daemon.service.request(force=True, wait=True)
        assert result.state is (TriggerState.FAILED if restarted else TriggerState.DONE), result
        assert (images(tmp_path / "nn2")[-1] == last) is not restarted
        assert daemon.service.status()["appliedTxid"] == last
        assert daemon.service.status()["lostPast"] is None


@pytest.mark.parametrize("restarted", [False, True])
def test_state_that_a_damaged_segment_leaves_unproven_is_replaced_by_an_image_of_the_active(
    restarted: bool, stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a restart, the NameNode does not report its start time."""
    started_at = [7]

    def start_time(target: str, **_: object) -> int:
        if restarted:
            return started_at[0]
        raise TransferError(target, "is closed")

    monkeypatch.setattr(namenodes, "ask_start_time", start_time)
    with daemon_of(stub, tmp_path) as daemon:
        write_edits(stub, "a", 3)
        assert daemon.service.request(force=True, wait=True).state is TriggerState.DONE
        (*_, ours) = images(tmp_path / "nn2")
        last = write_edits(stub, "b", 3)
        daemon.role.tail()
        damage_first_transaction(tmp_path, last)
        started_at[0] += 1
        assert daemon.service.request(force=True, wait=True).state is TriggerState.FAILED
        save_namespace(stub)
        write_edits(stub, "c", 3)
        # a single failed comparison is not sufficient, nor are two at the same time
        for _ in range(2):
            daemon.role.tail()
            assert daemon.service.status()["lostPast"] is None
        daemon.clock.now += 10.0
        daemon.role.tail()
        lost = daemon.service.status()["lostPast"]
        assert "cannot be compared" in lost["reason"]
        assert [(Path(folder) / image_name(ours)).exists() for folder in lost["setAside"]] == [True]
        assert NOT_COMPARED in lost["setAside"][0]
        # the NameNode accepts an image only after ten transactions
        write_edits(stub, "d", 10)
        # the delay after the failed checkpoint
        daemon.clock.now += 60.0
        assert_in_sync(stub, daemon, tmp_path)
        assert daemon.service.status()["lostPast"] == lost


def test_alarm_while_no_image_closes_the_gap(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        write_edits(stub, "a", 3)
        daemon.role.tail()
        end = write_edits(stub, "b", 3)
        write_edits(stub, "c", 3)
        next(s for s in list_segments(tmp_path / "active/shared/current") if s.last == end).path.unlink()
        for _ in range(2):
            daemon.role.tail()
            assert "no known image closes the gap" in daemon.service.status()["alarms"][0]
        assert images(tmp_path / "nn2") == [0]


def test_no_image_is_fetched_without_space(stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, each tail would fill the disk."""
    with daemon_of(stub, tmp_path) as daemon:
        last = make_a_gap(stub, daemon, tmp_path)
        present = shutil.disk_usage(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "disk_usage", lambda _: present._replace(free=0))
            daemon.role.tail()
            assert "no space for a checkpoint" in daemon.service.status()["alarms"][0]
            assert images(tmp_path / "nn2") == [0]
        daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == last


def test_failed_fetch_changes_no_files(stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        last = make_a_gap(stub, daemon, tmp_path)

        requests = []

        def broken(*_: object, **__: object) -> None:
            requests.append(daemon.clock.now)
            raise TransferError(stub.server.url, "was interrupted")

        with monkeypatch.context() as patched:
            patched.setattr("checkpointer.roles.standby.image_fetcher.download_image", broken)
            # the delay grows, because a large image must not be transferred at each tail
            for passed in (0.0, 9.0, 1.0, 19.0, 1.0):
                daemon.clock.now += passed
                daemon.role.tail()
                assert "was interrupted; the next attempt follows after" in daemon.service.status()["alarms"][0]
                assert images(tmp_path / "nn2") == [0]
            assert [later - requests[0] for later in requests] == [0.0, 10.0, 30.0]
        daemon.clock.now += 40.0
        daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == last
        assert (tmp_path / "nn2/current" / image_name(images(tmp_path / "nn2")[-1])).exists()
