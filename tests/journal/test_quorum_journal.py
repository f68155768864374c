"""A quorum journal on nodes in memory: the contract of `Journal`, and faults of a quorum (TestQuorumJournalManager)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hadoop_rpc.errors import JavaIOError
from journal.errors import CorruptOpError, JournalError, JournalExistsError, JournalInUseError, TransactionGapError
from journal.journal import Journal
from journal.quorum.errors import (
    JournalClosedError,
    NodeLeftOutError,
    QuorumError,
    SegmentFetchError,
    WriterFencedError,
    WriterStateError,
)
from journal.quorum.quorum_journal import QuorumJournal
from journal.segment import HEADER_SIZE
from tests.journal.quorum_model import JOURNAL, LAYOUT, NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, batch_of, end_op, mark, read_all, start_op, write_segment
from tests.journal.quorum_real_node import RealNode
from tests.journal.quorum_simulation import SETTINGS, Fate, Message, Simulation, instant_reader, simulated_journal

A, B, C = "jn1:8485", "jn2:8485", "jn3:8485"
TAILING = replace(SETTINGS, tail_in_progress=True)


@pytest.fixture(params=[ModelNode, RealNode])
def simulation(request: pytest.FixtureRequest) -> Simulation:
    return Simulation(request.param)


@pytest.fixture
def journal(simulation: Simulation) -> QuorumJournal:
    """Return a formatted and recovered journal."""
    journal = simulated_journal(simulation)
    journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    return journal


def taken_over(simulation: Simulation) -> QuorumJournal:
    other = simulated_journal(simulation)
    other.recover(NAMESPACE)
    return other


def failing(simulation: Simulation, *calls: tuple[str, str], fate: Fate = Fate.FAIL_BEFORE) -> None:
    """Let requests of these names to these nodes fail from now on; without names, none."""

    def sent(message: Message) -> None:
        if (message.call.node, message.call.work.name) in calls:
            message.fate = fate

    simulation.on_send = sent


def ranges(journal: Journal, from_txid: int = 1, *, in_progress: bool = False) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in journal.segments(from_txid, in_progress=in_progress)]


def finalized(simulation: Simulation, name: str) -> list[tuple[int, int]]:
    held = simulation.hosts[name].node.snapshot().finalized
    return sorted((first, first + len(records) - 1) for first, records in held.items())


# ---- what Journal asks ----


def test_it_is_a_journal(journal: QuorumJournal) -> None:
    checked: Journal = journal
    assert checked.location == f"qjournal://{A};{B};{C}/{JOURNAL}"


def test_a_journal_is_formatted_once(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    assert not journal.is_formatted()
    journal.format(NAMESPACE)
    assert journal.is_formatted()
    with pytest.raises(JournalExistsError):
        journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    write_segment(journal, 1, 3)
    with pytest.raises(JournalExistsError):
        simulated_journal(simulation).format(NAMESPACE)
    assert ranges(journal) == [(1, 3)]
    journal.format(NAMESPACE, force=True)
    assert ranges(journal) == []
    journal.recover(NAMESPACE)
    assert journal.epoch == 1


def test_one_node_that_has_the_journal_is_enough_to_know_that_it_is_there(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    simulation.hosts[B].node.format(JOURNAL, NAMESPACE, force=False)
    simulation.crash(A)
    assert journal.is_formatted()


def test_a_journal_is_not_called_absent_where_a_node_does_not_answer(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    simulation.crash(A)
    with pytest.raises(QuorumError, match="isFormatted: "):
        journal.is_formatted()
    with pytest.raises(QuorumError):
        journal.format(NAMESPACE)


def test_all_nodes_are_formatted_or_it_fails(simulation: Simulation) -> None:
    failing(simulation, (B, "format"))
    with pytest.raises(QuorumError, match="3 are needed; jn2:8485: the connection broke"):
        simulated_journal(simulation).format(NAMESPACE)


def test_a_writer_recovers_first(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    with pytest.raises(QuorumError) as unformatted:
        journal.recover(NAMESPACE)
    assert "Format new journals only" in unformatted.value.hint
    journal.format(NAMESPACE)
    with pytest.raises(WriterStateError):
        journal.start_segment(1, LAYOUT)
    with pytest.raises(WriterStateError):
        journal.purge(1)


def test_the_journal_of_another_namespace_is_not_recovered(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    journal.format(NAMESPACE)
    with pytest.raises(QuorumError):
        journal.recover(replace(NAMESPACE, namespace_id=7))


def test_segments_are_written_and_read(journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 4)
    assert ranges(journal) == [(1, 3), (4, 4)]
    assert ranges(journal, 2) == [(1, 3), (4, 4)]
    assert ranges(journal, 4) == [(4, 4)]
    assert ranges(journal, 5) == []
    assert read_all(journal.segments(2), 2) == {txid: mark(txid, 0) for txid in (2, 3, 4)}
    assert [journal.count(txid) for txid in (1, 2, 4, 5)] == [4, 3, 1, 0]


def test_one_segment_at_a_time(journal: QuorumJournal) -> None:
    segment = journal.start_segment(1, LAYOUT)
    for refused in (lambda: journal.start_segment(1, LAYOUT), lambda: journal.recover(NAMESPACE)):
        with pytest.raises(JournalInUseError):
            refused()
    segment.append(batch(1, 3))
    segment.finalize(3)
    with pytest.raises(WriterStateError):
        segment.append(batch(4, 4))
    assert segment.first_txid == 1


def test_batches_follow_each_other(journal: QuorumJournal) -> None:
    segment = journal.start_segment(1, LAYOUT)
    with pytest.raises(ValueError, match="instead of 1 on"):
        segment.append(batch(2, 2))
    segment.append(batch(1, 2))
    with pytest.raises(ValueError, match="the segment ends with txid 2, not with 3"):
        segment.finalize(3)
    segment.append(batch(3, 3))
    segment.finalize(3)
    assert ranges(journal) == [(1, 3)]


def test_a_segment_that_is_let_go_of_stays_in_progress(journal: QuorumJournal) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    segment.abort()
    segment.abort()
    with pytest.raises(WriterStateError):
        segment.append(batch(4, 4))
    assert ranges(journal) == []
    journal.recover(NAMESPACE)
    assert (ranges(journal), journal.epoch) == ([(1, 3)], 2)


def test_old_segments_are_purged_on_all_nodes(simulation: Simulation, journal: QuorumJournal) -> None:
    for first in (1, 4, 7):
        write_segment(journal, first, first + 2)
    journal.purge(5)
    assert [finalized(simulation, name) for name in (A, B, C)] == [[(4, 6), (7, 9)]] * 3
    with pytest.raises(TransactionGapError) as gap:
        ranges(journal)
    assert (gap.value.expected, gap.value.found) == (1, 4)


def test_a_purge_of_a_majority_is_enough(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6)
    simulation.crash(C)
    journal.purge(4)
    assert finalized(simulation, A) == [(4, 6)]
    simulation.crash(B)
    with pytest.raises(QuorumError, match="purgeLogs"):
        journal.purge(5)


def test_a_purge_does_not_wait_for_a_node_that_hangs(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6)
    failing(simulation, (C, "purgeLogs"), fate=Fate.SILENT)
    began = simulation.now
    journal.purge(4)
    assert simulation.now - began < 2.0
    assert finalized(simulation, A) == [(4, 6)]


@pytest.mark.parametrize(("seconds", "heard"), [(0.5, True), (30.0, False)])
def test_a_purge_waits_a_moment_for_a_node_that_is_slower_than_the_majority(
    simulation: Simulation, journal: QuorumJournal, caplog: pytest.LogCaptureFixture, seconds: float, heard: bool
) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6)
    began = simulation.now

    def slow(message: Message) -> None:
        if (message.call.node, message.call.work.name) == (C, "purgeLogs"):
            message.due = began + seconds

    simulation.on_send = slow
    journal.purge(4)
    assert finalized(simulation, A) == finalized(simulation, B) == [(4, 6)]
    assert (finalized(simulation, C) == [(4, 6)]) is heard
    assert (simulation.now - began >= seconds) is heard
    assert simulation.now - began < 2.0
    simulation.settle()
    # the request is in flight, and is not cancelled
    assert finalized(simulation, C) == [(4, 6)]
    assert "still has segments" not in caplog.text


def test_a_closed_journal_does_nothing(journal: QuorumJournal) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    journal.close()
    journal.close()
    for call in (
        lambda: segment.append(batch(4, 4)),
        lambda: journal.recover(NAMESPACE),
        journal.is_formatted,
        lambda: journal.segments(1),
        lambda: journal.purge(1),
    ):
        with pytest.raises(JournalClosedError):
            call()
    segment.abort()


# ---- nodes that fail ----


def test_a_node_may_be_down_and_takes_part_again_from_the_next_segment_on(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    write_segment(journal, 1, 3)
    simulation.crash(A)
    segment = write_segment(journal, 4, 5, finalize=False)
    assert [bool(status.out_of_sync) for status in journal.node_statuses] == [True, False, False]
    assert [status.lag_txids for status in journal.node_statuses] == [2, 0, 0]
    simulation.restart(A)
    segment.append(batch(6, 6))
    segment.finalize(6)
    assert finalized(simulation, A) == [(1, 3)]
    write_segment(journal, 7, 9)
    simulation.settle()
    assert finalized(simulation, A) == [(1, 3), (7, 9)]
    simulation.crash(B)
    assert read_all(journal.segments(1)) == {txid: mark(txid, 0) for txid in range(1, 10)}


def test_two_nodes_down_stop_a_writer_for_good_until_it_recovers(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    simulation.crash(A)
    simulation.crash(B)
    with pytest.raises(QuorumError, match="txid 4: journal: "):
        segment.append(batch(4, 4))
    simulation.restart(A)
    simulation.restart(B)
    for refused in (lambda: segment.append(batch(4, 4)), lambda: journal.start_segment(4, LAYOUT)):
        with pytest.raises(WriterStateError, match="does not know which transactions the nodes have"):
            refused()
    simulation.settle()
    journal.recover(NAMESPACE)
    assert ranges(journal) in ([(1, 3)], [(1, 4)])


def test_a_call_that_nobody_answers_ends_with_its_timeout(simulation: Simulation, journal: QuorumJournal) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    failing(simulation, (A, "journal"), (B, "journal"), fate=Fate.SILENT)
    began = simulation.now
    with pytest.raises(QuorumError, match="no answer within 20 s from jn1:8485, jn2:8485"):
        segment.append(batch(4, 4))
    assert simulation.now - began == pytest.approx(SETTINGS.write_transactions)


def test_what_to_do_without_a_majority_depends_on_who_asks(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    segment = journal.start_segment(4, LAYOUT)
    simulation.crash(A)
    simulation.crash(B)
    with pytest.raises(QuorumError) as read:
        journal.segments(1)
    with pytest.raises(QuorumError) as purged:
        journal.purge(2)
    assert {read.value.hint, purged.value.hint} == {QuorumError.default_hint}
    assert "recover" not in QuorumError.default_hint
    with pytest.raises(QuorumError) as written:
        segment.append(batch(4, 5))
    assert written.value.hint.endswith("then recover the journal.")


def test_readers_need_a_majority(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    simulation.crash(A)
    assert ranges(journal) == [(1, 3)]
    simulation.crash(B)
    with pytest.raises(QuorumError, match="getEditLogManifest"):
        ranges(journal)


# ---- writers that take over ----


def test_a_fenced_writer_fails_for_good(simulation: Simulation, journal: QuorumJournal) -> None:
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


def test_a_writer_that_lost_its_majority_does_not_take_the_journal_back(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    simulation.crash(A)
    simulation.crash(B)
    with pytest.raises(QuorumError):
        segment.append(batch(4, 4))
    simulation.restart(A)
    simulation.restart(B)
    simulation.settle()
    other = taken_over(simulation)
    with pytest.raises(WriterFencedError, match="epoch 1 has been superseded"):
        journal.recover(NAMESPACE)
    write_segment(other, other.count(1) + 1, 9)


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


def test_a_writer_may_try_again_after_its_own_proposal_came_to_a_minority(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    write_segment(journal, 1, 3)
    failing(simulation, (A, "newEpoch"), (B, "newEpoch"))
    with pytest.raises(QuorumError):
        journal.recover(NAMESPACE)
    simulation.settle()
    failing(simulation)
    simulation.crash(A)
    journal.recover(NAMESPACE)
    assert journal.epoch == 3


def test_a_writer_knows_all_its_proposals_that_came_to_a_minority(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    """First a promise to C, then one to A: neither is of another writer."""
    write_segment(journal, 1, 3)
    for taker in (C, A):
        failing(simulation, *((node, "newEpoch") for node in (A, B, C) if node != taker))
        with pytest.raises(QuorumError):
            journal.recover(NAMESPACE)
        simulation.settle()
    failing(simulation)
    simulation.crash(A)
    journal.recover(NAMESPACE)
    assert journal.epoch == 3


def test_of_two_that_begin_at_once_one_gets_the_epoch(simulation: Simulation) -> None:
    simulated_journal(simulation).format(NAMESPACE)
    one, two = simulation.client(), simulation.client()
    running = [client.start(client.writer.recover(NAMESPACE)) for client in (one, two)]
    simulation.settle()
    faults = [each.fault for each in running]
    assert sorted(fault is None for fault in faults) in ([False, True], [False, False])
    assert {client.writer.epoch for client in (one, two)} <= {None, 1}


# ---- recovery ----


def left_at_345(simulation: Simulation, journal: QuorumJournal) -> None:
    """Leave an open segment up to txid 3, 4 and 5 on the nodes."""
    segment = write_segment(journal, 1, 3, finalize=False)
    simulation.settle()
    failing(simulation, (A, "journal"))
    segment.append(batch(4, 4))
    simulation.settle()
    failing(simulation, (B, "journal"))
    with pytest.raises(QuorumError):
        segment.append(batch(5, 5))
    simulation.settle()
    failing(simulation)


@pytest.mark.parametrize(("missing", "last"), [(A, 5), (B, 5), (C, 4)])
def test_a_recovery_takes_the_longest_copy_that_it_sees(
    simulation: Simulation, journal: QuorumJournal, missing: str, last: int
) -> None:
    left_at_345(simulation, journal)
    simulation.crash(missing)
    other = taken_over(simulation)
    assert ranges(other) == [(1, last)]
    simulation.settle()
    assert [finalized(simulation, name) for name in (A, B, C) if name != missing] == [[(1, last)]] * 2


def test_what_a_recovery_has_chosen_stays_chosen(simulation: Simulation, journal: QuorumJournal) -> None:
    left_at_345(simulation, journal)
    simulation.crash(C)
    failing(simulation, (A, "finalizeLogSegment"), (B, "finalizeLogSegment"))
    with pytest.raises(QuorumError, match="finalizeLogSegment"):
        taken_over(simulation)
    failing(simulation)
    simulation.crash(A)
    simulation.restart(C)
    assert ranges(taken_over(simulation)) == [(1, 4)]


def test_a_later_writers_copy_wins_over_a_longer_one(simulation: Simulation, journal: QuorumJournal) -> None:
    """TestQuorumJournalManager.testNewerVersionOfSegmentWins: one node accepted others' unknown transactions."""
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


