"""Parts of the backup node in isolation: batches, states, pace, segments to fetch, and the receiver's storage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.roles.backup.receiver import JournalReceiver, decode_batch
from checkpointer.roles.backup.states import BackupState
from engine.errors import ReplayError
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import JavaIOError, RemoteError
from hadoop_rpc.journal_protocol import JournalInfo
from hadoop_rpc.service import CallContext
from journal.binary_codec import encode_op
from journal.errors import JournalError, JournalStorageError, TransactionGapError, UnsupportedEditsLayoutError
from journal.operation import EditOp
from journal.segment_file import list_segments, read_ops
from journal.segment_stream import SegmentStream
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp

LAYOUT = -63
INFO = StorageInfo(LAYOUT, 77, 0, "CID-x", "BP-x")
CALLER = CallContext("hdfs", "", "127.0.0.1", "", b"", 0, 0)


def record(txid: int) -> bytes:
    op: EditOp = StartLogSegmentOp(txid=txid) if txid % 2 else EndLogSegmentOp(txid=txid)
    return encode_op(op, LAYOUT)


def records(first: int, count: int) -> bytes:
    return b"".join(record(txid) for txid in range(first, first + count))


# ---- batches -----------------------------------------------------------------------------------------------


@given(first=st.integers(1, 1 << 40), count=st.integers(1, 20))
def test_batch_is_decoded(first: int, count: int) -> None:
    ops = decode_batch(records(first, count), first, count, LAYOUT)
    assert [op.txid for op in ops] == list(range(first, first + count))


@given(data=st.data(), count=st.integers(1, 6))
def test_any_changed_byte_is_detected(data: st.DataObject, count: int) -> None:
    content = bytearray(records(5, count))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(JournalError):
        decode_batch(bytes(content), 5, count, LAYOUT)


@given(junk=st.binary(max_size=60), count=st.integers(0, 3), first=st.integers(0, 3))
def test_junk_batch_is_rejected(junk: bytes, count: int, first: int) -> None:
    with pytest.raises(JournalError):
        decode_batch(junk, first, count, LAYOUT)


@given(count=st.integers(1, 6), cut=st.integers(1, 16))
def test_truncated_batch_is_rejected(count: int, cut: int) -> None:
    content = records(5, count)
    with pytest.raises(JournalError):
        decode_batch(content[:-cut], 5, count, LAYOUT)


def test_batch_of_an_unknown_layout_is_rejected() -> None:
    with pytest.raises(UnsupportedEditsLayoutError):
        decode_batch(records(1, 1), 1, 1, -99)


def test_batch_with_unexpected_txids_is_rejected() -> None:
    with pytest.raises(TransactionGapError):
        decode_batch(records(6, 2), 5, 2, LAYOUT)
    with pytest.raises(TransactionGapError):
        decode_batch(record(5) + record(7), 5, 2, LAYOUT)


# ---- the receiver ------------------------------------------------------------------------------------------


class Replica:
    """Counter of applied transactions, which raises `fault` if it is set."""

    def __init__(self, last_txid: int) -> None:
        self.usable = True
        self.last_txid = last_txid
        self.fault: Exception | None = None

    def apply(self, ops: Sequence[EditOp]) -> int:
        if self.fault is not None:
            self.usable = False
            raise self.fault
        assert ops[0].txid == self.last_txid + 1
        self.last_txid = ops[-1].txid
        return len(ops)


class Node:
    """A receiver in a separate folder."""

    def __init__(self, folders: list[Path], last_txid: int = 10) -> None:
        self.replica = Replica(last_txid)
        self.failed: list[Path] = []
        self.receiver = JournalReceiver(
            INFO, last_txid, folders, self.replica, lambda folder, error: self.failed.append(folder)
        )
        self.info = JournalInfo.of(INFO)

    def start(self, txid: int) -> None:
        self.receiver.start_log_segment(self.info, 0, txid, CALLER)

    def send(self, first: int, count: int = 1) -> None:
        self.receiver.journal(self.info, 0, first, count, records(first, count), CALLER)

    @property
    def state(self) -> BackupState:
        return self.receiver.position().state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "edits").mkdir()
    return tmp_path / "edits"


@pytest.fixture
def node(folder: Path) -> Node:
    return Node([folder])


def stored(folder: Path) -> list[int]:
    return [op.txid for segment in list_segments(folder) for op in read_ops(segment)]


def test_edits_before_a_segment_start_are_rejected(node: Node, folder: Path) -> None:
    with pytest.raises(JavaIOError, match="next segment"):
        node.send(11)
    assert (stored(folder), node.state) == ([], BackupState.DROP_UNTIL_NEXT_ROLL)


def test_edits_are_stored_and_applied_once_in_sync(node: Node, folder: Path) -> None:
    node.start(11)
    node.send(11, 3)
    assert (node.state, node.replica.last_txid, stored(folder)) == (BackupState.JOURNAL_ONLY, 10, [11, 12, 13])
    assert node.receiver.converge()
    assert (node.state, node.replica.last_txid) == (BackupState.IN_SYNC, 13)
    node.send(14, 2)
    assert node.replica.last_txid == 15
    node.start(16)
    assert node.state is BackupState.IN_SYNC
    assert [(each.first, each.last) for each in list_segments(folder)] == [(11, 15), (16, None)]


def test_namespace_that_is_behind_does_not_converge(node: Node) -> None:
    node.replica.last_txid = 8
    node.start(11)
    node.send(11)
    assert not node.receiver.converge()
    node.replica.last_txid = 10
    assert node.receiver.converge()


def test_empty_segment_can_be_started_again(node: Node) -> None:
    node.start(11)
    node.start(11)
    node.send(11)
    with pytest.raises(JavaIOError, match="this node already has"):
        node.start(11)
    assert node.state is BackupState.DROP_UNTIL_NEXT_ROLL


def test_gap_before_a_segment_keeps_the_received_edits(node: Node, folder: Path) -> None:
    node.start(11)
    node.send(11, 2)
    assert node.receiver.converge()
    node.start(20)
    node.send(20)
    assert (node.state, node.replica.last_txid) == (BackupState.JOURNAL_ONLY, 12)
    assert not node.receiver.converge()
    assert [(each.first, each.last) for each in list_segments(folder)] == [(11, 12), (20, None)]


def test_namespace_is_frozen_at_the_start_of_a_segment(node: Node) -> None:
    node.start(11)
    node.send(11, 2)
    assert node.receiver.converge()
    node.receiver.freeze_at_next_segment()
    node.send(13)
    node.start(14)
    assert node.receiver.take_namespace()
    node.send(14, 3)
    assert (node.state, node.replica.last_txid) == (BackupState.JOURNAL_ONLY, 13)
    assert node.receiver.converge()
    assert node.replica.last_txid == 16


def test_taking_an_unfrozen_namespace_ends_the_stream(node: Node) -> None:
    node.start(11)
    node.send(11)
    assert node.receiver.converge()
    node.receiver.freeze_at_next_segment()
    assert not node.receiver.take_namespace()
    assert node.state is BackupState.DROP_UNTIL_NEXT_ROLL


@pytest.mark.parametrize("fault", [ReplayError("OP_X", 12, "does not fit"), RuntimeError("a bug")])
def test_edits_that_cannot_be_applied_are_stored_and_acknowledged(fault: Exception, node: Node, folder: Path) -> None:
    node.start(11)
    assert node.receiver.converge()
    node.replica.fault = fault
    node.send(11, 2)
    assert (node.state, stored(folder)) == (BackupState.JOURNAL_ONLY, [11, 12])
    assert str(fault) in node.receiver.position().reason
    node.send(13)
    assert stored(folder) == [11, 12, 13]
    assert not node.receiver.converge()


def test_edits_are_not_acknowledged_if_the_disk_fails(
    node: Node, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start(11)
    node.send(11)

    def full(stream: SegmentStream, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SegmentStream, "append", full)
    with pytest.raises(JournalStorageError, match="No space"):
        node.send(12)
    assert (node.state, node.failed) == (BackupState.DROP_UNTIL_NEXT_ROLL, [folder])
    assert node.receiver.position().last_txid == 11
    monkeypatch.undo()
    assert stored(folder) == [11]


def test_edits_are_acknowledged_if_one_of_two_disks_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for each in folders:
        each.mkdir()
    node = Node(folders)
    node.start(11)
    append = SegmentStream.append

    def failing(stream: SegmentStream, data: bytes) -> None:
        if stream.directory == folders[0]:
            raise OSError(5, "Input/output error")
        append(stream, data)

    monkeypatch.setattr(SegmentStream, "append", failing)
    node.send(11, 2)
    assert (node.state, node.failed, stored(folders[1])) == (BackupState.JOURNAL_ONLY, [folders[0]], [11, 12])


def test_fencing_by_epoch(node: Node) -> None:
    node.start(11)
    node.send(11)
    result = node.receiver.fence(node.info, 3, "another", CALLER)
    assert (result.previous_epoch, result.last_txid, result.in_sync) == (0, 11, False)
    with pytest.raises(RemoteError) as caught:
        node.send(12)
    assert caught.value.class_name.endswith("FencedException")
    with pytest.raises(RemoteError):
        node.receiver.fence(node.info, 3, "another", CALLER)
    node.receiver.journal(node.info, 3, 12, 1, record(12), CALLER)


def test_open_segment_of_a_closed_receiver_is_readable(node: Node, folder: Path) -> None:
    node.start(11)
    node.send(11, 2)
    node.receiver.close()
    assert [each.in_progress for each in list_segments(folder)] == [True]
    assert stored(folder) == [11, 12]
    with pytest.raises(JavaIOError):
        node.send(13)
