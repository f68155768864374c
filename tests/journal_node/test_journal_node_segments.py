"""Segments of a JournalNode in memory: written, ended, purged and read, call by call."""

from __future__ import annotations

import pytest

from hadoop_rpc.errors import (
    EditsCacheMissError,
    IllegalArgumentRemoteError,
    IllegalStateError,
    JavaIOError,
    JournalOutOfSyncError,
    NewerTxidError,
)
from hadoop_rpc.qjournal_values import JournaledEdits, SegmentState
from journal.segment_format import SegmentCursor
from journal_node.disk import JournalOutput
from journal_node.node import JournalNode
from tests.journal_node.journal_node_support import FIRST, HEADER, JOURNAL, Network, Writer, batch, logs
from tests.journal_node.memory_disk import MemoryDisk, MemoryOutput

# ---- writing ----


def test_batches_are_stored_byte_for_byte(writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.write(1, 1, 2)
    writer.write(1, 3, 3)
    assert disk.read(FIRST) == HEADER + batch(1, 3)
    writer.end(1, 3)
    content = disk.read("current/edits_0000000000000000001-0000000000000000003")
    assert [op.txid for op in SegmentCursor(content, first_txid=1, last_txid=3)] == [1, 2, 3]


def test_batches_out_of_order_are_refused(writer: Writer, disk: MemoryDisk) -> None:
    with pytest.raises(JavaIOError, match="not the current writer epoch"):
        writer.write(1, 1, 1)
    writer.start(1)
    with pytest.raises(JournalOutOfSyncError, match="txid 2 cannot be written: 1 must come next"):
        writer.write(1, 2, 2)
    writer.write(1, 1, 1)
    with pytest.raises(JournalOutOfSyncError, match="txid 1 cannot be written: 2"):
        writer.write(1, 1, 1)
    writer.end(1, 1)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 2, 2)
    assert disk.read("current/edits_0000000000000000001-0000000000000000001") == HEADER + batch(1, 1)


