"""Recovery of a segment on a JournalNode in memory, call by call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import (
    AssertionRemoteError,
    EditsCacheMissError,
    IllegalStateError,
    JavaIOError,
    JournalOutOfSyncError,
    NewerTxidError,
)
from hadoop_rpc.qjournal_values import PreparedRecovery, SegmentState
from journal_node.node import JournalNode
from tests.journal_node.journal_node_support import (
    FIRST,
    HEADER,
    JOURNAL,
    NAMESPACE,
    OWN,
    Network,
    Writer,
    batch,
    formatted,
    logs,
    other_batch,
    segment_at,
)
from tests.journal_node.memory_disk import Inode, MemoryDisk


def test_prepare_reports_segment_epoch_and_committed_txid(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.committed = 3
    writer.start(4)
    writer.write(4, 4, 6)
    newer = Writer(node, epoch=2)
    newer.begin()
    assert newer.prepare(4) == PreparedRecovery(SegmentState(4, 6, True), None, 1, 3)
    assert newer.prepare(1) == PreparedRecovery(SegmentState(1, 3, False), None, 1, 3)
    assert newer.prepare(7) == PreparedRecovery(None, None, 1, 3)


def test_segment_without_transactions_is_not_recovered(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    assert writer.prepare(1) == PreparedRecovery(None, None, 1, None)
    assert disk.exists(FIRST + ".empty")


def test_accepted_recovery_is_reported_until_the_segment_is_finalized(
    node: JournalNode, writer: Writer, disk: MemoryDisk
) -> None:
    writer.start(1)
    writer.write(1, 1, 5)
    newer = Writer(node, epoch=2)
    newer.begin()
    newer.accept(1, 5)
    assert newer.prepare(1) == PreparedRecovery(SegmentState(1, 5, True), 2, 1, None)
    newer.end(1, 5)
    assert newer.prepare(1) == PreparedRecovery(SegmentState(1, 5, False), None, 1, None)
    assert not disk.exists("current/paxos/1")


def test_writes_are_refused_after_a_recovery_has_begun(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 5)
    writer.prepare(1)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 6, 6)
    writer.accept(1, 5)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 6, 6)


def test_restarted_segment_discards_its_recovery(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.write(1, 1, 1)
    writer.accept(1, 1)
    assert disk.exists("current/paxos/1")
    writer.start(1)
    assert not disk.exists("current/paxos/1")


def test_discarded_segment_has_no_accepted_recovery(node: JournalNode, writer: Writer) -> None:
    """After a rollback, the next writer may begin the segment on other nodes only, and ask this node to recover it."""
    writer.segment(1, 3)
    writer.start(4)
    writer.write(4, 4, 6)
    writer.accept(4, 6)
    node.discard_segments(JOURNAL, 4)
    newer = Writer(node, epoch=2)
    newer.begin()
    assert newer.prepare(4) == PreparedRecovery(None, None, 1, 3)


def test_discarded_segment_is_not_restored_from_an_interrupted_acceptance(
    node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk
) -> None:
    writer.accept(1, 8, segment_at("b", 1))
    disk.rename(FIRST, f"{FIRST}.epoch=1")
    node.discard_segments(JOURNAL, 1)
    newer = Writer(node, epoch=2)
    newer.begin()
    assert newer.prepare(1).segment is None
    assert logs(node) == []


@pytest.mark.parametrize("own", [0, 3])
def test_segment_with_an_interrupted_acceptance_is_not_split(
    node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk, own: int
) -> None:
    """The next recovery completes the acceptance, which would restore the discarded transactions 4 to 8."""
    if own:
        writer.start(1)
        writer.write(1, 1, own)
    writer.epoch = 2
    writer.accept(1, 8, segment_at("b", 1))
    disk.rename(FIRST, f"{FIRST}.epoch=2")
    if own:
        disk.write(FIRST, HEADER + batch(1, own))
    with pytest.raises(IllegalStateError, match="txid 4 is within"):
        node.discard_segments(JOURNAL, 4)
    newer = Writer(node, epoch=3)
    newer.begin()
    assert newer.prepare(1).segment == SegmentState(1, 8, True)


@pytest.mark.parametrize("own", [0, 3, 10])
def test_missing_copy_or_copy_of_another_length_is_replaced(
    node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk, own: int
) -> None:
    if own:
        writer.start(1)
        writer.write(1, 1, own)
    writer.epoch = 2
    writer.accept(1, 8, segment_at("b", 1))
    assert writer.prepare(1) == PreparedRecovery(SegmentState(1, 8, True), 2, 1 if own else 0, None)
    assert disk.read(FIRST) == HEADER + batch(1, 8)
    assert logs(node) == [(1, 8, True)]
    assert [name for name in disk.files if "epoch=" in name or name.endswith(".tmp")] == []
    writer.end(1, 8)
    with pytest.raises(NewerTxidError):
        node.get_journaled_edits(JOURNAL, 10, 1)


def _another(node: JournalNode, writer: Writer, records: bytes) -> Inode:
    """Write a segment 1 to 8 with `records`, which the next epoch recovers; return its file."""
    writer.start(1)
    node.journal(writer.request(), 1, 1, 8, records)
    writer.epoch = 2
    return _memory(node).files[FIRST]


def _memory(node: JournalNode) -> MemoryDisk:
    disk = node.open_journal(JOURNAL).storage.disk
    assert isinstance(disk, MemoryDisk)
    return disk


def test_differing_copy_of_equal_length_is_replaced(
    node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk
) -> None:
    """In this case, Hadoop's node keeps and finalizes its own copy."""
    _another(node, writer, other_batch(1, 8))
    assert node.get_journaled_edits(JOURNAL, 1, 9).count == 8
    writer.accept(1, 8, segment_at("b", 1))
    assert disk.read(FIRST) == HEADER + batch(1, 8)
    with pytest.raises(EditsCacheMissError):
        node.get_journaled_edits(JOURNAL, 1, 9)
    writer.end(1, 8)
    assert logs(node) == [(1, 8, False)]


