"""A JournalNode in memory: effects and refusals, call by call (wire.md D.2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hadoop_common.storage_info import JOURNAL_NODE, StorageInfo
from hadoop_rpc.errors import (
    AssertionRemoteError,
    EditsCacheMissError,
    IllegalArgumentRemoteError,
    IllegalStateError,
    InconsistentStorageError,
    JavaIOError,
    JournalNotFormattedError,
    JournalOutOfSyncError,
    NewerTxidError,
    RemoteError,
)
from hadoop_rpc.qjournal_values import INVALID_TXID, JournaledEdits, PreparedRecovery, RequestInfo, SegmentState
from journal.segment import iter_ops
from journal_node import upkeep
from journal_node.disk import JournalOutput
from journal_node.node import JournalNode
from tests.journal_node.journal_node_support import (
    HEADER,
    JOURNAL,
    LAYOUT,
    NAMESPACE,
    OWN,
    Network,
    Writer,
    batch,
    formatted,
    other_batch,
    segment_at,
)
from tests.journal_node.memory_disk import Inode, MemoryDisk, MemoryOutput

FIRST = "current/edits_inprogress_0000000000000000001"


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk("a")


@pytest.fixture
def node(network: Network, disk: MemoryDisk) -> JournalNode:
    return network.node("a", disk, cache_bytes=10_000)


@pytest.fixture
def writer(node: JournalNode) -> Writer:
    return formatted(node)


def logs(node: JournalNode, since: int = 1, *, in_progress_ok: bool = True) -> list[tuple[int, int, bool]]:
    manifest = node.get_edit_log_manifest(JOURNAL, since, in_progress_ok=in_progress_ok).manifest
    return [(log.first, log.last, log.in_progress) for log in manifest.logs]


# ---- formatting ----


def test_nothing_can_be_done_before_the_format(node: JournalNode) -> None:
    writer = Writer(node)
    assert not node.is_formatted(JOURNAL)
    calls: list[Callable[[], object]] = [
        writer.begin,
        lambda: writer.start(1),
        lambda: writer.write(1, 1, 1),
        lambda: writer.end(1, 1),
        writer.heartbeat,
        lambda: writer.purge(1),
        lambda: writer.prepare(1),
        lambda: writer.accept(1, 1),
        lambda: logs(node),
        lambda: node.get_journal_state(JOURNAL),
        lambda: node.get_journaled_edits(JOURNAL, 1, 1),
        lambda: node.get_storage_info(JOURNAL),
        lambda: node.find_segment(JOURNAL, 1, in_progress_ok=True),
        lambda: node.get_journal_ctime(JOURNAL),
        lambda: node.do_pre_upgrade(JOURNAL),
        lambda: node.do_upgrade(JOURNAL, NAMESPACE),
        lambda: node.do_finalize(JOURNAL),
        lambda: node.can_roll_back(JOURNAL, NAMESPACE, NAMESPACE, LAYOUT),
        lambda: node.do_rollback(JOURNAL),
        lambda: node.discard_segments(JOURNAL, 1),
    ]
    for call in calls:
        with pytest.raises(JournalNotFormattedError, match="not formatted"):
            call()


def test_a_format_begins_an_empty_journal(node: JournalNode) -> None:
    node.format(JOURNAL, NAMESPACE, force=False)
    assert node.is_formatted(JOURNAL)
    assert node.get_storage_info(JOURNAL) == replace(NAMESPACE, blockpool_id="", storage_type=JOURNAL_NODE)
    assert logs(node) == []
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 0


def test_a_journal_is_formatted_again_by_force_only(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.start(4)
    with pytest.raises(InconsistentStorageError, match="in use as a journal"):
        node.format(JOURNAL, NAMESPACE, force=False)
    assert logs(node) == [(1, 3, False)]
    node.format(JOURNAL, NAMESPACE, force=True)
    assert logs(node) == []
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 0
    with pytest.raises(JavaIOError, match="not the current writer epoch 0"):
        writer.write(4, 4, 4)


def test_no_journal_is_formatted_for_no_namespace(node: JournalNode) -> None:
    with pytest.raises(IllegalStateError, match="namespaceID 0"):
        node.format(JOURNAL, replace(NAMESPACE, namespace_id=0), force=True)


def test_a_closed_node_takes_no_calls(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    assert disk.locked
    node.close()
    assert not vars(disk)["locked"]
    with pytest.raises(JavaIOError, match="stopping"):
        writer.heartbeat()


def test_a_call_that_comes_through_after_the_end_changes_nothing(node: JournalNode, writer: Writer) -> None:
    """The call may have waited for its turn while the node was closed, and another process may use the folder."""
    journal = node.open_journal(JOURNAL)
    node.close()
    calls: list[Callable[[], object]] = [
        lambda: journal.start_log_segment(writer.request(), 1, LAYOUT),
        lambda: journal.new_epoch(NAMESPACE, 2),
        lambda: upkeep.format_journal(journal, NAMESPACE, force=True),
        lambda: upkeep.self_format(journal, NAMESPACE, 1),
        lambda: upkeep.move_in_fetched(journal, "edits.sync/x", 1, 2),
    ]
    for call in calls:
        with pytest.raises(JavaIOError, match="journal j1 is closed"):
            call()


def test_a_journal_that_is_being_opened_is_let_go_of_too() -> None:
    disk, opening, go_on = MemoryDisk(JOURNAL), threading.Event(), threading.Event()
    formatted(JournalNode(lambda journal_id: disk))
    disk.unlock()

    def slow(journal_id: str) -> MemoryDisk:
        opening.set()
        assert go_on.wait(600)
        return disk

    node = JournalNode(slow)
    opener = threading.Thread(target=node.open_journal, args=(JOURNAL,))
    opener.start()
    assert opening.wait(600)
    closer = threading.Thread(target=node.close)
    closer.start()
    while not node._closed:
        closer.join(0.001)
    go_on.set()
    for each in (opener, closer):
        each.join(600)
        assert not each.is_alive()
    assert not disk.locked
    with pytest.raises(JavaIOError, match="stopping"):
        node.open_journal(JOURNAL)


# ---- epochs ----


def test_a_writer_of_another_namespace_is_refused(node: JournalNode, writer: Writer) -> None:
    for other in (replace(NAMESPACE, namespace_id=7), replace(NAMESPACE, cluster_id="CID-other")):
        with pytest.raises(JavaIOError, match="do not belong together"):
            node.new_epoch(JOURNAL, other, 9)
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 1


def test_a_new_epoch_fences_the_writer_before(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    newer = Writer(writer.node, epoch=2)
    assert newer.begin() == 1
    fenced: list[Callable[[], object]] = [
        lambda: writer.write(1, 4, 4),
        writer.heartbeat,
        lambda: writer.end(1, 3),
        lambda: writer.start(4),
    ]
    for call in fenced:
        with pytest.raises(JavaIOError, match="epoch 1 is less than the last promised epoch 2"):
            call()
    with pytest.raises(JavaIOError, match="not the current writer epoch 1"):
        newer.write(1, 4, 4)
    disk.crash()
    again = Writer(network.node("a", disk), epoch=2)
    assert again.node.get_journal_state(JOURNAL).last_promised_epoch == 2
    with pytest.raises(JavaIOError, match="not above the last promised epoch 2"):
        again.begin()


def test_a_newer_writer_that_was_not_announced_is_promised_too(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    Writer(node, epoch=7).heartbeat()
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 7
    with pytest.raises(JavaIOError, match="last promised epoch 7"):
        writer.write(1, 1, 1)


def test_serials_rise(node: JournalNode, writer: Writer) -> None:
    writer.heartbeat()
    for serial in (writer.serial, 0):
        with pytest.raises(JournalOutOfSyncError, match="serial"):
            node.heartbeat(RequestInfo(JOURNAL, 1, serial))
    writer.serial += 10
    writer.heartbeat()


def test_the_newest_segment_with_a_transaction_is_told(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.segment(1, 10)
    writer.start(11)
    assert Writer(node, epoch=2).begin() == 1
    assert disk.exists("current/edits_inprogress_0000000000000000011.empty")
    writer = Writer(node, epoch=3)
    writer.start(11)
    writer.write(11, 11, 11)
    assert Writer(node, epoch=4).begin() == 11


def test_the_committed_txid_rises_and_is_kept(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    node = writer.node
    assert node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == INVALID_TXID
    writer.committed = 7
    writer.heartbeat()
    writer.committed = 6
    with pytest.raises(IllegalArgumentRemoteError, match="cannot go back from 7 to 6"):
        writer.heartbeat()
    again = network.node("a", disk)
    assert again.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == 7


# ---- writing ----


def test_batches_are_kept_as_they_came(writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.write(1, 1, 2)
    writer.write(1, 3, 3)
    assert disk.read(FIRST) == HEADER + batch(1, 3)
    writer.end(1, 3)
    content = disk.read("current/edits_0000000000000000001-0000000000000000003")
    assert [op.txid for op in iter_ops(content, first_txid=1, last_txid=3)] == [1, 2, 3]


def test_batches_out_of_order_are_refused(writer: Writer, disk: MemoryDisk) -> None:
    with pytest.raises(JavaIOError, match="not the current writer epoch"):
        writer.write(1, 1, 1)
    writer.start(1)
    with pytest.raises(JournalOutOfSyncError, match="txid 2 cannot be written: 1 has to come next"):
        writer.write(1, 2, 2)
    writer.write(1, 1, 1)
    with pytest.raises(JournalOutOfSyncError, match="txid 1 cannot be written: 2"):
        writer.write(1, 1, 1)
    writer.end(1, 1)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 2, 2)
    assert disk.read("current/edits_0000000000000000001-0000000000000000001") == HEADER + batch(1, 1)


def test_a_batch_of_another_segment_ends_the_open_one(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.start(4)
    with pytest.raises(JournalOutOfSyncError, match="writer is in segment 1, but segment 4 is open"):
        writer.write(1, 4, 4)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(4, 4, 4)


def test_a_batch_of_nothing_tells_the_committed_txid(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    writer.committed = 3
    node.journal(writer.request(), 1, 4, 0, b"")
    assert node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == 3


def test_what_is_committed_elsewhere_is_not_synced(
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


def test_a_segment_that_was_not_synced_is_when_it_ends(writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.committed = 8
    writer.write(1, 1, 8)
    writer.end(1, 8)
    disk.crash()
    assert disk.read("current/edits_0000000000000000001-0000000000000000008") == HEADER + batch(1, 8)


def test_a_start_lets_go_of_the_open_segment(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    writer.start(4)
    with pytest.raises(JournalOutOfSyncError):
        writer.write(1, 4, 4)
    with pytest.raises(IllegalStateError, match="exists with other transactions than 1"):
        writer.start(1)
    assert logs(node) == [(1, 3, True)]


def test_no_segment_begins_over_another(writer: Writer) -> None:
    writer.segment(1, 3)
    with pytest.raises(IllegalStateError, match="finalized already"):
        writer.start(1)
    writer.start(4)
    writer.write(4, 4, 4)
    writer.start(4)
    writer.write(4, 4, 5)
    with pytest.raises(IllegalStateError):
        writer.start(4)


# ---- the end of a segment ----


def test_a_segment_ends_where_it_was_written_to(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    with pytest.raises(JournalOutOfSyncError, match="end with txid 4: it is written up to txid 3"):
        writer.end(1, 4)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 4, 4)
    with pytest.raises(JournalOutOfSyncError, match="end with txid 2"):
        writer.end(1, 2)
    writer.end(1, 3)
    writer.end(1, 3)
    assert logs(node) == [(1, 3, False)]
    with pytest.raises(IllegalArgumentRemoteError, match="finalized with txid 3 already, not with 2"):
        writer.end(1, 2)
    with pytest.raises(JournalOutOfSyncError, match="cannot finalize segment 4"):
        writer.end(4, 5)


def test_a_restarted_node_ends_a_segment_that_it_scans(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    again = Writer(network.node("a", disk), serial=10)
    with pytest.raises(JournalOutOfSyncError, match="written up to txid 3"):
        again.end(1, 4)
    again.end(1, 3)
    assert logs(network.nodes["a"]) == [(1, 3, False)]


def test_a_torn_batch_does_not_count(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    disk.files[FIRST].data += batch(4, 5)[:-3]
    node = network.node("a", disk)
    assert Writer(node, epoch=2).begin() == 1
    assert Writer(node, epoch=2).prepare(1).segment == SegmentState(1, 4, True)


def test_damage_before_whole_transactions_is_not_passed_over(
    network: Network, disk: MemoryDisk, writer: Writer
) -> None:
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


# ---- recovery ----


def test_a_recovery_is_prepared(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.committed = 3
    writer.start(4)
    writer.write(4, 4, 6)
    newer = Writer(node, epoch=2)
    newer.begin()
    assert newer.prepare(4) == PreparedRecovery(SegmentState(4, 6, True), None, 1, 3)
    assert newer.prepare(1) == PreparedRecovery(SegmentState(1, 3, False), None, 1, 3)
    assert newer.prepare(7) == PreparedRecovery(None, None, 1, 3)


def test_a_segment_without_transactions_is_nothing_to_recover(
    node: JournalNode, writer: Writer, disk: MemoryDisk
) -> None:
    writer.start(1)
    assert writer.prepare(1) == PreparedRecovery(None, None, 1, None)
    assert disk.exists(FIRST + ".empty")


def test_what_was_accepted_is_told_until_the_segment_ends(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.write(1, 1, 5)
    newer = Writer(node, epoch=2)
    newer.begin()
    newer.accept(1, 5)
    assert newer.prepare(1) == PreparedRecovery(SegmentState(1, 5, True), 2, 1, None)
    newer.end(1, 5)
    assert newer.prepare(1) == PreparedRecovery(SegmentState(1, 5, False), None, 1, None)
    assert not disk.exists("current/paxos/1")


def test_nothing_is_written_once_a_recovery_has_begun(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 5)
    writer.prepare(1)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 6, 6)
    writer.accept(1, 5)
    with pytest.raises(JournalOutOfSyncError, match="no segment is open"):
        writer.write(1, 6, 6)


def test_a_segment_that_starts_over_forgets_its_recovery(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.write(1, 1, 1)
    writer.accept(1, 1)
    assert disk.exists("current/paxos/1")
    writer.start(1)
    assert not disk.exists("current/paxos/1")


@pytest.fixture
def longer(network: Network) -> Writer:
    """Return another node, with transactions 1 to 8."""
    writer = formatted(network.node("b"))
    writer.start(1)
    writer.write(1, 1, 8)
    return writer


@pytest.mark.parametrize("own", [0, 3, 10])
def test_a_copy_that_differs_is_replaced(
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
    """Write a segment 1 to 8 with `records`, which the next epoch recovers; returns its file."""
    writer.start(1)
    node.journal(writer.request(), 1, 1, 8, records)
    writer.epoch = 2
    return _memory(node).files[FIRST]


def _memory(node: JournalNode) -> MemoryDisk:
    disk = node.open_journal(JOURNAL).storage.disk
    assert isinstance(disk, MemoryDisk)
    return disk


def test_a_copy_as_long_that_holds_other_transactions_is_replaced(
    node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk
) -> None:
    """Hadoop's node keeps and finalizes it."""
    _another(node, writer, other_batch(1, 8))
    assert node.get_journaled_edits(JOURNAL, 1, 9).count == 8
    writer.accept(1, 8, segment_at("b", 1))
    assert disk.read(FIRST) == HEADER + batch(1, 8)
    with pytest.raises(EditsCacheMissError):
        node.get_journaled_edits(JOURNAL, 1, 9)
    writer.end(1, 8)
    assert logs(node) == [(1, 8, False)]