def test_batch_of_another_segment_aborts_the_open_one(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.start(4)
    with pytest.raises(JournalOutOfSyncError, match="writer is in segment 1, but segment 4 is open"):
        writer.write(1, 4, 4)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(4, 4, 4)


def test_empty_batch_updates_the_committed_txid(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    writer.committed = 3
    node.journal(writer.request(), 1, 4, 0, b"")
    assert node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == 3


def test_transactions_committed_on_other_nodes_are_not_synced(
    writer: Writer, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(MemoryOutput, "sync", lambda self: synced.append(self.written))
    writer.start(1)
    writer.write(1, 1, 4)
    synced.clear()
    writer.committed = 8
    writer.write(1, 5, 8)
    assert synced == []
    writer.write(1, 9, 9)
    assert synced == [len(HEADER + batch(1, 9))]


def test_unsynced_segment_is_synced_when_finalized(writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.committed = 8
    writer.write(1, 1, 8)
    writer.end(1, 8)
    disk.crash()
    assert disk.read("current/edits_0000000000000000001-0000000000000000008") == HEADER + batch(1, 8)


def test_start_abandons_the_open_segment(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    writer.start(4)
    with pytest.raises(JournalOutOfSyncError):
        writer.write(1, 4, 4)
    with pytest.raises(IllegalStateError, match="exists with transactions other than 1"):
        writer.start(1)
    assert logs(node) == [(1, 3, True)]


def test_segment_does_not_start_over_another(writer: Writer) -> None:
    writer.segment(1, 3)
    with pytest.raises(IllegalStateError, match="already finalized"):
        writer.start(1)
    writer.start(4)
    writer.write(4, 4, 4)
    writer.start(4)
    writer.write(4, 4, 5)
    with pytest.raises(IllegalStateError):
        writer.start(4)


# ---- the end of a segment ----


def test_segment_is_finalized_only_at_its_last_written_txid(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    with pytest.raises(JournalOutOfSyncError, match="end with txid 4: this JournalNode has it up to txid 3"):
        writer.end(1, 4)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 4, 4)
    with pytest.raises(JournalOutOfSyncError, match="end with txid 2"):
        writer.end(1, 2)
    writer.end(1, 3)
    writer.end(1, 3)
    assert logs(node) == [(1, 3, False)]
    with pytest.raises(IllegalArgumentRemoteError, match="already finalized with txid 3, not with 2"):
        writer.end(1, 2)
    with pytest.raises(JournalOutOfSyncError, match="cannot finalize segment 4"):
        writer.end(4, 5)


def test_restarted_node_finalizes_a_segment_after_a_scan(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    again = Writer(network.node("a", disk), serial=10)
    with pytest.raises(JournalOutOfSyncError, match="has it up to txid 3"):
        again.end(1, 4)
    again.end(1, 3)
    assert logs(network.nodes["a"]) == [(1, 3, False)]


def test_torn_batch_is_ignored(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    disk.files[FIRST].data += batch(4, 5)[:-3]
    node = network.node("a", disk)
    assert Writer(node, epoch=2).begin() == 1
    assert Writer(node, epoch=2).prepare(1).segment == SegmentState(1, 4, True)


def test_damage_before_intact_transactions_is_an_error(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 5)
    disk.files[FIRST].data[len(HEADER) + 20] ^= 1
    node = network.node("a", disk)
    newer = Writer(node, epoch=2)
    assert newer.begin() == 1
    with pytest.raises(JavaIOError, match="is damaged"):
        newer.prepare(1)
    with pytest.raises(JavaIOError, match="is damaged"):
        newer.accept(1, 5)


# ---- purging and discarding ----


def test_purge_removes_older_segments(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.segment(1, 3)
    writer.start(4)
    writer.write(4, 4, 4)
    writer.accept(4, 4)
    writer.segment(5, 9)
    writer.start(10)
    writer.write(10, 10, 10)
    writer.purge(4)
    assert logs(node) == [(4, 4, True), (5, 9, False), (10, 10, True)]
    writer.purge(7)
    assert logs(node) == [(5, 9, False), (10, 10, True)]
    assert not disk.exists("current/paxos/4")
    writer.purge(100)
    assert logs(node) == [(10, 10, True)]
    writer.write(10, 11, 12)
    writer.end(10, 12)


def test_purge_continues_after_a_failed_deletion(
    node: JournalNode, writer: Writer, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.segment(1, 3)
    writer.segment(4, 6)

    def stuck(name: str) -> None:
        if name.endswith("3"):
            raise PermissionError(name)
        disk.files.pop(name, None)

    monkeypatch.setattr(disk, "remove", stuck)
    writer.purge(7)
    assert logs(node) == [(1, 3, False)]


def test_segments_are_discarded_at_a_boundary(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.segment(1, 3)
    writer.segment(4, 6)
    writer.committed = 6
    writer.start(7)
    writer.write(7, 7, 8)
    with pytest.raises(IllegalStateError, match="txid 5 is within"):
        node.discard_segments(JOURNAL, 5)
    node.discard_segments(JOURNAL, 4)
    assert logs(node) == [(1, 3, False)]
    assert disk.exists("current/edits_inprogress_0000000000000000007.trash")
    assert node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == 3
    with pytest.raises(NewerTxidError):
        node.get_journaled_edits(JOURNAL, 5, 1)


# ---- reading ----


def test_manifest_starts_with_the_segment_that_contains_the_txid(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.segment(4, 6)
    writer.start(7)
    assert logs(node) == [(1, 3, False), (4, 6, False)]
    writer.write(7, 7, 9)
    everything = [(1, 3, False), (4, 6, False), (7, 9, True)]
    for since, count in ((0, 3), (1, 3), (3, 3), (4, 2), (5, 2), (7, 1), (9, 1), (10, 0)):
        assert logs(node, since) == everything[3 - count :]
    assert logs(node, in_progress_ok=False) == everything[:2]


def test_unfinalized_segment_is_listed_up_to_its_last_txid(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 2)
    writer.start(4)
    writer.write(4, 4, 9)
    assert logs(node) == [(1, 2, True), (4, 9, True)]


def test_newest_transactions_are_served_from_the_cache(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.start(4)
    writer.write(4, 4, 9)
    assert node.get_journaled_edits(JOURNAL, 2, 100) == JournaledEdits(8, HEADER + batch(2, 9))
    assert node.get_journaled_edits(JOURNAL, 2, 4) == JournaledEdits(4, HEADER + batch(2, 5))
    assert node.get_journaled_edits(JOURNAL, 10, 5) == JournaledEdits(0, b"")
    with pytest.raises(NewerTxidError, match="newest txid on this JournalNode is 9, but 11 was requested"):
        node.get_journaled_edits(JOURNAL, 11, 5)


def test_cache_discards_transactions_of_another_writer(node: JournalNode, writer: Writer) -> None:
    """The transactions of another writer may never have reached a majority, even if the next segment follows them."""
    writer.start(1)
    writer.write(1, 1, 5)
    writer.start(6)
    assert node.get_journaled_edits(JOURNAL, 1, 9).count == 5
    later = Writer(node, epoch=2)
    later.begin()
    later.start(6)
    later.write(6, 6, 8)
    assert node.get_journaled_edits(JOURNAL, 6, 9) == JournaledEdits(3, HEADER + batch(6, 8))
    with pytest.raises(EditsCacheMissError, match="began at txid 6"):
        node.get_journaled_edits(JOURNAL, 1, 9)


def test_cache_is_empty_after_a_restart(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.segment(1, 3)
    node = network.node("a", disk, cache_bytes=10_000)
    assert node.get_journaled_edits(JOURNAL, 4, 5) == JournaledEdits(0, b"")
    with pytest.raises(EditsCacheMissError):
        node.get_journaled_edits(JOURNAL, 3, 5)
    uncached = network.node("a", disk)
    with pytest.raises(JavaIOError, match=r"dfs\.ha\.tail-edits\.in-progress"):
        uncached.get_journaled_edits(JOURNAL, 3, 5)


def test_cache_contains_only_transactions_on_disk(
    node: JournalNode, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.start(1)
    writer.write(1, 1, 3)

    def full(self: JournalOutput, data: bytes, *, sync: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MemoryOutput, "append", full)
    with pytest.raises(JavaIOError, match="No space left"):
        writer.write(1, 4, 6)
    assert node.get_journaled_edits(JOURNAL, 1, 9) == JournaledEdits(3, HEADER + batch(1, 3))
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 4, 6)
    assert logs(node) == [(1, 3, True)]


def test_only_complete_batches_are_served(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    disk.files[FIRST].data += b"half of the next batch"
    found = node.find_segment(JOURNAL, 1, in_progress_ok=True)
    assert found is not None
    assert (found.name, found.content.read(found.size)) == (FIRST.removeprefix("current/"), HEADER + batch(1, 3))
    assert node.find_segment(JOURNAL, 1, in_progress_ok=False) is None
    assert node.find_segment(JOURNAL, 2, in_progress_ok=True) is None
