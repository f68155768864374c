"""Writers of a quorum journal that take over, and the transactions that they recover."""

from __future__ import annotations

import itertools

import pytest

from journal.quorum.errors import NodeLeftOutError, QuorumError, WriterFencedError
from journal.quorum.quorum_journal import QuorumJournal
from tests.journal.journal_support import count_of
from tests.journal.quorum_journal_support import (
    GOOD,
    A,
    B,
    C,
    failing,
    finalized,
    journal,
    left_at_345,
    lose_majority,
    ranges,
    simulation,
    taken_over,
    write_on_one,
)
from tests.journal.quorum_model import LAYOUT, NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, batch_of, mark, read_all, write_segment
from tests.journal.quorum_simulation import Fate, Simulation, instant_reader, simulated_journal

__all__ = ["journal", "simulation"]


# ---- writers that take over --------------------------------------------------------------------------------


def test_fenced_writer_fails_permanently(simulation: Simulation, journal: QuorumJournal) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    other = taken_over(simulation)
    assert other.epoch == 2
    with pytest.raises(WriterFencedError, match="less than the last promised epoch 2"):
        segment.append(batch(4, 4, 7))
    for refused in (
        lambda: segment.append(batch(4, 4)),
        lambda: segment.finalize(3),
        lambda: journal.start_segment(4, LAYOUT),
        lambda: journal.recover(NAMESPACE),
    ):
        with pytest.raises(WriterFencedError):
            refused()
    write_segment(other, 4, 6)
    assert ranges(other) == [(1, 3), (4, 6)]


def test_writer_that_lost_its_majority_does_not_take_over_again(simulation: Simulation, journal: QuorumJournal) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    lose_majority(simulation, segment)
    simulation.settle()
    other = taken_over(simulation)
    with pytest.raises(WriterFencedError, match="epoch 1 has been superseded"):
        journal.recover(NAMESPACE)
    write_segment(other, count_of(other, 1) + 1, 9)


def test_epochs_are_unique(simulation: Simulation) -> None:
    simulated_journal(simulation).format(NAMESPACE)
    assert [taken_over(simulation).epoch for _ in range(5)] == [1, 2, 3, 4, 5]
    failing(simulation, (A, "newEpoch"), fate=Fate.FAIL_AFTER)
    assert taken_over(simulation).epoch == 6
    failing(simulation, (A, "newEpoch"), (B, "newEpoch"), fate=Fate.FAIL_AFTER)
    with pytest.raises(QuorumError):
        taken_over(simulation)
    failing(simulation)
    assert taken_over(simulation).epoch == 8


@pytest.mark.parametrize("takers", [(C,), (C, A)])
def test_writer_remembers_epochs_that_a_minority_promised(
    simulation: Simulation, journal: QuorumJournal, takers: tuple[str, ...]
) -> None:
    """The nodes made these promises to the same writer, not to another writer."""
    write_segment(journal, 1, 3)
    for taker in takers:
        failing(simulation, *((node, "newEpoch") for node in (A, B, C) if node != taker))
        with pytest.raises(QuorumError):
            journal.recover(NAMESPACE)
        simulation.settle()
    failing(simulation)
    simulation.crash(A)
    journal.recover(NAMESPACE)
    assert journal.epoch == 3


def test_at_most_one_of_two_concurrent_writers_gets_the_epoch(simulation: Simulation) -> None:
    simulated_journal(simulation).format(NAMESPACE)
    one, two = simulation.client(), simulation.client()
    running = [client.start(client.writer.recover(NAMESPACE)) for client in (one, two)]
    simulation.settle()
    faults = [each.fault for each in running]
    assert sorted(fault is None for fault in faults) in ([False, True], [False, False])
    assert {client.writer.epoch for client in (one, two)} <= {None, 1}


# ---- recovery ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("missing", "last"), [(A, 5), (B, 5), (C, 4)])
def test_recovery_chooses_the_longest_available_copy(
    simulation: Simulation, journal: QuorumJournal, missing: str, last: int
) -> None:
    left_at_345(simulation, journal)
    simulation.crash(missing)
    other = taken_over(simulation)
    assert ranges(other) == [(1, last)]
    simulation.settle()
    assert [finalized(simulation, name) for name in (A, B, C) if name != missing] == [[(1, last)]] * 2


