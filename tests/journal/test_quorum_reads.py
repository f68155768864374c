"""Reading from a quorum journal: the open segment, redundant copies and the nodes' caches."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from journal.errors import TransactionGapError
from journal.quorum.errors import QuorumError, SegmentFetchError
from journal.quorum.quorum_journal import QuorumJournal
from journal.segment_format import HEADER_SIZE
from tests.journal.journal_support import count_of
from tests.journal.quorum_journal_support import (
    GOOD,
    TAILING,
    A,
    B,
    C,
    cut_off,
    failing,
    journal,
    left_at_345,
    ranges,
    simulation,
    taken_over,
    write_on_one,
)
from tests.journal.quorum_model import NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, mark, read_all, write_segment
from tests.journal.quorum_simulation import Simulation, instant_reader, simulated_journal

__all__ = ["journal", "simulation"]


# ---- the open segment --------------------------------------------------------------------------------------


def test_reader_sees_acknowledged_transactions_of_the_open_segment(journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    segment = write_segment(journal, 4, 6, finalize=False)
    assert ranges(journal) == [(1, 3)]
    assert ranges(journal, in_progress=True) == [(1, 3), (4, 6)]
    assert [each.in_progress for each in journal.segments(1, in_progress=True)] == [False, True]
    assert ranges(journal, 5, in_progress=True) == [(4, 6)]
    assert read_all(journal.segments(5, in_progress=True), 5) == {txid: mark(txid, 0) for txid in (5, 6)}
    assert (count_of(journal, 2), count_of(journal, 2, in_progress=True), count_of(journal, 7, in_progress=True)) == (
        2,
        5,
        0,
    )
    segment.append(batch(7, 7))
    assert count_of(journal, 7, in_progress=True) == 1


def test_transactions_on_a_single_node_are_not_read(simulation: Simulation, journal: QuorumJournal) -> None:
    left_at_345(simulation, journal)
    for group in itertools.combinations((A, B, C), 2):
        (segment,) = instant_reader(simulation, list(group)).streams(1, in_progress=True)
        assert segment.last == 4  # txid 5, or a heartbeat, reported to the nodes that txid 4 is committed
    assert ranges(simulated_journal(simulation), in_progress=True) == [(1, 4)]


def test_copy_of_a_superseded_writer_is_not_read(simulation: Simulation, journal: QuorumJournal) -> None:
    cut_off(simulation, journal)
    for group in ([A, B], [A, C], [B, C], [A, B, C]):
        found = read_all(instant_reader(simulation, group).streams(1, in_progress=True))
        assert found.items() <= {**GOOD, 4: mark(4, 3)}.items()
        assert not found or len(group) > 1
    assert len(found) == 4


def test_copy_of_a_superseded_writer_is_not_read_after_a_purge(simulation: Simulation, journal: QuorumJournal) -> None:
    write_on_one(simulation, journal)
    other = taken_over(simulation)
    write_segment(other, 1, 4)
    other.purge(5)
    simulation.restart(A)
    segment = write_segment(other, 5, 6, finalize=False)
    simulation.settle()
    segment.append(batch(7, 7))
    simulation.settle()
    # `A` knows that txid 6 is committed, and still has its own txids 1 to 3, which were never committed
    for group in ([A, B], [A, C], [A, B, C]):
        with pytest.raises(TransactionGapError) as gap:
            instant_reader(simulation, group).streams(2, in_progress=True)
        assert (gap.value.expected, gap.value.found) == (2, 5)


def test_reads_with_a_node_that_does_not_send_its_open_segment(
    simulation: Simulation, journal: QuorumJournal, caplog: pytest.LogCaptureFixture
) -> None:
    write_segment(journal, 1, 3, finalize=False)
    simulation.settle()
    simulation.hosts[A].reachable = False
    for _ in range(3):
        assert ranges(journal, in_progress=True) == [(1, 3)]
    assert sum("cannot be read from jn1:8485" in record.message for record in caplog.records) == 1
    simulation.hosts[B].reachable = False
    with pytest.raises(QuorumError, match="compared on too few nodes: jn1:8485"):
        ranges(journal, in_progress=True)


def test_open_segment_after_missing_transactions_is_a_gap(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6)
    write_segment(journal, 7, 9, finalize=False)
    simulation.settle()
    journal.purge(7)
    with pytest.raises(TransactionGapError) as gap:
        journal.segments(4, in_progress=True)
    assert (gap.value.expected, gap.value.found) == (4, 7)


# ---- redundant copies --------------------------------------------------------------------------------------


class Spoiled:
    """A source that returns damaged segments, or none, for some nodes."""

    def __init__(self, simulation: Simulation, spoil: dict[str, Callable[[bytes], bytes]]) -> None:
        self.simulation = simulation
        self.spoil = spoil
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        name = self.simulation.name_of(url)
        self.asked.append(name)
        return self.spoil.get(name, bytes)(self.simulation.source(url))


def refuse(content: bytes) -> bytes:
    raise SegmentFetchError("it was interrupted")


def damage_third(content: bytes) -> bytes:
    size = (len(content) - HEADER_SIZE) // 3
    place = HEADER_SIZE + 2 * size + 15
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def reader_with(simulation: Simulation, spoil: dict[str, Callable[[bytes], bytes]]) -> tuple[Any, Spoiled]:
    reader = instant_reader(simulation, [A, B, C])
    reader._source = source = Spoiled(simulation, spoil)
    return reader, source


def test_reader_continues_with_another_copy_after_damage(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    reader, source = reader_with(simulation, {A: damage_third, B: refuse})
    ops = [op.txid for segment in reader.streams(1, in_progress=False) for op in segment.read(1)]
    assert (ops, source.asked) == ([1, 2, 3], [A, B, C])


def test_unreachable_copy_is_reported_if_no_copy_is_intact(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    reader, _ = reader_with(simulation, {A: damage_third, B: refuse, C: refuse})
    (segment,) = reader.streams(1, in_progress=False)
    with pytest.raises(SegmentFetchError, match="it was interrupted"):
        list(segment.read(1))


# ---- tailing by the nodes' caches --------------------------------------------------------------------------


def test_newest_transactions_are_read_from_the_caches(simulation: Simulation, journal: QuorumJournal) -> None:
    reader = simulated_journal(simulation, TAILING)
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 5, finalize=False)
    simulation.settle()
    failing(simulation, *((name, "getEditLogManifest") for name in (A, B, C)))
    assert ranges(reader, in_progress=True) == [(1, 5)]
    assert ranges(reader, 5, in_progress=True) == [(5, 5)]
    assert ranges(reader, 6, in_progress=True) == []
    assert read_all(reader.segments(3, in_progress=True), 3) == {txid: mark(txid, 0) for txid in (3, 4, 5)}


def test_tail_is_limited(simulation: Simulation, journal: QuorumJournal) -> None:
    reader = simulated_journal(simulation, replace(TAILING, max_tail_transactions=2))
    write_segment(journal, 1, 5, finalize=False)
    simulation.settle()
    assert ranges(reader, in_progress=True) == [(1, 2)]
    assert ranges(reader, 3, in_progress=True) == [(3, 4)]


def test_tail_contains_only_transactions_on_a_majority(simulation: Simulation, journal: QuorumJournal) -> None:
    left_at_345(simulation, journal)
    assert ranges(simulated_journal(simulation, TAILING), in_progress=True) == [(1, 4)]


def test_tail_does_not_contain_transactions_of_a_superseded_writer(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    cut_off(simulation, journal)
    for group in ([A, B], [A, C], [B, C], [A, B, C]):
        reader = instant_reader(simulation, group, TAILING)
        try:
            found = read_all(reader.newest(1))
        except QuorumError:
            continue
        assert found.items() <= {**GOOD, 4: mark(4, 3)}.items()


def test_segments_are_streamed_if_the_caches_are_too_short(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    for name in (A, B, C):
        simulation.crash(name)
        simulation.restart(name)
    reader = simulated_journal(simulation, TAILING)
    assert ranges(reader, in_progress=True) == [(1, 3)]


def test_segments_are_streamed_from_nodes_without_a_cache() -> None:
    simulation = Simulation(lambda name, fetch: ModelNode(name, fetch, tells_committed=False, caches=False))
    journal = simulated_journal(simulation, TAILING)
    journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6, finalize=False)
    assert ranges(journal, in_progress=True) == [(1, 3), (4, 6)]


def test_nodes_without_a_cache_are_reported_once(
    simulation: Simulation, journal: QuorumJournal, caplog: pytest.LogCaptureFixture
) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    reader = simulated_journal(simulation, TAILING)
    caplog.set_level(logging.INFO, "journal.quorum")

    def report() -> int:
        for _ in range(3):
            assert ranges(reader, in_progress=True) == [(1, 3)]
        return sum("segments are streamed" in record.message for record in caplog.records)

    failing(simulation, (A, "getJournaledEdits"), (B, "getJournaledEdits"))
    assert report() == 1
    failing(simulation)
    assert report() == 1
    failing(simulation, (A, "getJournaledEdits"), (B, "getJournaledEdits"))
    assert report() == 2
