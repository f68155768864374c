"""Reader of a quorum journal: lists the segments of a majority, and fetches them (selectInputStreams).

The reader reads a finalized segment from a copy on one node, and only the durable part of the open segment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hadoop_common.names import inprogress_name
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_values import JournaledEdits, NodeManifest
from journal.errors import JournalError
from journal.journal import ReadableSegment
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.quorum.address import NodeAddress, http_base, segment_url
from journal.quorum.agreement import DurablePrefix, SegmentCopy, durable_part
from journal.quorum.calls import Procedure, QuorumRound, ReadCall, answers_to
from journal.quorum.ensemble import Ensemble
from journal.quorum.errors import QuorumError
from journal.quorum.http_source import SegmentSource
from journal.quorum.settings import QuorumSettings
from journal.segment_copies import chain_segments
from journal.segment_format import SegmentCursor

_LOG = logging.getLogger(__name__)

LINGER = 0.25  # seconds to wait for nodes beyond the majority, which may have newer transactions

Run = Callable[[Procedure[Any]], Any]


class QuorumReader:
    """Reader that lists the segments of all nodes; thread-safe.

    Args:
        run: runs a procedure on the ensemble.
        addresses: addresses of the ensemble's nodes, in the same order.
        namespace: namespace that is sent to the nodes' HTTP servers, which refuse readers of another namespace; None if
            no namespace is sent.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        addresses: tuple[NodeAddress, ...],
        settings: QuorumSettings,
        *,
        run: Run,
        source: SegmentSource,
        namespace: StorageInfo | None,
    ) -> None:
        self._ensemble = ensemble
        self._addresses = dict(zip(ensemble.nodes, addresses, strict=True))
        self._settings = settings
        self._run = run
        self._source = source
        self._namespace = namespace
        self._logged: dict[str, str] = {}

    def newest(self, from_txid: int) -> list[ReadableSegment]:
        """Return some or all of the transactions from `from_txid` on in the caches of a majority of nodes.

        Raises:
            QuorumError: too few nodes can answer from their caches.
        """
        call = ReadCall(
            "getJournaledEdits",
            lambda node: node.get_journaled_edits(
                self._ensemble.journal_id, from_txid, self._settings.max_tail_transactions
            ),
        )
        edits: Mapping[str, JournaledEdits] = self._run(answers_to(self._reading(call), txid=from_txid))
        copies = [SegmentCopy(each.content) for each in edits.values()]
        part = durable_part(copies, from_txid, self._ensemble.majority)
        name = f"{self._ensemble.journal_id} from txid {from_txid}"
        return [] if part is None else [_durable_segment(from_txid, part, name)]

    def streams(self, from_txid: int, *, in_progress: bool) -> list[ReadableSegment]:
        """Return finalized segments from `from_txid` on, then the durable part of the open segment.

        Raises:
            QuorumError: too few nodes listed their segments.
            TransactionGapError: transactions are missing.
        """
        call = ReadCall(
            "getEditLogManifest",
            lambda node: node.get_edit_log_manifest(self._ensemble.journal_id, from_txid, in_progress_ok=in_progress),
        )
        manifests: Mapping[str, NodeManifest] = self._run(answers_to(self._reading(call), txid=from_txid))
        found: list[ReadableSegment] = [
            QuorumSegment(log.first, log.last, False, url, partial(self._source, url))
            for node, manifest in manifests.items()
            for log in manifest.manifest.logs
            if not log.in_progress
            for url in [self._url(node, manifest, log.first)]
        ]
        chain = chain_segments(found, from_txid)
        if in_progress:
            after = chain[-1].last + 1 if chain else from_txid
            opened = self._open_segment(manifests, after, within=not chain)
            if opened is not None:
                chain = chain_segments([*found, opened], from_txid)
        return list(chain)

    def _open_segment(self, manifests: Mapping[str, NodeManifest], txid: int, *, within: bool) -> QuorumSegment | None:
        """Return the durable part of the open segment that begins at `txid` or, if `within`, contains `txid`."""
        firsts = {log.first for each in manifests.values() for log in each.manifest.logs if log.in_progress}
        # If several segments are open, the latest segment counts: its writer had recovered the journal, and the other
        # segments were abandoned.
        opened = max((first for first in firsts if first == txid or (within and first < txid)), default=None)
        # A later segment proves a gap, but only if it has durable transactions.
        later = min((first for first in firsts if first > txid), default=None)
        for first in (opened, later):
            part = None if first is None else self._agreed(manifests, first)
            if first is not None and part is not None:
                return _durable_segment(first, part, f"{self._ensemble.journal_id} {inprogress_name(first)}")
        return None

    def _agreed(self, manifests: Mapping[str, NodeManifest], first: int) -> DurablePrefix | None:
        holders = [
            node
            for node, each in manifests.items()
            if any(log.in_progress and log.first == first for log in each.manifest.logs)
        ]
        copies, faults = self._fetched(manifests, holders, first)
        if len(manifests) - len(faults) < self._ensemble.majority:
            reasons = "; ".join(f"{node}: {fault}" for node, fault in faults.items())
            problem = f"the open segment of txid {first} can be compared on too few nodes: {reasons}"
            raise QuorumError(problem, faults=faults, txid=first)
        return durable_part(copies, first, self._ensemble.majority)

    def _fetched(
        self, manifests: Mapping[str, NodeManifest], holders: Iterable[str], first: int
    ) -> tuple[Sequence[SegmentCopy], dict[str, Exception]]:
        copies, faults = [], dict[str, Exception]()
        for node in holders:
            try:
                content = self._source(self._url(node, manifests[node], first))
            except JournalError as fault:
                # A lasting fault is logged only once per segment, and not in each listing.
                level = logging.DEBUG if self._logged.get(node) == str(fault) else logging.WARNING
                _LOG.log(level, "the open segment of txid %d cannot be read from %s: %s", first, node, fault)
                faults[node], self._logged[node] = fault, str(fault)
            else:
                self._logged.pop(node, None)
                copies.append(SegmentCopy(content, manifests[node].manifest.committed_txid))
        return copies, faults

    def _url(self, node: str, manifest: NodeManifest, first: int) -> str:
        base = http_base(self._addresses[node], manifest)
        return segment_url(base, self._ensemble.journal_id, first, self._namespace)

    def _reading(self, call: ReadCall[Any]) -> QuorumRound[Any]:
        return QuorumRound(call, self._ensemble.majority, self._settings.select_input_streams, linger=LINGER)


@dataclass(frozen=True, slots=True)
class QuorumSegment:
    """A segment on the nodes (`ReadableSegment`).

    Attributes:
        content: returns the bytes of the segment. For a finalized segment, each call fetches the bytes. For the open
            segment, the bytes are the part that was durable when the nodes were asked.
    """

    first: int
    last: int
    in_progress: bool
    name: str
    content: Callable[[], Buffer]

    def read(self, from_txid: int) -> Iterator[EditOp]:
        content = self.content()
        yield from SegmentCursor(
            content, file=self.name, first_txid=self.first, last_txid=self.last, from_txid=from_txid
        )


def _durable_segment(first: int, part: DurablePrefix, name: str) -> QuorumSegment:
    return QuorumSegment(first, part.last, True, name, lambda: part.content)
