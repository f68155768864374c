"""A writer's calls to one JournalNode, and the state of that node (IPCLoggerChannel); no I/O.

For each segment, a node is in sync or out of sync.

    a batch fails                    -> out of sync.
    a batch exceeds the queue limit  -> out of sync, once the batches queued before it have been sent.
    a segment begins on the node     -> in sync.
    the writer begins an epoch       -> in sync; queued calls of the earlier epoch are dropped.

A node that is out of sync receives heartbeats, but neither batches nor the end of the segment. Its segments therefore
never have a gap, and the node never finalizes an incomplete segment. One call is in flight at a time, and serial
numbers rise with each call, so calls stay in order.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

from hadoop_rpc.qjournal_values import RequestInfo
from journal.quorum.calls import CallKind, CallTarget, Tally, WriterCall
from journal.quorum.errors import NodeClosedError, NodeLagsError, NodeLeftOutError, NodeOutOfSyncError
from journal.quorum.lanes import NodeCall

_LOG = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 1.0  # seconds, IPCLoggerChannel.HEARTBEAT_INTERVAL_MILLIS


@dataclass(slots=True)
class _QueuedCall:
    call: WriterCall[Any]
    tally: Tally[Any]
    epoch: int
    gap: bool = False
    heartbeat: bool = False


def _not_performed(_: CallTarget) -> None:
    """Do nothing, as the `perform` of a gap marker in the queue, which has no records and is never sent."""


class WriterChannel:
    """The ordered calls to one node.

    Args:
        node: name of the JournalNode.
        journal_id, nameservice: id of the journal, and nameservice; both are sent with each call.
        queue_limit: bytes of records that may wait in the queue; only an empty queue accepts a larger batch.
    """

    def __init__(self, node: str, journal_id: str, *, queue_limit: int, nameservice: str | None = None) -> None:
        self.node = node
        self._journal_id = journal_id
        self._nameservice = nameservice
        self._limit = queue_limit
        self._queue: deque[_QueuedCall] = deque()
        self._sent: _QueuedCall | None = None
        self._epoch = 0
        self._serial = 0
        self._committed: int | None = None
        self._out_of_sync = ""
        self._gap_queued = False
        self._heartbeat_at: float | None = None
        self._queued_bytes = 0

    # ---- for the writer ----

    def begin_epoch(self, epoch: int) -> None:
        """Drop the calls of an earlier epoch; the node then counts as in sync."""
        self._drop("the writer began a new epoch")
        self._epoch = epoch
        self._committed = None
        self._out_of_sync = ""
        self._gap_queued = False

    def commit(self, txid: int) -> None:
        """Record that `txid` is durable; the next call reports this to the node."""
        self._committed = txid

    def offer(self, call: WriterCall[Any], tally: Tally[Any]) -> None:
        """Queue `call`. A batch that exceeds the queue's limit fails immediately, and the node is then out of sync."""
        entry = _QueuedCall(call, tally, self._epoch)
        if call.kind is CallKind.START:
            self._gap_queued = False
        elif call.kind is CallKind.WRITE and not self._has_room(call.size):
            self._refuse_for_room(entry)
            return
        self._queued_bytes += call.size
        self._queue.append(entry)

    # ---- for the driver ----

    @property
    def waiting(self) -> bool:
        return self._sent is None and bool(self._queue)

    def take(self, now: float) -> NodeCall | None:
        while self._sent is None and self._queue:
            entry = self._queue.popleft()
            if entry.gap:
                self._gap_queued = False
                self._lose_sync(f"the node lagged too far to receive txid {entry.call.last_txid}")
            if not self._out_of_sync or entry.call.kind not in (CallKind.WRITE, CallKind.FINALIZE):
                if reason := entry.call.leave_out(self.node):
                    self._leave_out(entry, reason)
                    continue
                return self._send(entry)
            if self._heartbeat_at is None or now - self._heartbeat_at > HEARTBEAT_INTERVAL:
                entry.heartbeat = True
                self._heartbeat_at = now
                return self._send(entry)
            self._refuse_out_of_sync(entry)
        return None

    def finish(self, value: Any) -> None:
        entry = self._taken()
        if entry.heartbeat:
            self._refuse_out_of_sync(entry)
            return
        self._queued_bytes -= entry.call.size
        if entry.epoch == self._epoch and entry.call.kind is CallKind.START and self._out_of_sync:
            _LOG.info("%s participates in the journal %s again", self.node, self._journal_id)
            self._out_of_sync = ""
        entry.tally.answer(self.node, value)

    def fail(self, fault: Exception) -> None:
        entry = self._taken()
        if not entry.heartbeat and entry.call.kind is CallKind.WRITE and entry.epoch == self._epoch:
            self._lose_sync(str(fault))
        self._queued_bytes -= entry.call.size
        entry.tally.fail(self.node, fault)

    def close(self) -> None:
        self._drop("the journal was closed")

    @property
    def idle(self) -> bool:
        """Whether all calls were answered."""
        return self._sent is None and not self._queue

    def _has_room(self, size: int) -> bool:
        if self._gap_queued:
            return False
        return self._queued_bytes == 0 or self._queued_bytes + size <= self._limit

    def _refuse_for_room(self, entry: _QueuedCall) -> None:
        """Queue a gap marker for the first missing batch; the node may still receive the batches queued before it."""
        if not self._gap_queued:
            marker = WriterCall(entry.call.name, _not_performed, CallKind.WRITE, 0, entry.call.last_txid)
            self._queue.append(_QueuedCall(marker, entry.tally, entry.epoch, gap=True))
            self._gap_queued = True
        problem = f"{self.node} lags too far: {self._queued_bytes} bytes wait to be sent"
        entry.tally.fail(self.node, NodeLagsError(problem, txid=entry.call.last_txid))

    def _refuse_out_of_sync(self, entry: _QueuedCall) -> None:
        self._queued_bytes -= entry.call.size
        problem = f"{self.node} receives no more of this segment: {self._out_of_sync}"
        entry.tally.fail(self.node, NodeOutOfSyncError(problem))

    def _leave_out(self, entry: _QueuedCall, reason: str) -> None:
        self._queued_bytes -= entry.call.size
        entry.tally.fail(self.node, NodeLeftOutError(f"{entry.call.name} is not sent to {self.node}: {reason}"))

    def _lose_sync(self, reason: str) -> None:
        if not self._out_of_sync:
            _LOG.warning("%s receives no more of this segment of %s: %s", self.node, self._journal_id, reason)
            self._out_of_sync = reason

    def _send(self, entry: _QueuedCall) -> NodeCall:
        self._sent = entry
        info = RequestInfo(self._journal_id, entry.epoch, self._serial, self._committed, self._nameservice)
        self._serial += 1
        if entry.heartbeat:
            return NodeCall("heartbeat", lambda node: node.heartbeat(info))
        perform = entry.call.perform
        return NodeCall(entry.call.name, lambda node: perform(CallTarget(self.node, node, info)))

    def _taken(self) -> _QueuedCall:
        entry, self._sent = self._sent, None
        assert entry is not None, "nothing was taken"
        return entry

    def _drop(self, reason: str) -> None:
        for entry in self._queue:
            self._queued_bytes -= entry.call.size
            entry.tally.fail(self.node, NodeClosedError(f"{entry.call.name} was not sent to {self.node}: {reason}"))
        self._queue.clear()
