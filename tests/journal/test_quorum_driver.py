"""The threads around a quorum journal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from journal.errors import JournalError
from journal.quorum.errors import JournalClosedError, QuorumError
from journal.quorum.quorum_journal import QuorumJournal
from tests.journal.quorum_model import LAYOUT, NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, mark, read_all, write_segment
from tests.journal.quorum_simulation import SETTINGS, Simulation
from tests.journal.quorum_threads import DEADLINE, HeldNode, threaded, wait_for

SHORT = replace(SETTINGS, write_transactions=0.05, operations=0.05, select_input_streams=0.05)


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(ModelNode)


@pytest.fixture
def opened(simulation: Simulation) -> Iterator[tuple[QuorumJournal, list[HeldNode]]]:
    """A formatted and recovered journal."""
    with threaded(simulation, drain=0.05) as (journal, ways):
        journal.format(NAMESPACE)
        journal.recover(NAMESPACE)
        yield journal, ways


def test_segments_are_written_and_read(opened: tuple[QuorumJournal, list[HeldNode]]) -> None:
    journal, _ = opened
    for first in range(1, 91, 3):
        write_segment(journal, first, first + 2)
    assert read_all(journal.segments(1)) == {txid: mark(txid, 0) for txid in range(1, 91)}
    assert journal.epoch == 1


def test_a_node_that_hangs_does_not_hold_up_the_others(
    opened: tuple[QuorumJournal, list[HeldNode]], simulation: Simulation
) -> None:
    journal, ways = opened
    ways[2].hold("journal")
    write_segment(journal, 1, 10)
    wait_for(lambda: journal.node_statuses[0].acked_txid == journal.node_statuses[1].acked_txid == 10)
    status = journal.node_statuses[2]
    assert (status.acked_txid, status.lag_txids, status.out_of_sync) == (0, 10, "")
    assert status.queued_bytes > 0
    ways[2].hold()
    wait_for(lambda: journal.node_statuses[2].acked_txid == 10)
    wait_for(lambda: "finalize_log_segment" in ways[2].calls)
    assert journal.node_statuses[2].queued_bytes == 0


def test_readers_do_not_wait_behind_the_writer(opened: tuple[QuorumJournal, list[HeldNode]]) -> None:
    journal, ways = opened
    write_segment(journal, 1, 3)
    for way in ways:
        way.hold("start_log_segment")
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(journal.start_segment, 4, LAYOUT)
        wait_for(lambda: all(way.waiting for way in ways))
        assert journal.count(1) == 3
        for way in ways:
            way.hold()
        starting.result()


def test_a_call_ends_with_its_timeout(simulation: Simulation) -> None:
    with threaded(simulation, SHORT, drain=0.05) as (journal, ways):
        for way in ways:
            way.hold("is_formatted")
        with pytest.raises(QuorumError, match=r"isFormatted: 0 of 3 .* no answer within 0.05 s from jn1"):
            journal.is_formatted()


def test_time_for_which_the_process_was_stopped_does_not_count(simulation: Simulation) -> None:
    """The clock jumps by an hour during a wait for a node."""
    now = [0.0]
    with threaded(simulation, clock=lambda: now[0], drain=0.05) as (journal, ways):
        ways[0].hold("is_formatted")
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(journal.is_formatted)
            wait_for(lambda: ways[0].waiting == 1)
            now[0] += 3600.0
            ways[0].hold()
            assert asking.result() is False


def test_closing_ends_calls_that_wait(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.quorum.driver._CLOSE_SECONDS", DEADLINE)
    with threaded(simulation, drain=0.05) as (journal, ways):
        journal.format(NAMESPACE)
        journal.recover(NAMESPACE)
        segment = journal.start_segment(1, LAYOUT)
        for way in ways:
            way.hold("journal", "get_edit_log_manifest")
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(segment.append, batch(1, 3)), pool.submit(journal.segments, 1)]
            wait_for(lambda: all(way.waiting == 2 for way in ways))
            journal.close()
            for each in waiting:
                with pytest.raises(JournalClosedError):
                    each.result()
    assert all(way.closed for way in ways)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("journal-jn")]


def test_closing_lets_slower_nodes_take_what_is_queued(simulation: Simulation) -> None:
    with threaded(simulation, drain=DEADLINE) as (journal, ways):
        journal.format(NAMESPACE)
        journal.recover(NAMESPACE)
        ways[2].hold("journal")
        write_segment(journal, 1, 20)
        ways[2].hold()
        journal.close()
    for host in simulation.hosts.values():
        assert host.node.snapshot().finalized.keys() == {1}


def test_an_error_in_a_call_reaches_who_asked(
    opened: tuple[QuorumJournal, list[HeldNode]], simulation: Simulation
) -> None:
    journal, _ = opened

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of this program")

    for host in simulation.hosts.values():
        host.node.start_log_segment = broken
    with pytest.raises(QuorumError, match="a fault of this program"):
        journal.start_segment(1, LAYOUT)


def test_a_moment_without_threads_costs_no_node(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with threaded(simulation) as (journal, _):
        with monkeypatch.context() as exhausted:
            exhausted.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                journal.format(NAMESPACE)
        journal.format(NAMESPACE)
        journal.recover(NAMESPACE)
        write_segment(journal, 1, 3)
        assert journal.count(1) == 3


def test_of_many_writers_at_once_the_last_one_goes_on(simulation: Simulation) -> None:
    """Real threads compete for the journal; each acknowledged batch exists exactly once at the end."""
    acked: dict[int, bytes] = {}
    noted = threading.Lock()

    def write(value: int) -> None:
        with threaded(simulation, drain=0.0) as (journal, _):
            try:
                journal.recover(NAMESPACE)
                first = journal.count(1) + 1
                segment = journal.start_segment(first, LAYOUT)
                for txid in range(first, first + 20):
                    segment.append(batch(txid, txid, value))
                    with noted:
                        assert txid not in acked
                        acked[txid] = mark(txid, value)
                segment.finalize(first + 19)
            except JournalError:
                return

    with threaded(simulation) as (journal, _):
        journal.format(NAMESPACE)
    one_at_a_time = threading.RLock()
    for host in simulation.hosts.values():
        host.node = _Locked(host.node, one_at_a_time)
    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(write, value) for value in range(1, 13)]:
            each.result()
    with threaded(simulation) as (journal, _):
        journal.recover(NAMESPACE)
        found = read_all(journal.segments(1))
    assert found.items() >= acked.items()
    assert list(found) == list(range(1, len(found) + 1))


class _Locked:
    """A lock around a node in memory, which is not thread-safe; one node may fetch from another at the same time."""

    def __init__(self, node: ModelNode, lock: AbstractContextManager[object]) -> None:
        self._node = node
        self._lock = lock

    def __getattr__(self, name: str) -> object:
        method = getattr(self._node, name)

        def called(*arguments: object, **named: object) -> object:
            with self._lock:
                return method(*arguments, **named)

        return called
