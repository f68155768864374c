"""A quorum journal on nodes in memory: the interface `Journal`, and failing nodes (TestQuorumJournalManager)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hadoop_rpc.errors import JavaIOError
from journal.errors import JournalError, JournalExistsError, JournalInUseError, TransactionGapError
from journal.journal import Journal
from journal.quorum.errors import JournalClosedError, QuorumError, WriterStateError
from journal.quorum.quorum_journal import QuorumJournal
from tests.journal.journal_support import count_of
from tests.journal.quorum_journal_support import A, B, C, failing, finalized, journal, lose_majority, ranges, simulation
from tests.journal.quorum_model import JOURNAL, LAYOUT, NAMESPACE
from tests.journal.quorum_ops import batch, batch_of, end_op, mark, read_all, start_op, write_segment
from tests.journal.quorum_simulation import SETTINGS, Fate, Message, Simulation, simulated_journal

__all__ = ["journal", "simulation"]


def test_quorum_journal_implements_the_journal_interface(journal: QuorumJournal) -> None:
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


def test_one_formatted_node_proves_that_the_journal_exists(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    simulation.hosts[B].node.format(JOURNAL, NAMESPACE, force=False)
    simulation.crash(A)
    assert journal.is_formatted()


def test_missing_response_does_not_mean_unformatted(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    simulation.crash(A)
    with pytest.raises(QuorumError, match="isFormatted: "):
        journal.is_formatted()
    with pytest.raises(QuorumError):
        journal.format(NAMESPACE)


def test_format_requires_all_nodes(simulation: Simulation) -> None:
    failing(simulation, (B, "format"))
    with pytest.raises(QuorumError, match="3 are needed; jn2:8485: the connection broke"):
        simulated_journal(simulation).format(NAMESPACE)


def test_writing_requires_recovery(simulation: Simulation) -> None:
    journal = simulated_journal(simulation)
    with pytest.raises(QuorumError) as unformatted:
        journal.recover(NAMESPACE)
    assert "Format new journals only" in unformatted.value.hint
    journal.format(NAMESPACE)
    with pytest.raises(WriterStateError):
        journal.start_segment(1, LAYOUT)
    with pytest.raises(WriterStateError):
        journal.purge(1)


def test_journal_of_another_namespace_is_not_recovered(simulation: Simulation) -> None:
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
    assert [count_of(journal, txid) for txid in (1, 2, 4, 5)] == [4, 3, 1, 0]


def test_only_one_segment_can_be_open(journal: QuorumJournal) -> None:
    segment = journal.start_segment(1, LAYOUT)
    for refused in (lambda: journal.start_segment(1, LAYOUT), lambda: journal.recover(NAMESPACE)):
        with pytest.raises(JournalInUseError):
            refused()
    segment.append(batch(1, 3))
    segment.finalize(3)
    with pytest.raises(WriterStateError):
        segment.append(batch(4, 4))
    assert segment.first_txid == 1


def test_batches_must_be_consecutive(journal: QuorumJournal) -> None:
    segment = journal.start_segment(1, LAYOUT)
    with pytest.raises(ValueError, match="instead of 1 on"):
        segment.append(batch(2, 2))
    segment.append(batch(1, 2))
    with pytest.raises(ValueError, match="the segment ends with txid 2, not with 3"):
        segment.finalize(3)
    segment.append(batch(3, 3))
    segment.finalize(3)
    assert ranges(journal) == [(1, 3)]


def test_aborted_segment_stays_in_progress(journal: QuorumJournal) -> None:
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


def test_purge_requires_only_a_majority(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6)
    simulation.crash(C)
    journal.purge(4)
    assert finalized(simulation, A) == [(4, 6)]
    simulation.crash(B)
    with pytest.raises(QuorumError, match="purgeLogs"):
        journal.purge(5)


def test_purge_does_not_wait_for_a_hanging_node(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    write_segment(journal, 4, 6)
    failing(simulation, (C, "purgeLogs"), fate=Fate.SILENT)
    began = simulation.now
    journal.purge(4)
    assert simulation.now - began < 2.0
    assert finalized(simulation, A) == [(4, 6)]


@pytest.mark.parametrize(("seconds", "received"), [(0.5, True), (30.0, False)])
def test_purge_waits_briefly_for_a_slow_node(
    simulation: Simulation, journal: QuorumJournal, caplog: pytest.LogCaptureFixture, seconds: float, received: bool
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
    assert (finalized(simulation, C) == [(4, 6)]) is received
    assert (simulation.now - began >= seconds) is received
    assert simulation.now - began < 2.0
    simulation.settle()
    # the request is in flight, and is not cancelled
    assert finalized(simulation, C) == [(4, 6)]
    assert "still has segments" not in caplog.text


def test_closed_journal_refuses_calls(journal: QuorumJournal) -> None:
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


# ---- nodes that fail ---------------------------------------------------------------------------------------


def test_restarted_node_participates_from_the_next_segment(simulation: Simulation, journal: QuorumJournal) -> None:
    write_segment(journal, 1, 3)
    simulation.crash(A)
    segment = write_segment(journal, 4, 5, finalize=False)
    simulation.restart(A)
    segment.append(batch(6, 6))
    segment.finalize(6)
    assert finalized(simulation, A) == [(1, 3)]
    write_segment(journal, 7, 9)
    simulation.settle()
    assert finalized(simulation, A) == [(1, 3), (7, 9)]
    simulation.crash(B)
    assert read_all(journal.segments(1)) == {txid: mark(txid, 0) for txid in range(1, 10)}


def test_loss_of_two_nodes_stops_the_writer_until_recovery(simulation: Simulation, journal: QuorumJournal) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    lose_majority(simulation, segment)
    for refused in (lambda: segment.append(batch(4, 4)), lambda: journal.start_segment(4, LAYOUT)):
        with pytest.raises(WriterStateError, match="does not know which transactions the nodes have"):
            refused()
    simulation.settle()
    journal.recover(NAMESPACE)
    assert ranges(journal) in ([(1, 3)], [(1, 4)])


def test_call_without_responses_ends_with_its_timeout(simulation: Simulation, journal: QuorumJournal) -> None:
    segment = write_segment(journal, 1, 3, finalize=False)
    failing(simulation, (A, "journal"), (B, "journal"), fate=Fate.SILENT)
    began = simulation.now
    with pytest.raises(QuorumError, match="no answer within 20 s from jn1:8485, jn2:8485"):
        segment.append(batch(4, 4))
    assert simulation.now - began == pytest.approx(SETTINGS.write_transactions)


def test_hint_without_a_majority_differs_for_reader_and_writer(simulation: Simulation, journal: QuorumJournal) -> None:
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


# ---- forwarded values --------------------------------------------------------------------------------------


def test_error_contains_the_message_of_the_node(simulation: Simulation, journal: QuorumJournal) -> None:
    for name in (A, B):
        simulation.hosts[name].node.start_log_segment = _refuse
    with pytest.raises(QuorumError, match="jn1:8485: IOException: the disk is full; jn2") as error:
        journal.start_segment(1, LAYOUT)
    assert isinstance(error.value, JournalError)
    assert (error.value.txid, set(error.value.faults)) == (1, {A, B})


def _refuse(*_: Any) -> None:
    raise JavaIOError("the disk is full")


def test_segment_with_start_and_end_operations_is_read(journal: QuorumJournal) -> None:
    segment = journal.start_segment(1, LAYOUT)
    segment.append(batch_of(1, [start_op(1), mark(2, 1), end_op(3)]))
    segment.finalize(3)
    assert list(read_all(journal.segments(1))) == [1, 2, 3]