@pytest.mark.parametrize("padded", [b"", b"\xff" * 100, b"\x00\x00"])
def test_a_copy_that_holds_the_same_is_kept(
    node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk, padded: bytes
) -> None:
    """Bytes after the transactions, as Hadoop preallocates them, are ignored."""
    own = _another(node, writer, batch(1, 8))
    own.data += padded
    writer.accept(1, 8, segment_at("b", 1))
    assert disk.files[FIRST] is own
    assert node.get_journaled_edits(JOURNAL, 1, 9).count == 8
    assert [name for name in disk.files if "epoch=" in name or name.endswith(".tmp")] == []


def test_padding_of_what_is_fetched_does_not_count(
    network: Network, node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk
) -> None:
    own = _another(node, writer, batch(1, 8))
    network.nodes["b"].new_epoch(JOURNAL, NAMESPACE, 2)
    _memory(network.nodes["b"]).files[FIRST].data += b"\xff" * 1000
    writer.accept(1, 8, segment_at("b", 1))
    assert disk.files[FIRST] is own


def test_a_copy_that_cannot_be_compared_is_not_accepted(
    network: Network, node: JournalNode, writer: Writer, longer: Writer, disk: MemoryDisk
) -> None:
    _another(node, writer, batch(1, 8))
    network.cut.add("b")
    with pytest.raises(JavaIOError, match="cannot be reached"):
        writer.accept(1, 8, segment_at("b", 1))
    assert not disk.exists("current/paxos/1")
    with pytest.raises(JournalOutOfSyncError, match="neither begun nor accepted in recovery here in epoch 2"):
        writer.end(1, 8)
    network.cut.clear()
    writer.accept(1, 8, segment_at("b", 1))
    network.cut.add("b")
    writer.accept(1, 8, segment_at("b", 1))  # what was accepted in an epoch needs no second look in it
    newer = Writer(node, epoch=3)
    with pytest.raises(JavaIOError, match="cannot be reached"):
        newer.accept(1, 8, segment_at("b", 1))
    newer.accept(1, 8)
    newer.end(1, 8)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8481/x", "http://192.0.2.7:8480/x", "http://127.0.0.1:y/x", "http://:8480/x", "x"]
)
def test_only_its_own_address_is_a_nodes_own(url: str) -> None:
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


