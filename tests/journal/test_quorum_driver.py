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
from tests.journal.journal_support import count_of
from tests.journal.quorum_model import LAYOUT, NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, mark, read_all, write_segment
from tests.journal.quorum_simulation import SETTINGS, Simulation
from tests.journal.quorum_threads import DEADLINE, HeldNode, threaded
from tests.namenode_stub.stub_support import wait_until

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


def test_hanging_node_does_not_delay_the_others(
    opened: tuple[QuorumJournal, list[HeldNode]], simulation: Simulation
) -> None:
    journal, ways = opened
    ways[2].hold("journal")
    write_segment(journal, 1, 10)
    wait_until("the end on two nodes", lambda: all("finalize_log_segment" in way.calls for way in ways[:2]))
    assert "finalize_log_segment" not in ways[2].calls
    ways[2].hold()
    wait_until("the end on the last node", lambda: "finalize_log_segment" in ways[2].calls)


def test_readers_do_not_wait_for_the_writer(opened: tuple[QuorumJournal, list[HeldNode]]) -> None:
    journal, ways = opened
    write_segment(journal, 1, 3)
    for way in ways:
        way.hold("start_log_segment")
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(journal.start_segment, 4, LAYOUT)
        wait_until("a call of each node", lambda: all(way.waiting for way in ways))
        assert count_of(journal, 1) == 3
        for way in ways:
            way.hold()
        starting.result()


def test_a_call_ends_with_its_timeout(simulation: Simulation) -> None:
    with threaded(simulation, SHORT, drain=0.05) as (journal, ways):
        for way in ways:
            way.hold("is_formatted")
        with pytest.raises(QuorumError, match=r"isFormatted: 0 of 3 .* no answer within 0.05 s from jn1"):
            journal.is_formatted()


def test_time_while_the_process_is_stopped_is_ignored(simulation: Simulation) -> None:
    """The clock jumps by an hour during a wait for a node."""
    now = [0.0]
    with threaded(simulation, clock=lambda: now[0], drain=0.05) as (journal, ways):
        ways[0].hold("is_formatted")
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(journal.is_formatted)
            wait_until("a call of a node", lambda: ways[0].waiting == 1)
            now[0] += 3600.0
            ways[0].hold()
            assert asking.result() is False


def test_close_ends_waiting_calls(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.quorum.driver._CLOSE_SECONDS", DEADLINE)
    with threaded(simulation, drain=0.05) as (journal, ways):
        journal.format(NAMESPACE)
        journal.recover(NAMESPACE)
        segment = journal.start_segment(1, LAYOUT)
        for way in ways:
            way.hold("journal", "get_edit_log_manifest")
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(segment.append, batch(1, 3)), pool.submit(journal.segments, 1)]
            wait_until("two calls of each node", lambda: all(way.waiting == 2 for way in ways))
            journal.close()
            for each in waiting:
                with pytest.raises(JournalClosedError):
                    each.result()
    assert all(way.closed for way in ways)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("journal-jn")]


def test_close_delivers_queued_calls_to_slower_nodes(simulation: Simulation) -> None:
    with threaded(simulation, drain=DEADLINE) as (journal, ways):
        journal.format(NAMESPACE)
        journal.recover(NAMESPACE)
        ways[2].hold("journal")
        write_segment(journal, 1, 20)
        ways[2].hold()
        journal.close()
    for host in simulation.hosts.values():
        assert host.node.snapshot().finalized.keys() == {1}


def test_error_in_a_call_reaches_the_caller(
    opened: tuple[QuorumJournal, list[HeldNode]], simulation: Simulation
) -> None:
    journal, _ = opened

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of this program")

    for host in simulation.hosts.values():
        host.node.start_log_segment = broken
    with pytest.raises(QuorumError, match="a fault of this program"):
        journal.start_segment(1, LAYOUT)


def test_temporary_lack_of_threads_loses_no_node(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert count_of(journal, 1) == 3


def test_concurrent_writers_keep_every_acknowledged_batch(simulation: Simulation) -> None:
    """Real threads compete for the journal; each acknowledged batch exists exactly once at the end."""
    acked: dict[int, bytes] = {}
    noted = threading.Lock()

    def write(value: int) -> None:
        with threaded(simulation, drain=0.0) as (journal, _):
            try:
                journal.recover(NAMESPACE)
                first = count_of(journal, 1) + 1
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