@pytest.mark.parametrize("padded", [b"", b"\xff" * 100, b"\x00\x00"])
def test_copy_with_equal_transactions_is_kept(
    node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk, padded: bytes
) -> None:
    """Bytes after the transactions, as Hadoop preallocates them, are ignored."""
    own = _another(node, writer, batch(1, 8))
    own.data += padded
    writer.accept(1, 8, segment_at("b", 1))
    assert disk.files[FIRST] is own
    assert node.get_journaled_edits(JOURNAL, 1, 9).count == 8
    assert [name for name in disk.files if "epoch=" in name or name.endswith(".tmp")] == []


def test_padding_of_the_fetched_copy_is_ignored(
    network: Network, node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk
) -> None:
    own = _another(node, writer, batch(1, 8))
    network.nodes["b"].new_epoch(JOURNAL, NAMESPACE, 2)
    _memory(network.nodes["b"]).files[FIRST].data += b"\xff" * 1000
    writer.accept(1, 8, segment_at("b", 1))
    assert disk.files[FIRST] is own


def test_accept_fails_if_the_copies_cannot_be_compared(
    network: Network, node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk
) -> None:
    _another(node, writer, batch(1, 8))
    network.cut.add("b")
    with pytest.raises(JavaIOError, match="cannot be reached"):
        writer.accept(1, 8, segment_at("b", 1))
    assert not disk.exists("current/paxos/1")
    with pytest.raises(JournalOutOfSyncError, match="neither begun nor recovered on this node in epoch 2"):
        writer.end(1, 8)
    network.cut.clear()
    writer.accept(1, 8, segment_at("b", 1))
    network.cut.add("b")
    writer.accept(1, 8, segment_at("b", 1))  # a copy accepted in an epoch is not checked again in that epoch
    newer = Writer(node, epoch=3)
    with pytest.raises(JavaIOError, match="cannot be reached"):
        newer.accept(1, 8, segment_at("b", 1))
    newer.accept(1, 8)
    newer.end(1, 8)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8481/x", "http://192.0.2.7:8480/x", "http://127.0.0.1:y/x", "http://:8480/x", "x"]
)
def test_only_the_own_address_is_accepted_without_a_fetch(url: str) -> None:
    refused = JavaIOError("fetched")

    def fetch(url: str, namespace: StorageInfo) -> Iterator[bytes]:
        raise refused

    disk = MemoryDisk("a")
    node = JournalNode(lambda _: disk, fetch=fetch)
    node.announce(8480, "http://0.0.0.0:8480")
    writer = formatted(node)
    _another(node, writer, batch(1, 8))
    with pytest.raises(JavaIOError, match="fetched"):
        writer.accept(1, 8, url)
    writer.accept(1, 8, OWN)


