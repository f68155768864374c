"""The writer of a quorum journal as procedures over a table of phases (QuorumJournalManager, QuorumOutputStream).

The table in `journal.quorum.phases` lists the possible steps. Each procedure in this module moves the writer from one
stable phase to another: it makes one transition before it calls the nodes, and another transition when a majority has
answered. A fault between these transitions abandons the segment and leads to LOST, or to FENCED if a node reported a
later writer. Calls are not retried, because a failed call may have reached a node. Recovery determines whether the call
has reached the node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_values import QJournal
from journal.errors import JournalExistsError
from journal.journal import RecordBatch
from journal.quorum.address import NodeAddress
from journal.quorum.calls import (
    RECOVER_AGAIN,
    CallKind,
    Procedure,
    QuorumRound,
    ReadCall,
    Tally,
    TallyState,
    WriterCall,
    quorum_error,
    reached,
)
from journal.quorum.decisions import newest_segment, next_epoch
from journal.quorum.ensemble import Ensemble
from journal.quorum.errors import WriterFencedError, WriterStateError
from journal.quorum.http_source import SegmentSource
from journal.quorum.phases import TRANSITIONS, Event, Phase, refusal
from journal.quorum.recovery import SegmentRecovery, finalizing
from journal.quorum.settings import QuorumSettings

_LOG = logging.getLogger(__name__)

_PURGE_LINGER = 1.0  # seconds; short, because a purge follows a checkpoint upload, whose sender waits

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class WriterSegment:
    """The open segment of a writer; `next_txid` is the first txid that is not durable yet."""

    first_txid: int
    next_txid: int


class QuorumWriter:
    """Life cycle of one writer: recovery, then segments (`TRANSITIONS`). A failed call leads to LOST or FENCED.

    The procedures ask all nodes in parallel and continue when a majority has answered.

    Args:
        addresses: addresses of the ensemble's nodes, in the same order.
        source: fetches segments from the nodes' HTTP servers.
    """

    def __init__(
        self, ensemble: Ensemble, addresses: tuple[NodeAddress, ...], settings: QuorumSettings, source: SegmentSource
    ) -> None:
        self._ensemble = ensemble
        self._addresses = addresses
        self._settings = settings
        self._source = source
        self._journal_id = ensemble.journal_id
        self._epoch: int | None = None
        # the proposals after the last granted proposal, in order
        self._proposals: list[tuple[int, Tally[int | None]]] = []
        self._segment: WriterSegment | None = None
        self.phase = Phase.IDLE

    @property
    def epoch(self) -> int | None:
        """The last epoch that a majority promised; None before the first promise."""
        return self._epoch

    # ---- the whole journal ----

    def is_formatted(self) -> Procedure[bool]:
        """Return whether any node has the journal; the result is False only if all nodes have answered.

        Raises:
            QuorumError: no node has the journal, and some nodes did not answer.
        """
        call = ReadCall("isFormatted", lambda node: node.is_formatted(self._journal_id))
        timeout = self._settings.operations
        ask = QuorumRound(
            call, self._ensemble.size, timeout, linger=timeout, enough=lambda tally: any(tally.answers.values())
        )
        tally: Tally[bool] = yield ask
        if any(tally.answers.values()):
            return True
        if tally.verdict is TallyState.REACHED:
            return False
        raise quorum_error(ask, tally, None)

    def format(self, namespace: StorageInfo, *, force: bool) -> Procedure[None]:
        """Create an empty journal on all nodes.

        Raises:
            JournalExistsError: a node has a journal, and `force` is not set.
            QuorumError: a node failed; other nodes may have created the journal.
        """
        self._require(Event.FORMAT)
        if not force and (yield from self.is_formatted()):
            raise JournalExistsError(f"the journal {self._journal_id} already exists")
        call = self._plain("format", lambda node: node.format(self._journal_id, namespace, force=force))
        yield from reached(QuorumRound(call, self._ensemble.size, self._settings.operations))
        self._step(Event.FORMAT)
        self._epoch = None

    def purge(self, min_txid_to_keep: int) -> Procedure[None]:
        """Remove old segments. A majority is sufficient, and the wait for the remaining nodes is short.

        Raises:
            QuorumError: too few nodes removed the segments.
            WriterStateError: the journal was not recovered.
        """
        self._step(Event.PURGE)
        call = WriterCall("purgeLogs", lambda peer: peer.node.purge_logs(peer.request, min_txid_to_keep))
        timeout = self._settings.operations
        ask = QuorumRound(call, self._ensemble.majority, timeout, linger=min(timeout, _PURGE_LINGER))
        tally = yield from reached(ask)
        for node, fault in tally.faults.items():
            _LOG.warning("%s still has segments before txid %d: %s", node, min_txid_to_keep, fault)

    # ---- recovery ----

    def recover(self, namespace: StorageInfo) -> Procedure[None]:
        """Obtain an epoch, and finalize the newest segment on a majority.

        Raises:
            QuorumError: a step did not succeed on a majority; the caller may retry.
            WriterFencedError: another writer has taken over the journal.
            SegmentRecoveryError: the copies contradict each other.
        """
        self._step(Event.RECOVER)
        with self._losing():
            first = yield from self._take_epoch(namespace)
            if first is not None:
                recovery = SegmentRecovery(
                    first, namespace, self._ensemble, self._addresses, self._settings, self._source
                )
                yield from recovery.run(self._step)

    def _take_epoch(self, namespace: StorageInfo) -> Procedure[int | None]:
        settings = self._settings
        asked = self._plain("getJournalState", lambda node: node.get_journal_state(self._journal_id))
        states = yield from self._majority(asked, settings.get_journal_state)
        promised = {node: state.last_promised_epoch for node, state in states.answers.items()}
        epoch = next_epoch(promised, self._epoch, self._granted())
        self._step(Event.PROMISED)
        proposed = self._plain("newEpoch", lambda node: node.new_epoch(self._journal_id, namespace, epoch))
        ask = QuorumRound(proposed, self._ensemble.majority, settings.new_epoch, hint=RECOVER_AGAIN)
        tally: Tally[int | None] = yield ask
        self._proposals = [each for each in self._proposals if each[1].answers or not each[1].complete]
        self._proposals.append((epoch, tally))
        if tally.verdict is not TallyState.REACHED:
            raise quorum_error(ask, tally, None)
        self._epoch = epoch
        self._proposals.clear()
        self._ensemble.begin_epoch(epoch)
        first = newest_segment(tally.answers.values())
        self._step(Event.GRANTED_EMPTY if first is None else Event.GRANTED)
        _LOG.info("epoch %d of journal %s begins", epoch, self._journal_id)
        return first

    def _granted(self) -> dict[str, int]:
        """Return the newest epoch of this writer that each node has promised, including late responses."""
        return {node: epoch for epoch, tally in self._proposals for node in tally.answers}

    # ---- segments ----

    def start_segment(self, first_txid: int, layout_version: int) -> Procedure[WriterSegment]:
        """Begin a segment on a majority.

        Raises:
            QuorumError, WriterFencedError: too few nodes began the segment.
            JournalInUseError: a segment is open.
            WriterStateError: the journal must be recovered first.
        """
        self._step(Event.START)
        with self._losing():
            call = WriterCall(
                "startLogSegment",
                lambda peer: peer.node.start_log_segment(peer.request, first_txid, layout_version),
                CallKind.START,
            )
            yield from self._majority(call, self._settings.start_segment, first_txid)
            self._step(Event.STARTED)
        self._segment = WriterSegment(first_txid, first_txid)
        return self._segment

    def append(self, segment: WriterSegment, batch: RecordBatch) -> Procedure[None]:
        """Make `batch` durable on a majority.

        Raises:
            QuorumError, WriterFencedError: the batch may not be durable; the segment accepts no more batches.
            WriterStateError: the segment is no longer open.
            ValueError: the batch does not follow the previous batch, or is empty.
        """
        self._require_open(segment, Event.APPEND)
        if batch.first != segment.next_txid or batch.last < batch.first:
            raise ValueError(f"txids {batch.first} .. {batch.last} instead of {segment.next_txid} on")
        self._step(Event.APPEND)
        records = bytes(batch.records)
        with self._losing():
            call = WriterCall(
                "journal",
                lambda peer: peer.node.journal(peer.request, segment.first_txid, batch.first, batch.count, records),
                CallKind.WRITE,
                len(records),
                batch.last,
            )
            yield from self._majority(call, self._settings.write_transactions, batch.first)
            segment.next_txid = batch.last + 1
            self._ensemble.commit(batch.last)
            self._step(Event.APPENDED)

    def finalize(self, segment: WriterSegment, last_txid: int) -> Procedure[None]:
        """End the segment on a majority.

        Raises:
            QuorumError, WriterFencedError: the segment may still be in progress.
            WriterStateError: the segment is no longer open.
            ValueError: `last_txid` is not the last txid of the last batch.
        """
        self._require_open(segment, Event.FINALIZE)
        if last_txid != segment.next_txid - 1 or last_txid < segment.first_txid:
            raise ValueError(f"the segment ends with txid {segment.next_txid - 1}, not with {last_txid}")
        self._step(Event.FINALIZE)
        with self._losing():
            call = finalizing(segment.first_txid, last_txid)
            yield from self._majority(call, self._settings.finalize_segment, segment.first_txid)
            self._step(Event.FINALIZED)
        self._segment = None

    def abort(self, segment: WriterSegment) -> None:
        """Leave the segment in progress; do nothing if the segment is no longer open."""
        if segment is self._segment and self.phase is Phase.WRITING:
            self._step(Event.ABORT)
            self._segment = None

    def close(self) -> None:
        if self.phase is not Phase.CLOSED:
            self._step(Event.CLOSE)

    # ---- shared parts of the procedures ----

    def _majority(self, call: WriterCall[T], timeout: float, txid: int | None = None) -> Procedure[Tally[T]]:
        return reached(QuorumRound(call, self._ensemble.majority, timeout, hint=RECOVER_AGAIN), txid=txid)

    @staticmethod
    def _plain(name: str, perform: Callable[[QJournal], T]) -> WriterCall[T]:
        """Return a call that is queued with the writer's other calls, but does not contain the epoch."""
        return WriterCall(name, lambda peer: perform(peer.node))

    def _step(self, event: Event) -> None:
        self._require(event)
        self.phase = TRANSITIONS[self.phase][event]

    def _require(self, event: Event) -> None:
        if event not in TRANSITIONS[self.phase]:
            raise refusal(self.phase, event)

    def _require_open(self, segment: WriterSegment, event: Event) -> None:
        self._require(event)
        if segment is not self._segment:
            raise WriterStateError(f"cannot {event.value}: the segment is no longer open", txid=segment.first_txid)

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Record the failure of a call; afterwards, the writer does not know which transactions the nodes have."""
        try:
            yield
        except BaseException as fault:
            self._segment = None
            if self.phase is not Phase.CLOSED:
                self._step(Event.FENCE if isinstance(fault, WriterFencedError) else Event.LOSE)
            raise