def test_choice_of_an_interrupted_recovery_is_kept(simulation: Simulation, journal: QuorumJournal) -> None:
    left_at_345(simulation, journal)
    simulation.crash(C)
    failing(simulation, (A, "finalizeLogSegment"), (B, "finalizeLogSegment"))
    with pytest.raises(QuorumError, match="finalizeLogSegment"):
        taken_over(simulation)
    failing(simulation)
    simulation.crash(A)
    simulation.restart(C)
    assert ranges(taken_over(simulation)) == [(1, 4)]


def test_copy_of_a_later_writer_is_preferred_to_a_longer_one(simulation: Simulation, journal: QuorumJournal) -> None:
    """TestQuorumJournalManager.testNewerVersionOfSegmentWins: one node accepted transactions that the other nodes do
    not have.
    """
    write_segment(journal, 1, 100)
    segment = journal.start_segment(101, LAYOUT)
    failing(simulation, (B, "journal"), (C, "journal"))
    with pytest.raises(QuorumError):
        segment.append(batch(101, 160, 1))
    simulation.settle()
    failing(simulation, (B, "acceptRecovery"), (C, "acceptRecovery"))
    with pytest.raises(QuorumError, match="acceptRecovery"):
        taken_over(simulation)
    failing(simulation)
    simulation.crash(A)
    other = taken_over(simulation)
    assert ranges(other) == [(1, 100)]
    write_segment(other, 101, 150, finalize=False, value=2)
    simulation.restart(A)
    last = taken_over(simulation)
    assert ranges(last) == [(1, 100), (101, 150)]
    assert read_all(last.segments(101), 101) == {txid: mark(txid, 2) for txid in range(101, 151)}


def test_empty_segment_of_a_stopped_writer_is_discarded(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    journal.start_segment(4, LAYOUT)
    simulation.settle()
    other = taken_over(simulation)
    assert ranges(other, in_progress=True) == [(1, 3)]
    write_segment(other, 4, 6)
    assert ranges(other) == [(1, 3), (4, 6)]


def test_copy_of_equal_length_but_other_content_is_not_finalized(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    """Hadoop's client allows a node with such a copy to finalize it."""
    write_on_one(simulation, journal)
    other = taken_over(simulation)
    other.start_segment(1, LAYOUT).append(batch_of(1, list(GOOD.values())))
    simulation.restart(A)
    last = taken_over(simulation)
    write_segment(last, 4, 6)
    simulation.settle()
    for name in (A, B, C):
        held = simulation.hosts[name].node.snapshot().finalized
        assert held.get(1, list(GOOD.values())) == list(GOOD.values())
    for group in itertools.combinations((A, B, C), 2):
        found = read_all(instant_reader(simulation, list(group)).streams(1, in_progress=False))
        assert {txid: found[txid] for txid in GOOD} == GOOD


def test_recovery_fails_if_only_a_differing_copy_is_available() -> None:
    simulation = Simulation(ModelNode)
    journal = simulated_journal(simulation)
    journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    write_on_one(simulation, journal)
    taken_over(simulation).start_segment(1, LAYOUT).append(batch_of(1, list(GOOD.values())))
    simulation.settle()
    simulation.restart(A)
    simulation.crash(B)
    with pytest.raises(
        QuorumError, match="has as many transactions as jn3:8485, but with different contents"
    ) as refused:
        taken_over(simulation)
    assert isinstance(refused.value.faults[A], NodeLeftOutError)
    simulation.restart(B)
    assert read_all(taken_over(simulation).segments(1)) == GOOD


def test_recovery_succeeds_after_an_earlier_failed_accept(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3, finalize=False)
    simulation.settle()
    failing(simulation, (A, "acceptRecovery"), (B, "acceptRecovery"))
    with pytest.raises(QuorumError):
        taken_over(simulation)
    failing(simulation)
    assert ranges(taken_over(simulation)) == [(1, 3)]
