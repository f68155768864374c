"""Immutable values of the state of a JournalNode and its journals, for /status, /jmx and /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_values import INVALID_TXID
from hadoop_rpc.server_counts import RpcCounts
from journal_node.counters import WINDOWS, JournalCounters, SyncSummary
from journal_node.hosted_journal import HostedJournal


@dataclass(frozen=True, slots=True)
class HostedJournalFacts:
    """The state of a journal at one moment.

    `info` is None while the journal is not formatted, and `open_first` is None while no segment is open. `syncs`
    contains a summary for each window in seconds.
    """

    journal_id: str
    location: str
    info: StorageInfo | None
    promised_epoch: int
    writer_epoch: int
    highest_txid: int
    committed_txid: int | None
    lag: int
    open_first: int | None
    counters: JournalCounters
    syncs: Mapping[int, SyncSummary]


@dataclass(frozen=True, slots=True)
class RpcFacts:
    """An RPC server: port, counts, open connections, and calls that wait for a handler."""

    port: int
    counts: RpcCounts
    open_connections: int
    queue_length: int


@dataclass(frozen=True, slots=True)
class JournalNodeFacts:
    """State of a JournalNode's process.

    `address` is host:port of the RPC server, and `started_at` is in seconds since the epoch. `refused` counts refused
    peers by reason. `failing` contains, by id, the reason for each journal that is not served or whose folder failed.
    `rpc` is None if there is no RPC server.
    """

    address: str
    version: str
    started_at: float
    journals: tuple[HostedJournalFacts, ...]
    refused: Mapping[str, int] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    rpc: RpcFacts | None = None


def journal_facts(journal: HostedJournal) -> HostedJournalFacts:
    """Return the current state of a journal, without waiting for its writer."""
    epochs, opened = journal.epochs, journal.open_segment
    return HostedJournalFacts(
        journal_id=journal.journal_id,
        location=journal.storage.location,
        info=journal.storage.info,
        promised_epoch=epochs.promised,
        writer_epoch=epochs.writer,
        highest_txid=journal.highest,
        committed_txid=None if epochs.committed == INVALID_TXID else epochs.committed,
        lag=journal.lag,
        open_first=None if opened is None else opened.first,
        counters=journal.counters.copy(),
        syncs={window: journal.sync_times.summary(window) for window in WINDOWS},
    )


def node_status(facts: JournalNodeFacts) -> Mapping[str, Any]:
    """Return the content of a JournalNode's response to GET /status."""
    return {
        "role": "journalnode",
        "address": facts.address,
        "version": facts.version,
        "startedAt": facts.started_at,
        "failing": dict(facts.failing),
        "journals": {journal.journal_id: _journal_status(journal) for journal in facts.journals},
    }


def _journal_status(journal: HostedJournalFacts) -> dict[str, Any]:
    counters = journal.counters
    return {
        "directory": journal.location,
        "formatted": journal.info is not None,
        "namespace": None if journal.info is None else journal.info.colon_string(),
        "lastPromisedEpoch": journal.promised_epoch,
        "lastWriterEpoch": journal.writer_epoch,
        "highestTxid": journal.highest_txid,
        "committedTxid": journal.committed_txid,
        "lagTransactions": journal.lag,
        "openSegment": journal.open_first,
        "transactionsWritten": counters.transactions_written,
        "bytesWritten": counters.bytes_written,
        "segmentsSynced": counters.segments_synced,
        "lastBatchAt": counters.last_journal_ms / 1000 or None,
    }
