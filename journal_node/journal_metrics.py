"""GET /metrics of a JournalNode, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from flask import Blueprint
from prometheus_client.core import InfoMetricFamily, Metric

from journal_node.journal_facts import HostedJournalFacts, JournalNodeFacts
from servlets.metrics import MetricFamilies, families_blueprint, server_families

_FAMILIES = MetricFamilies("hdfs_journalnode")

_GAUGES: tuple[tuple[str, str, Callable[[HostedJournalFacts], float | None]], ...] = (
    ("journal_formatted", "1 if the journal is formatted.", lambda each: float(each.info is not None)),
    ("promised_epoch", "Newest epoch promised to a writer.", lambda each: each.promised_epoch),
    ("writer_epoch", "Epoch of the writer that began the last segment.", lambda each: each.writer_epoch),
    ("highest_txid", "Newest transaction on disk.", lambda each: each.highest_txid),
    ("committed_txid", "Newest transaction known to be on a majority.", lambda each: each.committed_txid),
    ("lag_transactions", "Committed transactions that are missing on this JournalNode.", lambda each: each.lag),
    ("segment_open", "1 while a segment is written.", lambda each: float(each.open_first is not None)),
    (
        "last_batch_timestamp_seconds",
        "Time of the last batch, in seconds since the epoch.",
        lambda each: each.counters.last_journal_ms / 1000 or None,
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[HostedJournalFacts], float]], ...] = (
    ("batches", "Batches written.", lambda each: each.counters.batches_written),
    ("lagging_batches", "Batches written without a sync.", lambda each: each.counters.batches_written_while_lagging),
    ("transactions", "Transactions written.", lambda each: each.counters.transactions_written),
    ("written_bytes", "Bytes of transactions written.", lambda each: each.counters.bytes_written),
    ("sync_seconds", "Seconds spent in writes and syncs.", lambda each: each.counters.sync_seconds),
    ("segments_synced", "Segments fetched from other nodes.", lambda each: each.counters.segments_synced),
    ("rpc_transactions", "Transactions served from memory.", lambda each: each.counters.rpc_transactions),
    ("rpc_misses", "Reads of transactions that were not in memory.", lambda each: each.counters.rpc_requests_missed),
)


def journal_metrics_blueprint(facts: Callable[[], JournalNodeFacts]) -> Blueprint:
    """Return the blueprint of /metrics; `facts` is called once per scrape, from any thread."""
    return families_blueprint(lambda: journal_node_families(facts()))


def journal_node_families(now: JournalNodeFacts) -> Iterator[Metric]:
    """Yield the metric families of a JournalNode, labelled with the journal."""
    yield InfoMetricFamily(_FAMILIES.prefix, "Version of the JournalNode.", {"version": now.version})
    text = "Start of the process, in seconds since the epoch."
    yield _FAMILIES.gauge("start_time_seconds", text, now.started_at)
    for name, documentation, value in _GAUGES:
        samples = [((each.journal_id,), value(each)) for each in now.journals]
        yield _FAMILIES.gauge(name, documentation, samples, ("journal",))
    for name, documentation, count in _COUNTERS:
        counts = [((each.journal_id,), count(each)) for each in now.journals]
        yield _FAMILIES.counter(name, documentation, counts, ("journal",))
    names = sorted({*now.failing, *(each.journal_id for each in now.journals)})
    text = "1 if the journal is not served or its folder failed."
    failing = [((name,), float(name in now.failing)) for name in names]
    yield _FAMILIES.gauge("journal_failing", text, failing, ("journal",))
    text = "Quantiles of the duration of syncs in the last minute."
    times = [
        ((journal.journal_id, f"{part / 100:g}"), seconds)
        for journal in now.journals
        for part, seconds in journal.syncs[60].seconds.items()
    ]
    yield _FAMILIES.gauge("sync_quantile_seconds", text, times, ("journal", "quantile"))
    yield from server_families(_FAMILIES.prefix, now.refused, time.time())
