"""Lifecycle of a JournalNode in memory: formats, epochs, several journals, and shutdown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hadoop_common.storage_info import JOURNAL_NODE
from hadoop_rpc.errors import (
    IllegalArgumentRemoteError,
    IllegalStateError,
    InconsistentStorageError,
    JavaIOError,
    JournalNotFormattedError,
    JournalOutOfSyncError,
    RemoteError,
)
from hadoop_rpc.qjournal_values import INVALID_TXID, RequestInfo
from journal_node import upkeep
from journal_node.disk import JournalOutput
from journal_node.node import JournalNode
from tests.journal_node.journal_node_support import (
    HEADER,
    JOURNAL,
    LAYOUT,
    NAMESPACE,
    Network,
    Writer,
    batch,
    formatted,
    logs,
)
from tests.journal_node.memory_disk import MemoryDisk

# ---- formatting ----


def test_unformatted_journal_refuses_all_calls(node: JournalNode) -> None:
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


def test_format_creates_an_empty_journal(node: JournalNode) -> None:
    node.format(JOURNAL, NAMESPACE, force=False)
    assert node.is_formatted(JOURNAL)
    assert node.get_storage_info(JOURNAL) == replace(NAMESPACE, blockpool_id="", storage_type=JOURNAL_NODE)
    assert logs(node) == []
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 0


def test_journal_is_reformatted_only_with_force(node: JournalNode, writer: Writer) -> None:
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


def test_format_without_a_namespace_is_refused(node: JournalNode) -> None:
    with pytest.raises(IllegalStateError, match="namespaceID 0"):
        node.format(JOURNAL, replace(NAMESPACE, namespace_id=0), force=True)


def test_closed_node_refuses_calls(node: JournalNode, writer: Writer, disk: MemoryDisk) -> None:
    assert disk.locked
    node.close()
    assert not vars(disk)["locked"]
    with pytest.raises(JavaIOError, match="stopping"):
        writer.heartbeat()


def test_delayed_call_to_a_closed_journal_changes_nothing(node: JournalNode, writer: Writer) -> None:
    """The call may have waited for its turn while the node was closed; by then, another process may use the folder."""
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


def test_close_also_releases_a_journal_that_is_being_opened() -> None:
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
        with pytest.raises(JavaIOError, match="the writer belongs to another namespace or cluster"):
            node.new_epoch(JOURNAL, other, 9)
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 1


def test_new_epoch_fences_the_previous_writer(network: Network, disk: MemoryDisk, writer: Writer) -> None:
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
    with pytest.raises(JavaIOError, match="not higher than the last promised epoch 2"):
        again.begin()


def test_call_with_a_newer_epoch_raises_the_promised_epoch(node: JournalNode, writer: Writer) -> None:
    writer.start(1)
    Writer(node, epoch=7).heartbeat()
    assert node.get_journal_state(JOURNAL).last_promised_epoch == 7
    with pytest.raises(JavaIOError, match="last promised epoch 7"):
        writer.write(1, 1, 1)


def test_serials_must_increase(node: JournalNode, writer: Writer) -> None:
    writer.heartbeat()
    for serial in (writer.serial, 0):
        with pytest.raises(JournalOutOfSyncError, match="serial"):
            node.heartbeat(RequestInfo(JOURNAL, 1, serial))
    writer.serial += 10
    writer.heartbeat()


def test_new_epoch_returns_the_newest_segment_with_a_transaction(
    node: JournalNode, writer: Writer, disk: MemoryDisk
) -> None:
    writer.segment(1, 10)
    writer.start(11)
    assert Writer(node, epoch=2).begin() == 1
    assert disk.exists("current/edits_inprogress_0000000000000000011.empty")
    writer = Writer(node, epoch=3)
    writer.start(11)
    writer.write(11, 11, 11)
    assert Writer(node, epoch=4).begin() == 11


def test_committed_txid_increases_and_is_kept(network: Network, disk: MemoryDisk, writer: Writer) -> None:
    node = writer.node
    assert node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == INVALID_TXID
    writer.committed = 7
    writer.heartbeat()
    writer.committed = 6
    with pytest.raises(IllegalArgumentRemoteError, match="cannot go back from 7 to 6"):
        writer.heartbeat()
    again = network.node("a", disk)
    assert again.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == 7


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


def test_opening_a_journal_is_retried() -> None:
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
        ("last-promised-epoch", b"1 2\r\n", "is not a number"),
        ("committed-txid", b"123", "has 3 bytes.*; next: Move the file away"),
        ("VERSION", b"layoutVersion=-63\n", "storageType is missing"),
        (
            "VERSION",
            b"storageType=NAME_NODE\nblockpoolID=x\nlayoutVersion=-63\nnamespaceID=1\ncTime=0\nclusterID=c\n",
            "NAME_NODE",
        ),
    ],
)
def test_unreadable_files_are_reported(name: str, data: bytes, problem: str, network: Network) -> None:
    disk = MemoryDisk("a")
    formatted(network.node("a", disk))
    disk.write(f"current/{name}", data)
    with pytest.raises((JavaIOError, InconsistentStorageError), match=f"a/current/{name}.*{problem}"):
        network.node("a", disk).is_formatted(JOURNAL)


def test_an_epoch_may_end_with_a_carriage_return(network: Network, disk: MemoryDisk) -> None:
    formatted(network.node("a", disk))
    disk.write("current/last-promised-epoch", b"7\r\n")
    assert network.node("a", disk).get_journal_state(JOURNAL).last_promised_epoch == 7


def test_empty_committed_txid_file_means_no_committed_txid(network: Network, disk: MemoryDisk) -> None:
    formatted(network.node("a", disk))
    disk.write("current/committed-txid", b"")
    assert network.node("a", disk).get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest.committed_txid == (
        INVALID_TXID
    )


def test_unknown_journal_ids_are_not_retained(node: JournalNode) -> None:
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
