"""A node's channel: order, serial numbers, the limit of its queue, the state out of sync until the next segment, and
lag.
"""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from hadoop_rpc.errors import RpcConnectionError
from hadoop_rpc.qjournal_values import RequestInfo
from journal.quorum.calls import CallKind, ReadCall, Tally, WriterCall
from journal.quorum.channel import HEARTBEAT_INTERVAL, WriterChannel
from journal.quorum.errors import NodeClosedError, NodeLagsError, NodeLeftOutError, NodeOutOfSyncError
from journal.quorum.lanes import ReadLane

NODE = "jn1:8485"
LIMIT = 1000


class Recorder:
    """A node that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, RequestInfo]] = []

    def heartbeat(self, request: RequestInfo) -> None:
        self.calls.append(("heartbeat", request))

    def note(self, name: str, request: RequestInfo) -> str:
        self.calls.append((name, request))
        return name


@pytest.fixture
def node() -> Any:
    return Recorder()


@pytest.fixture
def channel() -> WriterChannel:
    channel = WriterChannel(NODE, "j1", queue_limit=LIMIT, nameservice="ns1")
    channel.begin_epoch(3)
    return channel


def offer(
    channel: WriterChannel, name: str, kind: CallKind = CallKind.ORDERED, *, size: int = 0, last: int = 0, **more: Any
) -> Tally[Any]:
    tally: Tally[Any] = Tally([NODE], 1)
    call = WriterCall(name, lambda peer: peer.node.note(name, peer.request), kind, size, last, **more)  # type: ignore[attr-defined]
    channel.offer(call, tally)
    return tally


def write(channel: WriterChannel, last: int, size: int = 100) -> Tally[Any]:
    return offer(channel, f"journal {last}", CallKind.WRITE, size=size, last=last)


def perform(channel: WriterChannel, node: Any, now: float = 0.0, fault: Exception | None = None) -> str:
    """Perform the next call; return its name, or "" if there is none."""
    work = channel.take(now)
    if work is None:
        return ""
    if fault is None:
        channel.finish(work.run(node))
    else:
        channel.fail(fault)
    return work.name


def names(node: Recorder) -> list[str]:
    return [name for name, _ in node.calls]


def test_calls_are_sent_one_at_a_time_in_order(channel: WriterChannel, node: Any) -> None:
    first, second = offer(channel, "a"), offer(channel, "b")
    work = channel.take(0.0)
    assert work is not None
    assert (work.name, channel.take(0.0), channel.waiting, channel.idle) == ("a", None, False, False)
    channel.finish(work.run(node))
    assert perform(channel, node) == "b"
    assert (first.answers, second.answers) == ({NODE: "a"}, {NODE: "b"})
    assert channel.idle


def test_request_info_is_built_when_the_call_is_sent(channel: WriterChannel, node: Any) -> None:
    write(channel, 1)
    write(channel, 2)
    perform(channel, node)
    channel.commit(1)
    perform(channel, node)
    one, two = (request for _, request in node.calls)
    assert (one.journal_id, one.epoch, one.nameservice, one.committed_txid) == ("j1", 3, "ns1", None)
    assert (two.serial - one.serial, two.committed_txid) == (1, 1)


def test_a_failed_write_puts_the_node_out_of_sync_until_the_next_segment(channel: WriterChannel, node: Any) -> None:
    failed = write(channel, 1)
    perform(channel, node, fault=RpcConnectionError("refused"))
    assert list(failed.faults) == [NODE]
    assert channel._out_of_sync == "refused"
    later, end = write(channel, 2), offer(channel, "finalize", CallKind.FINALIZE)
    assert perform(channel, node) == "heartbeat"
    assert perform(channel, node) == ""
    assert isinstance(later.faults[NODE], NodeOutOfSyncError)
    assert isinstance(end.faults[NODE], NodeOutOfSyncError)
    assert "refused" in str(end.faults[NODE])
    offer(channel, "start", CallKind.START)
    good = write(channel, 3)
    assert [perform(channel, node), perform(channel, node)] == ["start", "journal 3"]
    assert good.answers
    assert channel._out_of_sync == ""


def test_failed_segment_start_leaves_the_node_out_of_sync(channel: WriterChannel, node: Any) -> None:
    write(channel, 1)
    perform(channel, node, fault=RpcConnectionError("refused"))
    offer(channel, "start", CallKind.START)
    perform(channel, node, fault=RpcConnectionError("refused again"))
    assert channel._out_of_sync == "refused"


def test_heartbeats_are_sent_once_a_second_while_out_of_sync(channel: WriterChannel, node: Any) -> None:
    write(channel, 1)
    perform(channel, node, fault=RpcConnectionError("refused"))
    sent = []
    for tenth in range(31):
        now = tenth / 10
        write(channel, 2)
        sent.append(perform(channel, node, now))
    assert HEARTBEAT_INTERVAL == 1.0
    assert [tenth for tenth, name in enumerate(sent) if name] == [0, 11, 22]
    assert names(node) == ["heartbeat"] * 3
    channel.commit(7)
    write(channel, 8)
    perform(channel, node, 4.0)
    assert node.calls[-1][1].committed_txid == 7


def test_error_of_a_failed_heartbeat_is_reported(channel: WriterChannel, node: Any) -> None:
    write(channel, 1)
    perform(channel, node, fault=RpcConnectionError("refused"))
    later = write(channel, 2)
    perform(channel, node, fault=RpcConnectionError("still refused"))
    assert str(later.faults[NODE]) == "still refused"
    assert channel._queued_bytes == 0


def test_batch_beyond_the_queue_limit_fails_at_once_and_leaves_a_gap(channel: WriterChannel, node: Any) -> None:
    tallies = [write(channel, txid, 400) for txid in (1, 2, 3, 4)]
    assert [bool(each.faults) for each in tallies] == [False, False, True, True]
    assert isinstance(tallies[2].faults[NODE], NodeLagsError)
    assert channel._queued_bytes == 800
    assert [perform(channel, node), perform(channel, node)] == ["journal 1", "journal 2"]
    # the queue has space again, but the refused batch is missing
    assert channel._queued_bytes == 0
    assert write(channel, 5, 400).faults
    assert perform(channel, node) == "heartbeat"
    assert "lagged too far to receive txid 3" in channel._out_of_sync
    assert names(node) == ["journal 1", "journal 2", "heartbeat"]


def test_new_segment_empties_the_queue(channel: WriterChannel, node: Any) -> None:
    for txid in (1, 2, 3):
        write(channel, txid, 400)
    offer(channel, "start", CallKind.START)
    for _ in range(2):
        perform(channel, node)
    good = write(channel, 4, 400)
    assert [perform(channel, node), perform(channel, node), perform(channel, node)] == [
        "heartbeat",
        "start",
        "journal 4",
    ]
    assert good.answers


def test_batch_above_the_limit_is_accepted_by_an_empty_queue(channel: WriterChannel, node: Any) -> None:
    assert not write(channel, 1, 5 * LIMIT).faults
    assert write(channel, 2, 1).faults
    assert perform(channel, node) == "journal 1"


def test_queue_space_is_released_after_every_result(channel: WriterChannel, node: Any) -> None:
    write(channel, 1, 300)
    write(channel, 2, 300)
    write(channel, 3, 300)
    perform(channel, node)
    assert channel._queued_bytes == 600
    perform(channel, node, fault=RpcConnectionError("refused"))
    perform(channel, node)
    assert channel._queued_bytes == 0


def test_new_epoch_drops_calls_of_the_previous_epoch(channel: WriterChannel, node: Any) -> None:
    write(channel, 1)
    waiting = write(channel, 2)
    work = channel.take(0.0)
    assert work is not None
    channel.begin_epoch(4)
    assert isinstance(waiting.faults[NODE], NodeClosedError)
    channel.fail(RpcConnectionError("refused"))  # a call with the old epoch, which does not affect this epoch
    assert (channel._out_of_sync, channel._queued_bytes) == ("", 0)
    offer(channel, "start", CallKind.START)
    perform(channel, node)
    assert node.calls[-1][1].epoch == 4


def test_new_epoch_starts_in_sync(channel: WriterChannel, node: Any) -> None:
    write(channel, 1)
    perform(channel, node, fault=RpcConnectionError("refused"))
    channel.begin_epoch(4)
    offer(channel, "finalize", CallKind.FINALIZE)
    assert perform(channel, node) == "finalize"


def test_call_can_exclude_a_node(channel: WriterChannel, node: Any) -> None:
    left_out = offer(channel, "accept", leave_out=lambda name: f"{name} told nothing")
    following = offer(channel, "next")
    assert perform(channel, node) == "next"
    assert isinstance(left_out.faults[NODE], NodeLeftOutError)
    assert "told nothing" in str(left_out.faults[NODE])
    assert following.answers


def test_close_fails_waiting_calls(channel: WriterChannel) -> None:
    waiting = write(channel, 1)
    channel.close()
    assert isinstance(waiting.faults[NODE], NodeClosedError)
    assert channel.idle


def test_abandoned_reads_are_not_sent() -> None:
    lane = ReadLane(NODE)
    tallies = [Tally[str]([NODE], 1) for _ in range(3)]
    for number, tally in enumerate(tallies):
        lane.offer(ReadCall(f"read {number}", lambda node: "answer"), tally)
    first = lane.take(0.0)
    assert first is not None
    assert lane.take(0.0) is None
    tallies[1].abandon()
    lane.finish("late")
    following = lane.take(0.0)
    assert following is not None
    assert (first.name, following.name) == ("read 0", "read 2")
    lane.fail(RpcConnectionError("refused"))
    assert (tallies[0].answers, list(tallies[2].faults)) == ({NODE: "late"}, [NODE])
    lane.offer(ReadCall("read 3", lambda node: "answer"), last := Tally[str]([NODE], 1))
    lane.close()
    assert isinstance(last.faults[NODE], NodeClosedError)


def test_abandoned_reads_do_not_accumulate_for_a_hanging_node() -> None:
    lane = ReadLane(NODE)
    lane.offer(ReadCall("read", lambda node: "answer"), Tally[str]([NODE], 1))
    assert lane.take(0.0) is not None
    given_up = []
    for _ in range(100):
        tally = Tally[str]([NODE, "other"], 1)
        lane.offer(ReadCall("read", lambda node: "answer"), tally)
        tally.answer("other", "many transactions")
        tally.abandon()
        given_up.append(weakref.ref(tally))
    del tally
    assert sum(each() is not None for each in given_up) == 1
