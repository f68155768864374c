"""Runs procedures on real nodes while the caller waits, with a thread for each lane of calls.

One lock guards the ensemble, its lanes and its tallies. The lock is free only while a caller waits or a node is called.

- A procedure in `run` performs a step with the lock, or waits for its round. It waits until the round is decided, but
  not longer than the timeout, and then for at most `linger` until all nodes have answered.
- A lane's thread is idle, or performs one call without the lock. The events are an offer (`_wake_lanes`), the end of
  a call (`_end`) and `close`.
- The driver is open, draining (`close` waits for the queued calls), or closed. The closed state is final.

Faults that cannot occur, with the reasons:

- Two calls of a lane at the same time, or out of order: a lane has one thread, and returns the next call only after
  that thread has reported the end of the previous call.
- A caller that waits forever for a node: `_wait` limits the time for every node. Time during which the process is
  stopped (SIGSTOP) does not count, because one wait counts as at most one slice.
- A lost wake-up: the lock under which a waiter reads a condition is also held when the condition is changed and
  notified.
- A procedure that continues after `close`: waiting and later callers receive JournalClosedError. A response that
  arrives after `close` is recorded in a tally that is no longer read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from hadoop_rpc.qjournal_values import QJournal
from journal.quorum.calls import Procedure, QuorumRound, Tally
from journal.quorum.ensemble import Ensemble
from journal.quorum.errors import JournalClosedError
from journal.quorum.lanes import Lane

_LOG = logging.getLogger(__name__)

_SLICE = 1.0  # seconds of one wait; a wait counts as at most this time, even if the process was stopped
_CLOSE_SECONDS = 5.0

T = TypeVar("T")


class NodeClient(QJournal, Protocol):
    """A `QJournal` over a connection."""

    def close(self) -> None:
        """Close the connection; calls that are waiting raise an error."""


class Driver(Protocol):
    """Interface of drivers, which run procedures on an ensemble."""

    def run(self, procedure: Procedure[T]) -> T:
        """Run `procedure` to its end; raise its errors, and JournalClosedError once the driver is closed."""

    def locked(self, action: Callable[[], T]) -> T:
        """Run `action` with exclusive access to the ensemble, and return its result."""

    def close(self) -> None:
        """Stop everything; waiting procedures raise JournalClosedError. A second call does nothing."""


class ThreadDriver:
    """Driver with daemon threads for the lanes of an ensemble; they start with the first call.

    Args:
        clients: clients of the ensemble's nodes, by name.
        clock: returns monotonic seconds.
        drain: seconds that `close` waits for calls that are still queued for slow nodes.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        clients: dict[str, NodeClient],
        *,
        clock: Callable[[], float] = time.monotonic,
        drain: float = 1.0,
    ) -> None:
        self._ensemble = ensemble
        self._clients = clients
        self._clock = clock
        self._drain = drain
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._offered = [threading.Condition(self._lock) for _ in ensemble.lanes]
        self._threads: dict[int, threading.Thread] = {}
        self._closed = False

    def run(self, procedure: Procedure[T]) -> T:
        with self._lock:
            try:
                ask = next(procedure)
                while True:
                    ask = procedure.send(self._ask(procedure, ask))
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                procedure.close()

    def locked(self, action: Callable[[], T]) -> T:
        with self._lock:
            return action()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._settled.wait_for(lambda: self._ensemble.idle, self._drain)
            self._closed = True
            self._ensemble.close()
            for offered in self._offered:
                offered.notify_all()
            self._settled.notify_all()
        # A connecting client closes only after it has connected. With a thread for each client, these waits do not add
        # up.
        closers = [threading.Thread(target=client.close, daemon=True) for client in self._clients.values()]
        for each in closers:
            each.start()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for each in [*closers, *self._threads.values()]:
            each.join(max(0.0, deadline - time.monotonic()))

    # ---- with the lock held ----

    def _ask(self, procedure: Procedure[Any], ask: QuorumRound[Any]) -> Tally[Any]:
        if self._closed:
            procedure.throw(JournalClosedError(f"{ask.call.name}: the journal is closed"))
        tally = self._ensemble.offer(ask)
        try:
            self._wake_lanes()
            self._wait(ask, lambda: ask.decided(tally), ask.timeout)
            if ask.decided(tally):
                self._wait(ask, lambda: ask.complete(tally), ask.linger)
        finally:
            tally.abandon()
        if self._closed:
            procedure.throw(JournalClosedError(f"{ask.call.name}: the journal was closed"))
        return tally

    def _wait(self, ask: QuorumRound[Any], reached: Callable[[], bool], seconds: float) -> None:
        left = seconds
        warned = False
        while not (reached() or self._closed) and left > 0:
            nominal = min(left, _SLICE)
            before = self._clock()
            self._settled.wait(nominal)
            left -= min(self._clock() - before, nominal)
            if not warned and left < seconds / 2 and seconds > 2 * _SLICE and not reached():
                warned = True
                _LOG.warning("%s has waited for more than %.0f of %.0f s", ask.call.name, seconds - left, seconds)

    def _wake_lanes(self) -> None:
        for number, lane in enumerate(self._ensemble.lanes):
            if not lane.waiting:
                continue
            if number in self._threads:
                self._offered[number].notify()
                continue
            work = partial(self._work, lane, self._offered[number])
            thread = threading.Thread(target=work, name=f"journal-{lane.node}-{number}", daemon=True)
            # If the system has no more threads now, the next call tries again.
            thread.start()
            self._threads[number] = thread

    # ---- the lanes' threads ----

    def _work(self, lane: Lane, offered: threading.Condition) -> None:
        client = self._clients[lane.node]
        while True:
            with self._lock:
                while True:
                    work = lane.take(self._clock())
                    self._settled.notify_all()
                    if work is not None:
                        break
                    if self._closed:
                        return
                    offered.wait()
            try:
                value = work.run(client)
            except Exception as fault:
                self._end(lane.fail, fault)
            else:
                self._end(lane.finish, value)

    def _end(self, report: Callable[[Any], None], outcome: Any) -> None:
        with self._lock:
            report(outcome)
            self._settled.notify_all()
