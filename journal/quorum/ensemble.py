"""All nodes of a quorum, without I/O or threads: each call is offered to every node, and the responses are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from journal.quorum.calls import QuorumRound, ReadCall, Tally, majority
from journal.quorum.channel import WriterChannel
from journal.quorum.lanes import Lane, ReadLane


class Ensemble:
    """Channels and read lanes of all nodes; a driver with threads holds its lock around every call.

    Args:
        nodes: names of the nodes, `host:port`.
        journal_id, nameservice: id of the journal, and nameservice; both are sent with each call of the writer.
        queue_limit: bytes of records that may wait in the queue of one node.
    """

    def __init__(
        self, nodes: Sequence[str], journal_id: str, *, queue_limit: int, nameservice: str | None = None
    ) -> None:
        self.nodes = tuple(nodes)
        self.journal_id = journal_id
        self._channels = [
            WriterChannel(node, journal_id, queue_limit=queue_limit, nameservice=nameservice) for node in nodes
        ]
        self._read_lanes = [ReadLane(node) for node in nodes]

    @property
    def size(self) -> int:
        return len(self.nodes)

    @property
    def majority(self) -> int:
        return majority(self.size)

    @property
    def lanes(self) -> Sequence[Lane]:
        return [*self._channels, *self._read_lanes]

    @property
    def idle(self) -> bool:
        """Whether all calls of the writer were answered."""
        return all(channel.idle for channel in self._channels)

    def offer(self, ask: QuorumRound[Any]) -> Tally[Any]:
        """Add the call to every node's lane; the tally is filled while the driver processes the lanes."""
        tally: Tally[Any] = Tally(self.nodes, ask.need)
        if isinstance(ask.call, ReadCall):
            for lane in self._read_lanes:
                lane.offer(ask.call, tally)
        else:
            for channel in self._channels:
                channel.offer(ask.call, tally)
        return tally

    def begin_epoch(self, epoch: int) -> None:
        for channel in self._channels:
            channel.begin_epoch(epoch)

    def commit(self, txid: int) -> None:
        for channel in self._channels:
            channel.commit(txid)

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()