def test_segment_written_before_a_restart_can_be_finalized(
    network: Network, node: JournalNode, writer: Writer, disk: MemoryDisk
) -> None:
    writer.start(1)
    writer.write(1, 1, 8)
    writer.node = network.node("a", disk)
    writer.end(1, 8)
    assert logs(network.nodes["a"]) == [(1, 8, False)]


def test_segment_of_an_older_writer_is_not_finalized_without_recovery(node: JournalNode, writer: Writer) -> None:
    """Hadoop's NameNode asks all nodes to end the segment that a majority accepted."""
    writer.start(1)
    writer.write(1, 1, 8)
    writer.epoch = 2
    writer.start(9)
    writer.write(9, 9, 9)
    with pytest.raises(JournalOutOfSyncError, match="on this node in epoch 2"):
        writer.end(1, 8)
    writer.end(9, 9)
    assert logs(node) == [(1, 8, True), (9, 9, False)]


def test_replaced_transactions_are_not_served_from_the_cache(node: JournalNode, writer: Writer, longer: Writer) -> None:
    writer.start(1)
    node.journal(writer.request(), 1, 1, 3, batch(1, 3).replace(b"\x17", b"\x18"))
    assert node.get_journaled_edits(JOURNAL, 1, 9).count == 3
    writer.epoch = 2
    writer.accept(1, 8, segment_at("b", 1))
    with pytest.raises(EditsCacheMissError):
        node.get_journaled_edits(JOURNAL, 1, 9)


def test_fetched_copy_must_be_the_accepted_segment(
    node: JournalNode, writer: Writer, longer: Writer, network: Network, disk: MemoryDisk
) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    before = dict(disk.files)
    for last in (7, 9):
        with pytest.raises(JavaIOError, match="the fetched file is not segment 1"):
            writer.accept(1, last, segment_at("b", 1))
    network.cut.add("b")
    with pytest.raises(JavaIOError, match="cannot be reached"):
        writer.accept(1, 8, segment_at("b", 1))
    assert dict(disk.files).keys() == before.keys()
    assert writer.prepare(1).segment == SegmentState(1, 3, True)


def test_committed_transactions_are_not_discarded(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 10)
    writer.committed = 9
    with pytest.raises(AssertionRemoteError, match="committed txid 9 would be lost"):
        writer.accept(1, 8, segment_at("b", 1))
    assert writer.prepare(1).segment == SegmentState(1, 10, True)


def test_finalized_segment_is_not_replaced(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 5)
    for last in (4, 6):
        with pytest.raises(AssertionRemoteError, match="finalized up to txid 5"):
            writer.accept(1, last, segment_at("b", 1))
    writer.accept(1, 5)


def test_an_older_recovery_does_not_undo_a_newer_one(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 5)
    newer = Writer(node, epoch=3)
    newer.accept(1, 5)
    with pytest.raises(JavaIOError, match="last promised epoch 3"):
        Writer(node, epoch=2).accept(1, 5)
