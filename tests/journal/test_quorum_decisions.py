"""Decisions of a quorum writer based on responses: counting, epochs, choice of a copy, phases."""

from __future__ import annotations

import itertools
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.errors import JavaIOError, JournalNotFormattedError, NotAuthorizedError, RpcConnectionError
from hadoop_rpc.qjournal_values import PreparedRecovery, RequestInfo, SegmentState
from journal.errors import JournalError, JournalInUseError
from journal.quorum.calls import QuorumRound, ReadCall, Tally, TallyState, majority, quorum_error
from journal.quorum.decisions import (
    choose_recovery,
    is_fenced,
    may_differ_unseen,
    newest_segment,
    next_epoch,
    recovery_rank,
)
from journal.quorum.errors import (
    JournalClosedError,
    QuorumError,
    SegmentRecoveryError,
    WriterFencedError,
    WriterStateError,
)
from journal.quorum.phases import TRANSITIONS, Event, Phase, refusal
from journal_node.rules import Epochs, admit

# ---- counting ----


@pytest.mark.parametrize(("nodes", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_majority_of_each_number_of_nodes(nodes: int, needed: int) -> None:
    assert majority(nodes) == needed
    assert 2 * needed > nodes


@given(
    st.integers(1, 7).flatmap(
        lambda n: st.tuples(st.just(n), st.permutations(range(n)), st.lists(st.booleans(), min_size=n, max_size=n))
    )
)
def test_tally_is_decided_as_early_as_possible(case: tuple[int, list[int], list[bool]]) -> None:
    count, order, good = case
    need = majority(count)
    tally = Tally[int]([str(number) for number in range(count)], need)
    for reported, number in enumerate(order):
        answers = sum(good[each] for each in order[:reported])
        expected = (
            TallyState.REACHED
            if answers >= need
            else TallyState.MISSED
            if reported - answers > count - need
            else TallyState.OPEN
        )
        assert tally.verdict is expected
        assert not tally.complete
        if good[number]:
            tally.answer(str(number), number)
        else:
            tally.fail(str(number), RpcConnectionError("down"))
    assert tally.complete
    assert tally.verdict is (TallyState.REACHED if sum(good) >= need else TallyState.MISSED)
    assert tally.silent == ()


def test_first_response_of_a_node_counts() -> None:
    tally = Tally[int](["a", "b", "c"], 2)
    tally.fail("a", RpcConnectionError("down"))
    tally.answer("a", 1)
    tally.answer("b", 1)
    tally.fail("b", RpcConnectionError("down"))
    assert (tally.answers, list(tally.faults), tally.silent) == ({"b": 1}, ["a"], ("c",))


def error_of(faults: dict[str, Exception]) -> QuorumError:
    tally = Tally[None](["a", "b", "c"], 2)
    for node, fault in faults.items():
        tally.fail(node, fault)
    return quorum_error(QuorumRound(ReadCall("journal", lambda node: None), 2, 20.0), tally, 7)


def test_an_error_names_every_node() -> None:
    error = error_of({"a": RpcConnectionError("refused")})
    assert str(error) == (
        "txid 7: journal: 0 of 3 JournalNodes answered, but 2 are needed; a: refused; no answer within 20 s from b, c"
    )
    assert list(error.faults) == ["a"]


def test_nodes_that_refuse_our_login_are_available() -> None:
    refused = NotAuthorizedError("not authorized: this service is only accessible by nn/h@R")
    assert error_of({"a": RpcConnectionError("down"), "b": refused, "c": refused}).hint == refused.hint
    # the other nodes are the cause
    down = RpcConnectionError("down")
    assert error_of({"a": down, "b": refused, "c": down}).hint != refused.hint


def test_repeated_error_has_the_same_text_in_any_order_of_arrival() -> None:
    faults: dict[str, Exception] = {node: RpcConnectionError("refused") for node in ("a", "b", "c")}
    assert str(error_of(faults)) == str(error_of(dict(reversed(faults.items()))))


def test_error_recognizes_that_the_writer_was_fenced() -> None:
    fenced = JavaIOError("IPC's epoch 1 is less than the last promised epoch 2 ; journal id: j")
    assert isinstance(error_of({"a": fenced, "b": RpcConnectionError("refused")}), WriterFencedError)
    other = JavaIOError("IPC's epoch 2 is not the current writer epoch  1")
    assert not isinstance(error_of({"a": other, "b": other}), WriterFencedError)


def test_fencing_message_of_our_journal_node_is_recognized() -> None:
    refusal_of_ours = admit(Epochs(promised=3), RequestInfo("j", 2, 1)).refusal
    assert refusal_of_ours is not None
    assert is_fenced(refusal_of_ours)


def test_error_hint_for_a_journal_that_was_never_formatted() -> None:
    unformatted = JournalNotFormattedError("not formatted")
    assert "Format new journals only" in error_of({"a": unformatted, "b": unformatted}).hint
    assert "Make a majority" in error_of({"a": unformatted, "b": RpcConnectionError("refused")}).hint


# ---- epochs ----


def test_next_epoch_is_above_all_promised_epochs() -> None:
    assert next_epoch({"a": 0, "b": 0}, None, {}) == 1
    assert next_epoch({"a": 7, "b": 3}, None, {}) == 8


def test_writer_that_lost_its_majority_may_retry() -> None:
    assert next_epoch({"a": 3, "b": 3}, 3, {}) == 4
    # one node accepted an earlier proposal of the same writer
    assert next_epoch({"a": 4, "b": 3}, 3, {"a": 4}) == 5


@pytest.mark.parametrize("granted", [{}, {"b": 4}, {"a": 3}])
def test_writer_never_takes_over_from_a_later_writer(granted: dict[str, int]) -> None:
    with pytest.raises(WriterFencedError, match=r"epoch 3 has been superseded; promised epochs: a to epoch 4"):
        next_epoch({"a": 4, "b": 3}, 3, granted)


def test_newest_segment_of_the_responses() -> None:
    assert newest_segment([None, None]) is None
    assert newest_segment([1, None, 4]) == 4


# ---- the choice of a copy ----


def held(
    last: int, *, in_progress: bool = True, accepted: int | None = None, writer: int = 0, committed: int | None = None
) -> PreparedRecovery:
    return PreparedRecovery(SegmentState(1, last, in_progress), accepted, writer, committed)


NOTHING = PreparedRecovery(None, None, 9, None)
ORDERED = [
    NOTHING,
    held(3),
    held(4),
    held(3, writer=1),
    held(4, accepted=1),
    held(3, accepted=1, writer=2),
    held(5, accepted=2),
    held(3, in_progress=False),
]


def test_copies_are_ranked_as_in_hadoop() -> None:
    """Hadoop's SegmentRecoveryComparator prefers a finalized copy, then the later epoch, then the longer copy."""
    for worse, better in itertools.combinations(ORDERED, 2):
        assert recovery_rank(worse) < recovery_rank(better)
    assert recovery_rank(held(3)) == recovery_rank(held(3))
    assert recovery_rank(held(3, in_progress=False)) == recovery_rank(held(3, in_progress=False, writer=7))


@given(st.permutations(ORDERED[:-1]))
def test_best_copy_is_chosen_regardless_of_order(order: list[PreparedRecovery]) -> None:
    prepared = {f"jn{number}": answer for number, answer in enumerate(order)}
    chosen = choose_recovery(1, prepared)
    assert chosen is not None
    assert prepared[chosen.node] == ORDERED[-2]
    assert chosen.segment == ORDERED[-2].segment


def test_nothing_is_recovered_if_no_node_has_a_copy() -> None:
    assert choose_recovery(1, {"a": NOTHING, "b": NOTHING}) is None


@pytest.mark.parametrize(
    ("prepared", "problem"),
    [
        ({"a": held(3, in_progress=False), "b": held(4, in_progress=False)}, "differ in length: a 1-3, b 1-4"),
        ({"a": held(3), "b": held(2, committed=4)}, "b reports that 4 is committed"),
        ({"a": PreparedRecovery(SegmentState(2, 3, True), None, 1, None)}, "asked for the segment of txid 1"),
    ],
)
def test_contradictory_copies_stop_a_recovery(prepared: dict[str, PreparedRecovery], problem: str) -> None:
    with pytest.raises(SegmentRecoveryError, match=problem):
        choose_recovery(1, prepared)


@pytest.mark.parametrize(
    ("chosen", "other", "differs"),
    [
        (held(4, writer=2), held(4, writer=2), False),
        (held(4, writer=2), held(4, writer=1), True),
        (held(4, writer=1), held(4, writer=2), True),
        (held(4, accepted=2, writer=1), held(4, accepted=2), False),
        (held(4, writer=2), held(3, writer=1), False),  # the node notices the difference and fetches the copy
        (held(1, writer=2), held(1, writer=1), False),  # START_LOG_SEGMENT alone
        (held(4, in_progress=False, writer=2), held(4, writer=2), True),
        (held(4, in_progress=False), held(4, in_progress=False), False),
        (held(4, writer=2), NOTHING, False),
    ],
)
def test_copies_that_must_be_compared(chosen: PreparedRecovery, other: PreparedRecovery, differs: bool) -> None:
    assert may_differ_unseen(chosen, other) is differs


# ---- phases ----


def test_every_phase_has_transitions_and_is_reachable() -> None:
    assert TRANSITIONS.keys() == set(Phase)
    seen = {Phase.IDLE}
    queue = deque(seen)
    while queue:
        for following in TRANSITIONS[queue.popleft()].values():
            if following not in seen:
                seen.add(following)
                queue.append(following)
    assert seen == set(Phase)


def test_writing_requires_a_granted_epoch() -> None:
    """The only transition from IDLE, LOST or FENCED to WRITING requires a majority's promise."""
    without = {
        phase: {
            event: following for event, following in row.items() if event not in (Event.GRANTED, Event.GRANTED_EMPTY)
        }
        for phase, row in TRANSITIONS.items()
    }
    for start in (Phase.IDLE, Phase.LOST, Phase.FENCED):
        seen, queue = {start}, deque([start])
        while queue:
            for following in without[queue.popleft()].values():
                if following not in seen:
                    seen.add(following)
                    queue.append(following)
        assert not seen & {Phase.READY, Phase.STARTING, Phase.WRITING, Phase.APPENDING, Phase.FINALIZING}


def test_fenced_writer_can_only_be_closed() -> None:
    assert TRANSITIONS[Phase.FENCED] == {Event.CLOSE: Phase.CLOSED}
    assert TRANSITIONS[Phase.CLOSED] == {}


@pytest.mark.parametrize("phase", Phase)
def test_failed_call_leads_to_lost_or_fenced(phase: Phase) -> None:
    row = TRANSITIONS[phase]
    assert row.get(Event.LOSE, Phase.LOST) is Phase.LOST
    assert row.get(Event.FENCE, Phase.FENCED) is Phase.FENCED
    assert (Event.LOSE in row) == (Event.FENCE in row)


@pytest.mark.parametrize(
    ("phase", "event", "kind"),
    [
        (Phase.IDLE, Event.START, WriterStateError),
        (Phase.LOST, Event.APPEND, WriterStateError),
        (Phase.READY, Event.APPEND, WriterStateError),
        (Phase.WRITING, Event.START, JournalInUseError),
        (Phase.APPENDING, Event.RECOVER, JournalInUseError),
        (Phase.WRITING, Event.FORMAT, JournalInUseError),
        (Phase.FENCED, Event.RECOVER, WriterFencedError),
        (Phase.CLOSED, Event.APPEND, JournalClosedError),
    ],
)
def test_reason_for_a_refused_step(phase: Phase, event: Event, kind: type[JournalError]) -> None:
    assert event not in TRANSITIONS[phase]
    error = refusal(phase, event)
    assert isinstance(error, kind)
    assert phase.value in str(error)
    assert error.hint
