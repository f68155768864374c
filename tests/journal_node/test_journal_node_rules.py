"""The decisions of a JournalNode in isolation: epochs, serials, batches, recoveries."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.errors import (
    AssertionRemoteError,
    IllegalArgumentRemoteError,
    IllegalStateError,
    JavaIOError,
    JournalOutOfSyncError,
    RemoteError,
)
from hadoop_rpc.qjournal_values import INVALID_TXID, PreparedRecovery, RequestInfo, SegmentState
from journal_node.paxos import (
    AcceptedRecovery,
    DownloadReason,
    decode_accepted,
    encode_accepted,
    prepared,
    wants_download,
)
from journal_node.rules import (
    BatchDecision,
    Epochs,
    HostedSegment,
    admit,
    admit_write,
    check_batch,
    check_end,
    check_journal_id,
    check_namespace,
    check_range,
    check_start,
    may_finalize,
    promise,
)
from tests.journal_node.journal_node_support import NAMESPACE

NOW = Epochs(promised=5, writer=4, serial=7, committed=100)

# epoch, serial and committed txid of a call at a node in state NOW; the state afterwards, and the refusal
STATE_TABLE: list[tuple[tuple[int, int, int | None], Epochs, type[RemoteError] | None]] = [
    ((4, 8, None), NOW, JavaIOError),
    ((4, 8, 200), NOW, JavaIOError),
    ((5, 6, 200), NOW, JournalOutOfSyncError),
    ((5, 7, 200), NOW, JournalOutOfSyncError),
    ((5, 8, None), replace(NOW, serial=8), None),
    ((5, 8, 99), replace(NOW, serial=8), IllegalArgumentRemoteError),
    ((5, 8, 100), replace(NOW, serial=8), None),
    ((5, 9, 101), replace(NOW, serial=9, committed=101), None),
    ((6, 0, None), replace(NOW, promised=6, serial=0), None),
    ((6, 0, 99), replace(NOW, promised=6, serial=0), IllegalArgumentRemoteError),
    ((6, -1, None), replace(NOW, promised=6, serial=-1), JournalOutOfSyncError),
    ((6, 3, 150), replace(NOW, promised=6, serial=3, committed=150), None),
]


@pytest.mark.parametrize(("call", "then", "refusal"), STATE_TABLE)
def test_calls_of_writers_follow_the_state_table(
    call: tuple[int, int, int | None], then: Epochs, refusal: type[RemoteError] | None
) -> None:
    admission = admit(NOW, RequestInfo("j", *call))
    assert admission.epochs == then
    assert type(admission.refusal) is (refusal or type(None))


def test_transactions_are_accepted_only_from_the_segments_writer() -> None:
    assert admit_write(replace(NOW, writer=5), RequestInfo("j", 5, 8)).refusal is None
    refused = admit_write(NOW, RequestInfo("j", 5, 8))
    assert type(refused.refusal) is JavaIOError
    assert refused.epochs.serial == 8
    assert type(admit_write(NOW, RequestInfo("j", 5, 7)).refusal) is JournalOutOfSyncError


def test_no_epoch_far_above_the_promised_one_is_promised() -> None:
    assert promise(NOW, 1_000_005).promised == 1_000_005
    with pytest.raises(JavaIOError, match="is 1000001 above 5, which is impossible"):
        promise(NOW, 1_000_006)


@pytest.mark.parametrize("epoch", [0, 4, 5])
def test_no_epoch_is_promised_twice(epoch: int) -> None:
    with pytest.raises(JavaIOError, match="last promised epoch 5"):
        promise(NOW, epoch)
    assert promise(NOW, 6) == replace(NOW, promised=6, serial=-1)


small = st.integers(-2, 6)
calls = st.lists(st.builds(RequestInfo, st.just("j"), small, small, st.none() | small), max_size=30)


@given(calls)
def test_promises_and_commits_never_decrease_and_calls_are_not_repeated(requests: list[RequestInfo]) -> None:
    now, taken = Epochs(), set()
    for request in requests:
        admission = admit(now, request)
        then = admission.epochs
        assert (then.promised, then.serial if then.promised == now.promised else now.serial) >= (
            now.promised,
            now.serial,
        )
        assert then.committed >= now.committed
        assert then.writer == now.writer
        if admission.refusal is None:
            assert (request.epoch, request.serial) not in taken
            assert request.epoch == then.promised >= now.promised
            taken.add((request.epoch, request.serial))
        now = then


OPEN = HostedSegment(11, 15, -63, 80)


def test_consecutive_batch_is_accepted() -> None:
    assert check_batch(OPEN, 11, 15) == BatchDecision()


@pytest.mark.parametrize(
    ("segment", "segment_txid", "first", "abort"),
    [(None, 11, 15, False), (OPEN, 11, 16, False), (OPEN, 11, 14, False), (OPEN, 1, 15, True), (OPEN, 15, 15, True)],
)
def test_non_consecutive_batches_are_out_of_sync(
    segment: HostedSegment | None, segment_txid: int, first: int, abort: bool
) -> None:
    verdict = check_batch(segment, segment_txid, first)
    assert type(verdict.refusal) is JournalOutOfSyncError
    assert verdict.abort == abort


def test_segment_is_finalized_only_at_its_last_written_txid() -> None:
    check_end(11, 15, 15)
    with pytest.raises(JournalOutOfSyncError, match="has it up to txid 14"):
        check_end(11, 15, 14)


@pytest.mark.parametrize(("txid", "layout"), [(0, -63), (-12345, -63), (1, 0), (1, 63)])
def test_segment_start_requires_a_valid_txid_and_layout(txid: int, layout: int) -> None:
    check_start(1, -99)
    with pytest.raises(IllegalArgumentRemoteError):
        check_start(txid, layout)


@pytest.mark.parametrize(("first", "last"), [(0, 5), (-1, 5), (5, 4)])
def test_segments_contain_at_least_one_transaction(first: int, last: int) -> None:
    check_range(5, 5)
    with pytest.raises(IllegalArgumentRemoteError):
        check_range(first, last)


@pytest.mark.parametrize(
    "journal_id",
    [
        "",
        ".",
        "..",
        ".x",
        "a/b",
        "/",
        "a\0b",
        "a\nb",
        "a\x1b[2J",
        "a\u2028b",
        "a=b",
        "a,b",
        "a*",
        "a?",
        'a"',
        "a:b",
        256 * "a",
    ],
)
def test_journal_ids_must_be_valid_folder_names(journal_id: str) -> None:
    check_journal_id("ns1-journal_2")
    with pytest.raises(IllegalArgumentRemoteError):
        check_journal_id(journal_id)


def test_writers_of_another_namespace_are_refused() -> None:
    check_namespace(NAMESPACE, replace(NAMESPACE, layout_version=-60, c_time=9, blockpool_id=""), "here")
    with pytest.raises(JavaIOError, match="namespaceID of here is 980837346, but the writer's is 7"):
        check_namespace(NAMESPACE, replace(NAMESPACE, namespace_id=7), "here")
    with pytest.raises(JavaIOError, match="clusterID of here is CID-x"):
        check_namespace(NAMESPACE, replace(NAMESPACE, cluster_id="CID-y"), "here")


# ---- recovery ----

OWN = SegmentState(11, 15, True)
DONE = SegmentState(11, 15, False)
EPOCHS = Epochs(promised=5, writer=3, committed=INVALID_TXID)


def test_prepared_recovery_of_a_segment() -> None:
    assert prepared(None, None, EPOCHS) == PreparedRecovery(None, None, 3, None)
    assert prepared(OWN, None, replace(EPOCHS, committed=9)) == PreparedRecovery(OWN, None, 3, 9)
    assert prepared(OWN, AcceptedRecovery(OWN, 4), EPOCHS) == PreparedRecovery(OWN, 4, 3, None)
    assert prepared(OWN, AcceptedRecovery(DONE, 4), EPOCHS) == PreparedRecovery(DONE, 4, 3, None)
    assert prepared(DONE, AcceptedRecovery(SegmentState(11, 14, True), 4), EPOCHS) == PreparedRecovery(
        DONE, None, 3, None
    )


@pytest.mark.parametrize("own", [None, SegmentState(11, 14, True), SegmentState(11, 16, True)])
def test_copy_that_differs_from_the_accepted_one_is_an_error(own: SegmentState | None) -> None:
    with pytest.raises(AssertionRemoteError, match="accepted up to txid 15"):
        prepared(own, AcceptedRecovery(OWN, 4), EPOCHS)


def wants(
    wanted: SegmentState, own: SegmentState | None, before: AcceptedRecovery | None = None, committed: int = 0
) -> DownloadReason:
    return wants_download(wanted, own, before, 5, committed)


def test_copy_is_fetched_if_missing_or_different() -> None:
    assert wants(OWN, None) is DownloadReason.REPLACEMENT
    assert wants(SegmentState(11, 16, True), OWN) is DownloadReason.REPLACEMENT
    for committed in (14, 10, 16):
        assert wants(SegmentState(11, 14, True), OWN, committed=committed) is DownloadReason.REPLACEMENT


def test_copy_of_equal_length_is_compared_unless_already_known() -> None:
    assert wants(OWN, OWN) is DownloadReason.COMPARISON
    assert wants(DONE, OWN) is DownloadReason.COMPARISON
    assert wants(OWN, OWN, AcceptedRecovery(OWN, 4)) is DownloadReason.COMPARISON
    assert wants(OWN, OWN, AcceptedRecovery(DONE, 5)) is DownloadReason.COMPARISON
    assert wants(OWN, OWN, AcceptedRecovery(OWN, 5)) is DownloadReason.NOTHING
    assert wants(OWN, DONE) is DownloadReason.NOTHING
    start = SegmentState(11, 11, True)
    assert wants(start, start) is DownloadReason.NOTHING


@pytest.mark.parametrize(
    ("accepted_in", "writer", "newest", "allowed"),
    [
        (5, 3, 21, True),
        (None, 5, 11, True),
        (4, 5, 11, True),
        (None, 5, 21, False),
        (4, 4, 11, False),
        (None, 4, 11, False),
        (6, 6, 11, False),
    ],
)
def test_closed_segment_is_finalized_only_by_its_writer_or_if_accepted(
    accepted_in: int | None, writer: int, newest: int, allowed: bool
) -> None:
    with nullcontext() if allowed else pytest.raises(JournalOutOfSyncError, match="on this node in epoch 5"):
        may_finalize(11, 5, accepted_in, writer, newest)


@pytest.mark.parametrize("last", [10, 0, -1])
def test_accept_without_transactions_is_refused(last: int) -> None:
    with pytest.raises(IllegalArgumentRemoteError):
        wants(SegmentState(11, last, True), OWN)
    with pytest.raises(IllegalArgumentRemoteError):
        wants(SegmentState(-5, -1, True), None)


def test_earlier_decisions_are_not_undone() -> None:
    with pytest.raises(AssertionRemoteError, match="accepted in epoch 6"):
        wants(OWN, OWN, AcceptedRecovery(OWN, 6))
    with pytest.raises(AssertionRemoteError, match="committed txid 15 would be lost"):
        wants(SegmentState(11, 14, True), OWN, committed=15)
    for last in (14, 16):
        with pytest.raises(AssertionRemoteError, match="finalized up to txid 15"):
            wants(SegmentState(11, last, True), DONE)


longs = st.integers(0, (1 << 63) - 1)


@given(longs, longs, longs, st.booleans())
def test_recovery_record_round_trips(first: int, last: int, epoch: int, open_: bool) -> None:
    accepted = AcceptedRecovery(SegmentState(first, last, open_), epoch)
    assert decode_accepted(encode_accepted(accepted), first) == accepted
    with pytest.raises(IllegalStateError, match="belongs to segment"):
        decode_accepted(encode_accepted(accepted), first + 1)


def test_recovery_record_has_hadoops_bytes() -> None:
    text = b"segmentState {\n  startTxId: 11\n  endTxId: 15\n  isInProgress: true\n}\nacceptedInEpoch: 5\n"
    assert encode_accepted(AcceptedRecovery(OWN, 5)) == b"\x0a\x0a\x06\x08\x0b\x10\x0f\x18\x01\x10\x05\n" + text + b"\n"


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\x0a\x0a\x06\x08\x0b\x10\x0f\x18\x01\x10", b"\x01\xff"])
def test_truncated_recovery_record_is_refused(data: bytes) -> None:
    with pytest.raises(IllegalStateError, match="segment 11 is damaged"):
        decode_accepted(data, 11)
