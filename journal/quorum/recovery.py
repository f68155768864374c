"""Recovery of a segment that a writer left open: the nodes agree on one copy and finalize it (Paxos in the QJM).

There are three steps. Each step requires a majority, and includes only nodes that took part in the previous step:

1. prepare: each node reports its copy, and from then on refuses transactions of older writers. `choose_recovery`
   chooses one copy.
2. accept: each node fetches that copy, unless it has an identical copy, and records the acceptance before it answers.
3. finalize: the nodes rename the copy to its final name.

A kill between two steps leaves a segment in progress. The next writer recovers this segment in a later epoch. If a
majority has accepted, at least one of the nodes that the writer asks has the record, and the writer chooses the same
copy again. If fewer nodes have accepted, the writer may choose another copy, because the end of the segment was not
reported to any caller. A reported choice therefore never changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_values import JournalState, PreparedRecovery
from journal.quorum.address import NodeAddress, http_base, segment_url
from journal.quorum.agreement import same_transactions
from journal.quorum.calls import RECOVER_AGAIN, CallKind, CallTarget, Procedure, QuorumRound, Tally, WriterCall, reached
from journal.quorum.decisions import ChosenSegment, choose_recovery, may_differ_unseen
from journal.quorum.ensemble import Ensemble
from journal.quorum.errors import NodeLeftOutError
from journal.quorum.http_source import SegmentSource
from journal.quorum.phases import Event
from journal.quorum.settings import QuorumSettings

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _ReportedCopy:
    """A node's copy of the segment, and its HTTP address."""

    state: JournalState
    prepared: PreparedRecovery


class SegmentRecovery:
    """Recovery of the segment that begins at `first` (QuorumJournalManager.recoverUnclosedSegment).

    This recovery is stricter than Hadoop's recovery. Hadoop's JournalNode keeps a copy that is as long as the chosen
    copy, and finalizes any copy of the right length. Here, a node takes part only if it has reported its copy, and has
    confirmed that the copy is identical or was replaced.

    Args:
        addresses: addresses of the ensemble's nodes, in the same order.
        source: fetches segments from the nodes' HTTP servers for comparisons.
    """

    def __init__(
        self,
        first: int,
        namespace: StorageInfo,
        ensemble: Ensemble,
        addresses: tuple[NodeAddress, ...],
        settings: QuorumSettings,
        source: SegmentSource,
    ) -> None:
        self._first = first
        self._namespace = namespace
        self._ensemble = ensemble
        self._addresses = dict(zip(ensemble.nodes, addresses, strict=True))
        self._settings = settings
        self._source = source

    def run(self, step: Callable[[Event], None]) -> Procedure[None]:
        """Recover the segment, and call `step` for each event.

        Raises:
            QuorumError: a step failed on a majority.
            SegmentRecoveryError: the copies contradict each other.
        """
        held = yield from self._majority(WriterCall("prepareRecovery", self._prepare), self._settings.prepare_recovery)
        chosen = choose_recovery(self._first, {node: each.prepared for node, each in held.answers.items()})
        if chosen is None:
            step(Event.PREPARED_EMPTY)
            return
        step(Event.PREPARED)
        last = chosen.segment.last
        _LOG.info("segment %d-%d of %s is recovered from %s", self._first, last, self._journal_id, chosen.node)
        accept = WriterCall(
            "acceptRecovery",
            lambda peer: self._accept(peer, chosen, held),
            leave_out=lambda node: "" if node in held.answers else "it did not report its copy",
        )
        accepted = yield from self._majority(accept, self._settings.accept_recovery)
        step(Event.ACCEPTED)
        finalize = replace(
            finalizing(self._first, last),
            leave_out=lambda node: "" if node in accepted.answers else "it did not accept the chosen copy",
        )
        yield from self._majority(finalize, self._settings.finalize_segment)
        step(Event.SEALED)

    @property
    def _journal_id(self) -> str:
        return self._ensemble.journal_id

    def _majority(self, call: WriterCall[T], timeout: float) -> Procedure[Tally[T]]:
        return reached(QuorumRound(call, self._ensemble.majority, timeout, hint=RECOVER_AGAIN), txid=self._first)

    # ---- calls to one node ----

    def _prepare(self, peer: CallTarget) -> _ReportedCopy:
        """Return a node's copy and the node's HTTP address, from which other nodes may have to fetch the segment."""
        state = peer.node.get_journal_state(self._journal_id)
        return _ReportedCopy(state, peer.node.prepare_recovery(peer.request, self._first))

    def _accept(self, peer: CallTarget, chosen: ChosenSegment, held: Tally[_ReportedCopy]) -> None:
        best, own = held.answers[chosen.node], held.answers[peer.name]
        url = self._url(chosen.node, best)
        if may_differ_unseen(best.prepared, own.prepared):
            copies = self._source(url), self._source(self._url(peer.name, own))
            if not same_transactions(*copies, self._first, chosen.segment.last):
                problem = (
                    f"{peer.name} has as many transactions as {chosen.node}, but with different contents, so "
                    "it would keep its copy"
                )
                raise NodeLeftOutError(problem, txid=self._first)
        peer.node.accept_recovery(peer.request, chosen.segment, url)

    def _url(self, node: str, held: _ReportedCopy) -> str:
        return segment_url(http_base(self._addresses[node], held.state), self._journal_id, self._first, self._namespace)


def finalizing(first: int, last: int) -> WriterCall[None]:
    """Return the call that ends a segment."""
    return WriterCall(
        "finalizeLogSegment", lambda peer: peer.node.finalize_log_segment(peer.request, first, last), CallKind.FINALIZE
    )