def test_a_writer_that_stops_right_after_a_start_leaves_nothing(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    journal.start_segment(4, LAYOUT)
    simulation.settle()
    other = taken_over(simulation)
    assert ranges(other, in_progress=True) == [(1, 3)]
    write_segment(other, 4, 6)
    assert ranges(other) == [(1, 3), (4, 6)]


def cut_off(simulation: Simulation, journal: QuorumJournal) -> None:
    """Leave `A` with txids 1 to 3 of a first writer, the others with acknowledged 1 to 3 of a second one."""
    segment = journal.start_segment(1, LAYOUT)
    failing(simulation, (B, "journal"), (C, "journal"))
    with pytest.raises(QuorumError):
        segment.append(batch_of(1, [start_op(1), mark(2, 91), mark(3, 92)]))
    simulation.settle()
    failing(simulation)
    simulation.crash(A)
    other = taken_over(simulation)
    other_segment = other.start_segment(1, LAYOUT)
    simulation.restart(A)
    other_segment.append(batch_of(1, [start_op(1), mark(2, 1), mark(3, 2)]))
    simulation.settle()
    # `A` learns the committed txid although it has none of these transactions
    simulation.pass_time(simulation.now + 2)
    other_segment.append(batch_of(4, [mark(4, 3)]))
    simulation.settle()


GOOD = {1: start_op(1), 2: mark(2, 1), 3: mark(3, 2)}


def test_a_copy_that_is_as_long_but_another_is_not_finalized(simulation: Simulation, journal: QuorumJournal) -> None:
    """Hadoop's client lets such a node finalize its own copy."""
    segment = journal.start_segment(1, LAYOUT)
    failing(simulation, (B, "journal"), (C, "journal"))
    with pytest.raises(QuorumError):
        segment.append(batch_of(1, [start_op(1), mark(2, 91), mark(3, 92)]))
    simulation.settle()
    failing(simulation)
    simulation.crash(A)
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


def test_where_only_such_a_copy_is_left_a_recovery_fails_rather_than_lose_anything() -> None:
    simulation = Simulation(ModelNode)
    journal = simulated_journal(simulation)
    journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    segment = journal.start_segment(1, LAYOUT)
    failing(simulation, (B, "journal"), (C, "journal"))
    with pytest.raises(QuorumError):
        segment.append(batch_of(1, [start_op(1), mark(2, 91), mark(3, 92)]))
    simulation.settle()
    failing(simulation)
    simulation.crash(A)
    taken_over(simulation).start_segment(1, LAYOUT).append(batch_of(1, list(GOOD.values())))
    simulation.settle()
    simulation.restart(A)
    simulation.crash(B)
    with pytest.raises(QuorumError, match="has other transactions than jn3:8485, but as many") as refused:
        taken_over(simulation)
    assert isinstance(refused.value.faults[A], NodeLeftOutError)
    simulation.restart(B)
    assert read_all(taken_over(simulation).segments(1)) == GOOD


def test_copies_that_were_accepted_in_vain_do_not_stand_in_the_way(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    write_segment(journal, 1, 3, finalize=False)
    simulation.settle()
    failing(simulation, (A, "acceptRecovery"), (B, "acceptRecovery"))
    with pytest.raises(QuorumError):
        taken_over(simulation)
    failing(simulation)
    assert ranges(taken_over(simulation)) == [(1, 3)]


# ---- the open segment ----


def test_a_reader_sees_what_is_acknowledged_of_the_open_segment(journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    segment = write_segment(journal, 4, 6, finalize=False)
    assert ranges(journal) == [(1, 3)]
    assert ranges(journal, in_progress=True) == [(1, 3), (4, 6)]
    assert [each.in_progress for each in journal.segments(1, in_progress=True)] == [False, True]
    assert ranges(journal, 5, in_progress=True) == [(4, 6)]
    assert read_all(journal.segments(5, in_progress=True), 5) == {txid: mark(txid, 0) for txid in (5, 6)}
    assert (journal.count(2), journal.count(2, in_progress=True), journal.count(7, in_progress=True)) == (2, 5, 0)
    segment.append(batch(7, 7))
    assert journal.count(7, in_progress=True) == 1


def test_what_one_node_alone_holds_is_not_shown(simulation: Simulation, journal: QuorumJournal) -> None:
    left_at_345(simulation, journal)
    for group in itertools.combinations((A, B, C), 2):
        (segment,) = instant_reader(simulation, list(group)).streams(1, in_progress=True)
        assert segment.last == 4  # the nodes heard with txid 5 that this one is committed, be it by a heartbeat
    assert ranges(simulated_journal(simulation), in_progress=True) == [(1, 4)]


def test_a_copy_of_a_writer_that_was_cut_off_is_not_shown(simulation: Simulation, journal: QuorumJournal) -> None:
    cut_off(simulation, journal)
    for group in ([A, B], [A, C], [B, C], [A, B, C]):
        found = read_all(instant_reader(simulation, group).streams(1, in_progress=True))
        assert found.items() <= {**GOOD, 4: mark(4, 3)}.items()
        assert not found or len(group) > 1
    assert len(found) == 4


def test_a_node_that_does_not_send_its_open_segment(
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


def test_an_open_segment_that_is_not_the_next_one_is_a_gap(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6)
    write_segment(journal, 7, 9, finalize=False)
    simulation.settle()
    journal.purge(7)
    with pytest.raises(TransactionGapError) as gap:
        journal.segments(4, in_progress=True)
    assert (gap.value.expected, gap.value.found) == (4, 7)


# ---- redundant copies ----


class Spoiled:
    """A source that returns some nodes' segments damaged, or not at all."""

    def __init__(self, simulation: Simulation, spoil: dict[str, Callable[[bytes], bytes]]) -> None:
        self.simulation = simulation
        self.spoil = spoil
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        name = self.simulation.name_of(url)
        self.asked.append(name)
        return self.spoil.get(name, bytes)(self.simulation.source(url))


def refuse(content: bytes) -> bytes:
    raise SegmentFetchError("it broke off")


def damage_third(content: bytes) -> bytes:
    size = (len(content) - HEADER_SIZE) // 3
    place = HEADER_SIZE + 2 * size + 15
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def reader_with(simulation: Simulation, spoil: dict[str, Callable[[bytes], bytes]]) -> tuple[Any, Spoiled]:
    reader = instant_reader(simulation, [A, B, C])
    reader._source = source = Spoiled(simulation, spoil)
    return reader, source


def test_another_copy_goes_on_where_one_is_damaged(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    reader, source = reader_with(simulation, {A: damage_third, B: refuse})
    ops = [op.txid for segment in reader.streams(1, in_progress=False) for op in segment.read(1)]
    assert (ops, source.asked) == ([1, 2, 3], [A, B, C])


def test_where_no_copy_is_good_the_first_failure_is_told(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    reader, _ = reader_with(simulation, {A: damage_third, B: refuse, C: refuse})
    (segment,) = reader.streams(1, in_progress=False)
    with pytest.raises(CorruptOpError, match="txid 3"):
        list(segment.read(1))


# ---- tailing by the nodes' caches ----


def test_newest_transactions_come_from_the_caches(simulation: Simulation, journal: QuorumJournal) -> None:
    reader = simulated_journal(simulation, TAILING)
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 5, finalize=False)
    simulation.settle()
    failing(simulation, *((name, "getEditLogManifest") for name in (A, B, C)))
    assert ranges(reader, in_progress=True) == [(1, 5)]
    assert ranges(reader, 5, in_progress=True) == [(5, 5)]
    assert ranges(reader, 6, in_progress=True) == []
    assert read_all(reader.segments(3, in_progress=True), 3) == {txid: mark(txid, 0) for txid in (3, 4, 5)}


def test_a_tail_holds_so_many_transactions_and_the_count_is_that_of_all(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    reader = simulated_journal(simulation, replace(TAILING, max_tail_transactions=2))
    write_segment(journal, 1, 5, finalize=False)
    simulation.settle()
    assert ranges(reader, in_progress=True) == [(1, 2)]
    assert ranges(reader, 3, in_progress=True) == [(3, 4)]
    assert reader.count(1, in_progress=True) == 5


def test_a_tail_holds_only_what_a_majority_has(simulation: Simulation, journal: QuorumJournal) -> None:
    left_at_345(simulation, journal)
    assert ranges(simulated_journal(simulation, TAILING), in_progress=True) == [(1, 4)]


def test_a_tail_does_not_hold_what_a_writer_left_that_was_cut_off(
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


def test_segments_are_streamed_where_the_caches_do_not_reach_back(
    simulation: Simulation, journal: QuorumJournal
) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    for name in (A, B, C):
        simulation.crash(name)
        simulation.restart(name)
    reader = simulated_journal(simulation, TAILING)
    assert ranges(reader, in_progress=True) == [(1, 3)]


def test_segments_are_streamed_from_nodes_that_have_no_cache() -> None:
    simulation = Simulation(lambda name, fetch: ModelNode(name, fetch, tells_committed=False, caches=False))
    journal = simulated_journal(simulation, TAILING)
    journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6, finalize=False)
    assert ranges(journal, in_progress=True) == [(1, 3), (4, 6)]


def test_nodes_that_have_no_cache_are_told_of_once(
    simulation: Simulation, journal: QuorumJournal, caplog: pytest.LogCaptureFixture
) -> None:
    write_segment(journal, 1, 3)
    simulation.settle()
    reader = simulated_journal(simulation, TAILING)
    caplog.set_level(logging.INFO, "journal.quorum")

    def told() -> int:
        for _ in range(3):
            assert ranges(reader, in_progress=True) == [(1, 3)]
        return sum("segments are streamed" in record.message for record in caplog.records)

    failing(simulation, (A, "getJournaledEdits"), (B, "getJournaledEdits"))
    assert told() == 1
    failing(simulation)
    assert told() == 1
    failing(simulation, (A, "getJournaledEdits"), (B, "getJournaledEdits"))
    assert told() == 2


# ---- what is passed on ----


def test_a_failure_is_told_in_the_nodes_words(simulation: Simulation, journal: QuorumJournal) -> None:
    for name in (A, B):
        simulation.hosts[name].node.start_log_segment = _refuse
    with pytest.raises(QuorumError, match="jn1:8485: IOException: the disk is full; jn2") as error:
        journal.start_segment(1, LAYOUT)
    assert isinstance(error.value, JournalError)
    assert (error.value.txid, set(error.value.faults)) == (1, {A, B})


def _refuse(*_: Any) -> None:
    raise JavaIOError("the disk is full")


def test_a_segment_with_its_ends_is_as_any_other(journal: QuorumJournal) -> None:
    segment = journal.start_segment(1, LAYOUT)
    segment.append(batch_of(1, [start_op(1), mark(2, 1), end_op(3)]))
    segment.finalize(3)
    assert list(read_all(journal.segments(1))) == [1, 2, 3]
