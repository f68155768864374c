"""Kills, power cuts and failing disks at every durable step of a JournalNode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import cast

import pytest

from hadoop_rpc.errors import JavaIOError, RemoteError
from hadoop_rpc.qjournal_values import SegmentState
from journal_node.disk import JournalDisk
from journal_node.node import JournalNode
from journal_node.segment_scan import scan_end
from tests.journal_node.journal_node_cases import CASES, Case, faulty_node, peers
from tests.journal_node.journal_node_support import (
    HEADER,
    JOURNAL,
    NAMESPACE,
    Network,
    Writer,
    batch,
    formatted,
    logs,
    node_on,
    other_batch,
    outcome,
)
from tests.journal_node.memory_disk import FaultyDisk, Killed, MemoryDisk


def _end_of_11(node: JournalNode, epoch: int) -> int:
    """Recover segment 11 with this node alone, and finalize it at the end found."""
    writer = Writer(node, epoch=epoch)
    newest = writer.begin()
    assert newest in (11, None) or newest == 1
    prepared = writer.prepare(11)
    assert prepared.segment is not None
    last = prepared.segment.last
    writer.accept(11, last)
    assert writer.prepare(11).segment == SegmentState(11, last, prepared.segment.in_progress)
    writer.end(11, last)
    writer.segment(last + 1, last + 3)
    return last


def _check(case: Case, network: Network, disk: MemoryDisk, *, answered: bool) -> None:
    """Check that the next start finds a state that the protocol allows; if the call was answered, the state contains
    its change.
    """
    node = network.node("a", disk)
    assert node.is_formatted(JOURNAL)
    assert node.get_journal_state(JOURNAL).last_promised_epoch in (1, 2)
    first = [log[:2] for log in logs(node, in_progress_ok=False) if log[0] == 1]
    assert first == [(1, 10)] or (case is CASES["purge"] and not first)
    assert _end_of_11(node, epoch=3) in (case.after if answered else case.before)
    for name, inode in disk.files.items():
        if "/edits_0" in name:
            begin, last = (int(part) for part in name.rpartition("_")[2].split("-"))
            assert scan_end(bytes(inode.data), begin) == (last, "")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_state_after_a_kill_at_any_step_is_accepted_by_the_next_start(name: str, power_cut: bool, after: bool) -> None:
    case = CASES[name]
    for at in count():
        network = peers()
        disk, writer, _ = faulty_node(case, network, at, Killed, after=after)
        answered = False
        try:
            case.operation(writer)
            answered = True
        except Killed:
            pass
        if power_cut:
            disk.crash()
        _check(case, network, disk, answered=answered)
        if answered:
            assert at > 0
            break


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("after", [False, True])
def test_failed_step_fails_the_call_and_the_node_continues(name: str, after: bool) -> None:
    case = CASES[name]
    for at in count():
        _, writer, faulty = faulty_node(case, peers(), at, lambda: OSError(28, "No space left on device"), after=after)
        refused = outcome(partial(case.operation, writer)) == JavaIOError.java_class
        faulty.disarm()
        assert refused == (faulty.tripped and name != "purge")
        node = writer.node
        assert isinstance(node, JournalNode)
        assert _end_of_11(node, epoch=3) in (case.before if faulty.tripped else case.after)
        if not faulty.tripped:
            break
    assert at > 0


@pytest.mark.parametrize("after", [False, True])
def test_kill_during_an_accept_is_completed_or_has_no_effect(after: bool) -> None:
    """Once the record is durable, the node replaces its copy, even after a restart at any later time (HDFS-3955)."""
    case = CASES["accept a longer one"]
    seen = set()
    for at in count():
        network = peers()
        disk, writer, _ = faulty_node(case, network, at, Killed, after=after)
        try:
            case.operation(writer)
            break
        except Killed:
            recorded = disk.exists("current/paxos/11")
        disk.crash()
        newer = Writer(network.node("a", disk), epoch=3)
        newer.begin()
        prepared = newer.prepare(11)
        expected = SegmentState(11, 18, True) if recorded else SegmentState(11, 15, True)
        assert (prepared.segment, prepared.accepted_in_epoch) == (expected, 2 if recorded else None)
        seen.add((recorded, disk.read("current/edits_inprogress_0000000000000000011") == HEADER + batch(11, 18)))
    assert seen == {(False, False), (True, True)}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("power_cut", [False, True])
def test_kill_during_the_replacement_of_a_copy_of_equal_length(after: bool, power_cut: bool) -> None:
    """After the kill, the same writer ends the segment, as Hadoop's writer does on all nodes."""
    case = CASES["accept another as long"]
    seen = set()
    for at in count():
        network = peers()
        disk, writer, _ = faulty_node(case, network, at, Killed, after=after)
        try:
            case.operation(writer)
            break
        except Killed:
            recorded = disk.exists("current/paxos/11")
        if power_cut:
            disk.crash()
        writer.node = network.node("a", disk)
        ended = outcome(partial(writer.end, 11, 15)) is None
        assert ended == recorded
        name = "edits_0000000000000000011-0000000000000000015" if ended else "edits_inprogress_0000000000000000011"
        assert disk.read(f"current/{name}") == HEADER + (other_batch(11, 15) if recorded else batch(11, 15))
        seen.add(recorded)
    assert seen == {False, True}


