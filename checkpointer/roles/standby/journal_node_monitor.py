"""Last responses of each JournalNode of a quorum to a reader, recorded during its calls.

The log contains a line when the failures of a node begin, and when they end. While a majority answers, nothing else in
the log shows that a node is missing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from hadoop_common.recurring_fault import PeerFaults
from hadoop_rpc.errors import RemoteError, RpcError
from hadoop_rpc.qjournal_protocol import QJournalClient
from hadoop_rpc.qjournal_values import JournaledEdits, NodeManifest
from journal.quorum.address import NodeAddress
from node_state.state import JournalNodeState

_LOG = logging.getLogger(__name__)
# seconds after which a node counts as silent
_PATIENCE = 5.0


@dataclass(slots=True)
class _LastAnswer:
    answered: bool | None = None
    fault: str = ""
    last_txid: int = -1
    asked_at: float | None = None


class JournalNodeMonitor:
    """The last responses of the nodes, by name. Any thread may read and write them.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, nodes: Iterable[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._notes = {node: _LastAnswer() for node in nodes}
        self._faults = {node: PeerFaults(_LOG, f"JournalNode {node}", clock=clock) for node in self._notes}

    @contextmanager
    def asking(
        self,
        node: str,
        question: str = "segments",
        *,
        may_refuse: bool = False,
        closing: Callable[[], bool] = lambda: False,
    ) -> Iterator[Callable[[int], None]]:
        """Record a query of a node within this context; the yielded function records the newest txid of the response.

        Args:
            question: the requested data, for the log.
            may_refuse: whether a refusal also means that the node is healthy.
            closing: returns whether the client is closed, so that the end of the call is not a fault of the node.
        """
        note = self._notes[node]
        with self._lock:
            note.asked_at = self._clock()

        def answered(txid: int) -> None:
            with self._lock:
                note.last_txid = max(note.last_txid, txid)

        try:
            yield answered
        except RpcError as error:
            well = may_refuse and isinstance(error, RemoteError)
            self._ended(note, well, "" if well else error.message)
            if well:
                self._faults[node].answered(question)
            elif not closing():
                self._faults[node].occurred(question, error.message, hint=error.hint)
            raise
        else:
            self._ended(note, True, "")
            self._faults[node].answered(question)

    def _ended(self, note: _LastAnswer, answered: bool, fault: str) -> None:
        with self._lock:
            note.answered, note.fault, note.asked_at = answered, fault, None

    def states(self) -> tuple[JournalNodeState, ...]:
        with self._lock:
            newest = max((note.last_txid for note in self._notes.values()), default=-1)
            return tuple(self._state(node, note, newest) for node, note in self._notes.items())

    def _state(self, node: str, note: _LastAnswer, newest: int) -> JournalNodeState:
        answers, fault = note.answered, note.fault
        waiting = 0.0 if note.asked_at is None else self._clock() - note.asked_at
        if waiting > _PATIENCE:
            answers, fault = False, f"no answer for {waiting:.0f} s"
        lag = None if note.last_txid < 0 else newest - note.last_txid
        return JournalNodeState(
            address=node, answers=answers, fault=fault, last_txid=note.last_txid, lag_transactions=lag
        )


class MonitoredJournalNode(QJournalClient):
    """Reading client of a JournalNode that records responses in `monitor` under the node's address.

    Args:
        timeout: seconds for a call, including the connection.
    """

    def __init__(
        self, address: NodeAddress, monitor: JournalNodeMonitor, *, user: str, timeout: float, nameservice: str | None
    ) -> None:
        super().__init__(
            address.host, address.port, user=user, timeout=timeout, connect_timeout=timeout, nameservice=nameservice
        )
        self._monitor = monitor
        self._name = str(address)
        self._closing = False

    def close(self) -> None:
        self._closing = True
        super().close()

    def _asking(self, question: str, *, may_refuse: bool = False) -> AbstractContextManager[Callable[[int], None]]:
        return self._monitor.asking(self._name, question, may_refuse=may_refuse, closing=lambda: self._closing)

    def get_edit_log_manifest(self, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest:
        with self._asking("segments") as answered:
            found = super().get_edit_log_manifest(journal_id, since, in_progress_ok=in_progress_ok)
            answered(max((log.last for log in found.manifest.logs), default=-1))
            return found

    def get_journaled_edits(self, journal_id: str, since: int, max_transactions: int) -> JournaledEdits:
        # A node is healthy even if it does not have these edits, or if its release does not support the request.
        with self._asking("newest edits", may_refuse=True) as answered:
            found = super().get_journaled_edits(journal_id, since, max_transactions)
            answered(since + found.count - 1)
            return found
