"""Lanes of calls to one JournalNode. A driver obtains one `NodeCall` at a time, performs it, and reports its result."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hadoop_rpc.qjournal_values import QJournal
from journal.quorum.calls import ReadCall, Tally
from journal.quorum.errors import NodeClosedError


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A call to perform on a node."""

    name: str
    run: Callable[[QJournal], Any]


class Lane(Protocol):
    """Calls to one node, at most one of them in flight."""

    @property
    def node(self) -> str: ...

    @property
    def waiting(self) -> bool:
        """Whether `take` may return a call."""

    def take(self, now: float) -> NodeCall | None:
        """Return the next call; None if the queue is empty or a call is in flight."""

    def finish(self, value: Any) -> None:
        """End the call with its result."""

    def fail(self, fault: Exception) -> None:
        """End the call with an error; the call may have reached the node."""

    def close(self) -> None:
        """Drop the queued calls."""


class ReadLane:
    """The read-only calls to one node; calls whose response is no longer needed are not sent."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._queue: deque[tuple[ReadCall[Any], Tally[Any]]] = deque()
        self._sent: Tally[Any] | None = None

    def offer(self, call: ReadCall[Any], tally: Tally[Any]) -> None:
        """Queue `call`; first drop abandoned calls, which would keep the responses of other nodes in memory."""
        while self._queue and self._queue[0][1].abandoned:
            self._queue.popleft()
        self._queue.append((call, tally))

    @property
    def waiting(self) -> bool:
        return self._sent is None and bool(self._queue)

    def take(self, now: float) -> NodeCall | None:
        del now
        while self._sent is None and self._queue:
            call, tally = self._queue.popleft()
            if not tally.abandoned:
                self._sent = tally
                return NodeCall(call.name, call.perform)
        return None

    def finish(self, value: Any) -> None:
        self._taken().answer(self.node, value)

    def fail(self, fault: Exception) -> None:
        self._taken().fail(self.node, fault)

    def close(self) -> None:
        for call, tally in self._queue:
            tally.fail(self.node, NodeClosedError(f"{call.name} was not sent to {self.node}: the journal was closed"))
        self._queue.clear()

    def _taken(self) -> Tally[Any]:
        tally, self._sent = self._sent, None
        assert tally is not None, "nothing was taken"
        return tally
