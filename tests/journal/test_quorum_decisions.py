"""Decisions of a quorum writer based on responses: counting, epochs, choice of a copy, phases, addresses, settings."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_rpc.errors import JavaIOError, JournalNotFormattedError, RpcConnectionError
from hadoop_rpc.namenode_values import EditLogManifest
from hadoop_rpc.qjournal_values import JournalState, NodeManifest, PreparedRecovery, RequestInfo, SegmentState
from journal.errors import JournalError, JournalInUseError
from journal.open_journal import open_journal
from journal.quorum import open_quorum
from journal.quorum.address import NodeAddress, QuorumAddress, http_base, segment_url
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
from journal.quorum.open_quorum import QuorumOptions
from journal.quorum.phases import TRANSITIONS, Event, Phase, refusal
from journal.quorum.quorum_journal import QuorumJournal
from journal.quorum.settings import QuorumSettings
from journal_node.rules import Epochs, admit
from tests.journal.quorum_model import NAMESPACE

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
    """SegmentRecoveryComparator: a finalized copy first, then the later epoch, then the longer copy."""
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


# ---- addresses ----


def test_uri_is_parsed_into_nodes_and_journal() -> None:
    address = QuorumAddress.parse("qjournal://jn1:8486; jn2 ;[::1]:99/ns1")
    assert address.nodes == (NodeAddress("jn1", 8486), NodeAddress("jn2", 8485), NodeAddress("::1", 99))
    assert address.journal_id == "ns1"
    assert address.uri == "qjournal://jn1:8486;jn2:8485;[::1]:99/ns1"
    assert QuorumAddress.parse(address.uri) == address


@pytest.mark.parametrize(
    ("path", "journal_id"),
    [
        ("my%20journal", "my journal"),
        ("a%2Cb", "a,b"),
        ("a:b=c@d", "a:b=c@d"),
        ("100%25", "100%"),
        ("x%3Fy%23z", "x?y#z"),
        ("%C3%A9", "é"),
    ],
)
def test_escapes_in_the_name_of_a_journal_are_decoded(path: str, journal_id: str) -> None:
    """A NameNode decodes the path, so the JournalNodes know the decoded name."""
    address = QuorumAddress.parse(f"qjournal://jn1:8485/{path}")
    assert address.journal_id == journal_id
    assert address.uri == f"qjournal://jn1:8485/{path}"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///x",
        "qjournal://a;b;c",
        "qjournal://a;b;c/",
        "qjournal://a;b;c/x/y",
        "qjournal://a;b;c/.x",
        "qjournal://a;b;c/%2Ex",
        "qjournal://a;b;c/x%2Fy",
        "qjournal://a;b;c/x?y",
        "qjournal:///x",
        "qjournal://a;;c/x",
        "qjournal://a;a:8485/x",
        "qjournal://a:port/x",
        "qjournal://a:99999/x",
        "qjournal://user@a/x",
    ],
)
def test_invalid_quorum_uris_are_refused(uri: str) -> None:
    with pytest.raises(JournalError) as refused:
        QuorumAddress.parse(uri)
    assert uri in str(refused.value)
    assert "qjournal://host:port" in refused.value.hint


@pytest.mark.parametrize(
    ("reported", "base"),
    [
        (JournalState(1, 8480), "http://jn1:8480"),
        (JournalState(1, 8480, "http://0.0.0.0:8490"), "http://jn1:8490"),
        (JournalState(1, 0, "https://elsewhere:8481"), "https://jn1:8481"),
        (NodeManifest(EditLogManifest(()), 8480), "http://jn1:8480"),
        (JournalState(1, 8480, "http://[broken"), "http://jn1:8480"),
        (JournalState(1, 8480, "https://jn1:99999999"), "http://jn1:8480"),
        (JournalState(1, 8480, "jn1"), "http://jn1:8480"),
    ],
)
def test_http_base_url_of_a_node(reported: Any, base: str) -> None:
    assert http_base(NodeAddress("jn1", 8485), reported) == base


def test_url_of_a_segment() -> None:
    base = http_base(NodeAddress("::1", 8485), JournalState(1, 8480))
    assert segment_url(base, "ns 1", 7, NAMESPACE) == (
        "http://[::1]:8480/getJournal?jid=ns%201&segmentTxId=7"
        "&storageInfo=-63%3A12345%3A0%3ACID-quorum&inProgressOk=true"
    )
    assert "storageInfo" not in segment_url(base, "ns1", 7, None)


# ---- settings ----


def test_default_settings_equal_hadoops() -> None:
    assert QuorumSettings.from_configuration(Configuration.from_mapping({}, {})) == QuorumSettings()


def test_settings_are_read_from_hadoops_keys() -> None:
    settings = QuorumSettings.from_configuration(
        Configuration.from_mapping(
            {
                "dfs.qjournal.write-txns.timeout.ms": "60000",
                "dfs.qjournal.new-epoch.timeout.ms": "5s",
                "dfs.qjournal.queued-edits.limit.mb": "1",
                "dfs.qjm.operations.timeout": "2m",
                "dfs.ha.tail-edits.in-progress": "true",
                "dfs.ha.tail-edits.qjm.rpc.max-txns": "10",
            },
            {},
        )
    )
    assert (settings.write_transactions, settings.new_epoch, settings.operations) == (60.0, 5.0, 120.0)
    assert (settings.queue_limit, settings.tail_in_progress, settings.max_tail_transactions) == (1 << 20, True, 10)


def test_max_tail_transactions_of_0_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max-txns='0': must be at least 1"):
        QuorumSettings.from_configuration(Configuration.from_mapping({"dfs.ha.tail-edits.qjm.rpc.max-txns": "0"}, {}))


def test_a_journal_is_opened_by_its_uri() -> None:
    named = open_journal("qjournal://a;b;c", "ns1", quorum=QuorumOptions(user="hdfs"))
    assert isinstance(named, QuorumJournal)
    assert named.location == "qjournal://a:8485;b:8485;c:8485/ns1"
    assert open_journal(named.location).location == named.location
    for wrong in (lambda: open_journal("qjournal://a;b;c"), lambda: open_journal("qjournal://a;b;c/x", "y")):
        with pytest.raises(JournalError, match="name of a journal"):
            wrong()


def test_connection_timeout_is_the_longest_call_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[float] = []

    def client(host: str, port: int, *, user: str, timeout: float, nameservice: str | None) -> Any:
        reported.append(timeout)
        return object()

    monkeypatch.setattr(open_quorum, "QJournalClient", client)
    open_journal("qjournal://a/ns1", quorum=QuorumOptions(user="hdfs"))
    settings = QuorumSettings.from_configuration(
        Configuration.from_mapping({"dfs.qjournal.accept-recovery.timeout.ms": "10m"}, {})
    )
    open_journal("qjournal://a/ns1", quorum=QuorumOptions(user="hdfs", settings=settings))
    assert reported == [120.0, 600.0]