def test_what_the_writer_wrote_before_a_restart_can_be_ended(
    network: Network, node: JournalNode, writer: Writer, disk: MemoryDisk
) -> None:
    writer.start(1)
    writer.write(1, 1, 8)
    writer.node = network.node("a", disk)
    writer.end(1, 8)
    assert logs(network.nodes["a"]) == [(1, 8, False)]


def test_what_an_older_writer_left_is_not_ended_unseen(node: JournalNode, writer: Writer) -> None:
    """Hadoop's NameNode tells all nodes to end the segment that a majority accepted."""
    writer.start(1)
    writer.write(1, 1, 8)
    writer.epoch = 2
    writer.start(9)
    writer.write(9, 9, 9)
    with pytest.raises(JournalOutOfSyncError, match="here in epoch 2"):
        writer.end(1, 8)
    writer.end(9, 9)
    assert logs(node) == [(1, 8, True), (9, 9, False)]


def test_what_was_replaced_is_not_served_from_memory(node: JournalNode, writer: Writer, longer: Writer) -> None:
    writer.start(1)
    node.journal(writer.request(), 1, 1, 3, batch(1, 3).replace(b"\x17", b"\x18"))
    assert node.get_journaled_edits(JOURNAL, 1, 9).count == 3
    writer.epoch = 2
    writer.accept(1, 8, segment_at("b", 1))
    with pytest.raises(EditsCacheMissError):
        node.get_journaled_edits(JOURNAL, 1, 9)