@pytest.mark.parametrize("at", range(12))
def test_failure_between_the_record_and_the_copy_is_completed_later(at: int) -> None:
    """After the failure, the node continues, and the writer ends the segment."""
    case = CASES["accept another as long"]
    disk, writer, faulty = faulty_node(case, peers(), at, lambda: OSError(5, "Input/output error"), after=False)
    outcome(partial(case.operation, writer))
    faulty.disarm()
    if outcome(partial(writer.end, 11, 15)) is None:
        assert disk.read("current/edits_0000000000000000011-0000000000000000015") == HEADER + other_batch(11, 15)
    else:
        assert disk.read("current/edits_inprogress_0000000000000000011") == HEADER + batch(11, 15)


@pytest.mark.parametrize("fault", [Killed, lambda: OSError(28, "No space left on device")], ids=["kill", "error"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_discard_leaves_no_gap_and_is_completed_by_a_repetition(
    fault: Callable[[], BaseException], after: bool
) -> None:
    """A remaining segment keeps the record of its recovery, because a majority may depend on this acceptance."""
    for at in count():
        network = peers()
        disk, writer, faulty = faulty_node(CASES["accept again"], network, at, fault, after=after)
        try:
            outcome(partial(writer.node.discard_segments, JOURNAL, 1))
        except Killed:
            disk.crash()
            writer.node = network.node("a", disk)
        faulty.disarm()
        node = writer.node
        assert isinstance(node, JournalNode)
        remaining = [log[:2] for log in logs(node)]
        assert remaining == [(1, 10), (11, 15)][: len(remaining)]
        newer = Writer(node, epoch=3)
        newer.begin()
        if len(remaining) == 2:
            assert newer.prepare(11).accepted_in_epoch == 2
        node.discard_segments(JOURNAL, 1)
        assert logs(node) == []
        assert newer.prepare(11).segment is None
        newer.segment(1, 3)
        if not faulty.tripped:
            break
    assert at > 2


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_kill_during_a_format_leaves_the_old_or_new_journal_or_none(force: bool, after: bool) -> None:
    """A half-formatted folder counts as unformatted, and can be formatted again."""
    for at in count():
        disk = MemoryDisk("a")
        if force:
            writer = formatted(node_on(disk))
            writer.segment(1, 3)
        old = copy.deepcopy(disk)
        faulty = FaultyDisk(disk, at, Killed, after=after)
        node = node_on(cast(JournalDisk, faulty))
        try:
            node.format(JOURNAL, NAMESPACE, force=force)
        except Killed:
            disk.crash()
        again = node_on(disk)
        if again.is_formatted(JOURNAL):
            same = disk.files.keys() == old.files.keys()
            assert same or logs(again, in_progress_ok=False) == []
            assert again.get_journal_state(JOURNAL).last_promised_epoch == (1 if same and force else 0)
        else:
            again.format(JOURNAL, NAMESPACE, force=force)
        if not faulty.tripped:
            break
    assert at > 2


@pytest.mark.parametrize("after", [False, True])
def test_acknowledged_promise_is_kept(after: bool) -> None:
    """After any kill, a node that promised an epoch refuses earlier epochs."""
    for at in count():
        network = peers()
        disk, writer, _ = faulty_node(CASES["newEpoch"], network, at, Killed, after=after)
        try:
            writer.node.new_epoch(JOURNAL, NAMESPACE, 2)
        except Killed:
            disk.crash()
            again = Writer(network.node("a", disk), epoch=1, serial=100)
            promised = again.node.get_journal_state(JOURNAL).last_promised_epoch
            if promised == 2:
                with pytest.raises(RemoteError, match="last promised epoch 2"):
                    again.heartbeat()
            continue
        disk.crash()
        assert network.node("a", disk).get_journal_state(JOURNAL).last_promised_epoch == 2
        break
    assert at > 0


def test_an_unsynced_tail_that_was_accepted_survives_a_power_cut() -> None:
    """A node that lags behind does not sync its writes, so it must sync before it reports the segment."""
    network = peers()
    disk = MemoryDisk("a")
    writer = formatted(network.node("a", disk))
    writer.start(11)
    writer.committed = 14
    writer.write(11, 11, 14)
    writer.epoch = 2
    writer.accept(11, 14)
    disk.crash()
    assert Writer(network.node("a", disk), epoch=3).prepare(11).segment == SegmentState(11, 14, True)