def test_what_comes_has_to_be_the_segment(
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


def test_committed_transactions_are_not_given_up(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 10)
    writer.committed = 9
    with pytest.raises(AssertionRemoteError, match="committed txid 9 would be lost"):
        writer.accept(1, 8, segment_at("b", 1))
    assert writer.prepare(1).segment == SegmentState(1, 10, True)


def test_a_finalized_segment_is_not_given_up(node: JournalNode, writer: Writer) -> None:
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


# ---- purging and discarding ----


def test_a_purge_removes_what_lies_before(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
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


def test_what_cannot_be_purged_stays(
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


def test_a_manifest_begins_with_the_segment_that_holds_the_txid(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.segment(4, 6)
    writer.start(7)
    assert logs(node) == [(1, 3, False), (4, 6, False)]
    writer.write(7, 7, 9)
    everything = [(1, 3, False), (4, 6, False), (7, 9, True)]
    for since, count in ((0, 3), (1, 3), (3, 3), (4, 2), (5, 2), (7, 1), (9, 1), (10, 0)):
        assert logs(node, since) == everything[3 - count :]
    assert logs(node, in_progress_ok=False) == everything[:2]


def test_a_segment_whose_end_was_missed_is_told_as_far_as_it_is(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    writer.write(1, 1, 2)
    writer.start(4)
    writer.write(4, 4, 9)
    assert logs(node) == [(1, 2, True), (4, 9, True)]


def test_the_newest_transactions_are_served_from_memory(node: JournalNode, writer: Writer) -> None:
    writer.segment(1, 3)
    writer.start(4)
    writer.write(4, 4, 9)
    assert node.get_journaled_edits(JOURNAL, 2, 100) == JournaledEdits(8, HEADER + batch(2, 9))
    assert node.get_journaled_edits(JOURNAL, 2, 4) == JournaledEdits(4, HEADER + batch(2, 5))
    assert node.get_journaled_edits(JOURNAL, 10, 5) == JournaledEdits(0, b"")
    with pytest.raises(NewerTxidError, match="newest txid here is 9, 11"):
        node.get_journaled_edits(JOURNAL, 11, 5)


def test_memory_forgets_what_another_writer_left(node: JournalNode, writer: Writer) -> None:
    """These transactions may never have been on a majority, even if the next segment follows them."""
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


def test_what_was_not_written_in_this_life_is_not_in_memory(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    writer.segment(1, 3)
    node = network.node("a", disk, cache_bytes=10_000)
    assert node.get_journaled_edits(JOURNAL, 4, 5) == JournaledEdits(0, b"")
    with pytest.raises(EditsCacheMissError):
        node.get_journaled_edits(JOURNAL, 3, 5)
    uncached = network.node("a", disk)
    with pytest.raises(JavaIOError, match=r"dfs\.ha\.tail-edits\.in-progress"):
        uncached.get_journaled_edits(JOURNAL, 3, 5)


def test_memory_holds_only_what_is_on_disk(node: JournalNode, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_whole_batches_are_served(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    writer.start(1)
    writer.write(1, 1, 3)
    disk.files[FIRST].data += b"half of the next batch"
    found = node.find_segment(JOURNAL, 1, in_progress_ok=True)
    assert found is not None
    assert (found.name, found.content.read(found.size)) == (FIRST.removeprefix("current/"), HEADER + batch(1, 3))
    assert node.find_segment(JOURNAL, 1, in_progress_ok=False) is None
    assert node.find_segment(JOURNAL, 2, in_progress_ok=True) is None


# ---- journals side by side ----


class _Gate:
    """An output whose appends wait."""

    def __init__(self, output: JournalOutput) -> None:
        self._output = output
        self.entered = threading.Event()
        self.leave = threading.Event()

    @property
    def written(self) -> int:
        return self._output.written

    def append(self, data: bytes, *, sync: bool) -> None:
        self.entered.set()
        assert self.leave.wait(600)
        self._output.append(data, sync=sync)

    def sync(self) -> None:
        self._output.sync()

    def close(self) -> None:
        self._output.close()


@pytest.fixture
def gates() -> Iterator[list[_Gate]]:
    found: list[_Gate] = []
    yield found
    for gate in found:
        gate.leave.set()


def test_readers_and_other_journals_do_not_wait_for_a_writer(gates: list[_Gate]) -> None:
    disks = {name: MemoryDisk(name) for name in ("j1", "j2")}
    node = JournalNode(disks.__getitem__, cache_bytes=1000)
    writer = formatted(node)
    writer.start(1)
    writer.write(1, 1, 3)
    journal = node.open_journal(JOURNAL)
    assert journal._output is not None
    gates.append(gate := _Gate(journal._output))
    journal._output = gate
    slow = threading.Thread(target=lambda: writer.write(1, 4, 4))
    slow.start()
    assert gate.entered.wait(600)
    assert logs(node) == [(1, 3, True)]
    assert node.get_journaled_edits(JOURNAL, 4, 1).count == 0
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 1
    found = node.find_segment(JOURNAL, 1, in_progress_ok=True)
    assert found is not None
    assert found.size == len(HEADER + batch(1, 3))
    node.format("j2", NAMESPACE, force=False)
    other = Writer(node, journal_id="j2")
    other.begin()
    other.segment(1, 2)
    assert slow.is_alive()
    gate.leave.set()
    slow.join(600)
    assert logs(node) == [(1, 4, True)]


def test_a_journal_that_cannot_be_opened_is_tried_again() -> None:
    disk = MemoryDisk("a")
    node = JournalNode(lambda _: disk)
    disk.make_directory("previous.tmp")
    disk.make_directory("removed.tmp")
    for _ in range(2):
        with pytest.raises(InconsistentStorageError, match="cannot both exist"):
            node.is_formatted(JOURNAL)
        assert not disk.locked
    disk.remove_tree("removed.tmp")
    disk.remove_tree("previous.tmp")
    assert not node.is_formatted(JOURNAL)


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("last-promised-epoch", b"", "is not a number"),
        ("last-promised-epoch", b"x\n", "is not a number"),
        ("committed-txid", b"123", "has 3 bytes"),
        ("VERSION", b"layoutVersion=-63\n", "storageType is missing"),
        (
            "VERSION",
            b"storageType=NAME_NODE\nblockpoolID=x\nlayoutVersion=-63\nnamespaceID=1\ncTime=0\nclusterID=c\n",
            "NAME_NODE",
        ),
    ],
)
def test_files_that_cannot_be_read_are_named(name: str, data: bytes, problem: str, network: Network) -> None:
    disk = MemoryDisk("a")
    formatted(network.node("a", disk))
    disk.write(f"current/{name}", data)
    with pytest.raises((JavaIOError, InconsistentStorageError), match=f"a/current/{name}.*{problem}"):
        network.node("a", disk).is_formatted(JOURNAL)


def test_an_empty_committed_txid_is_none(network: Network, disk: MemoryDisk) -> None:
    formatted(network.node("a", disk))
    disk.write("current/committed-txid", b"")
    assert network.node("a", disk).get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == (
        INVALID_TXID
    )


def test_names_that_nothing_is_behind_leave_nothing_behind(node: JournalNode) -> None:
    node.open_journal("configured")
    for number in range(100):
        assert not node.is_formatted(f"junk-{number}")
        with pytest.raises(JournalNotFormattedError):
            node.get_journal_state(f"junk-{number}")
        with pytest.raises(RemoteError):
            node.is_formatted(f"junk\n{number}")
    assert [journal.journal_id for journal in node.journals()] == ["configured"]
    assert list(node._slots) == ["configured"]
    node.format("wanted", NAMESPACE, force=False)
    assert node.is_formatted("wanted")
    assert {journal.journal_id for journal in node.journals()} == {"configured", "wanted"}
