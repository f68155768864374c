"""GET /metrics: the state of a daemon for Prometheus, from one snapshot a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from servlets.metrics_snapshot import MetricsSnapshot, TargetMetrics

__all__ = ["CheckpointerCollector", "collector_blueprint", "metrics_blueprint"]

_PREFIX = "hdfs_checkpointer"
# the results of an offer, each a series, so that an alarm needs no text to compare
_RESULTS = ("SUCCESS", "OLD_TRANSACTION_ID_FAILURE", "NOT_ACTIVE_NAMENODE_FAILURE", "failed", "standby", "never")
_PHASES = ("idle", "load", "replay", "save", "upload")

_Samples = Iterable[tuple[tuple[str, ...], float | None]]


def metrics_blueprint(snapshot: Callable[[], MetricsSnapshot]) -> Blueprint:
    """The blueprint of /metrics; `snapshot` is asked once a scrape, from any thread."""
    return collector_blueprint(CheckpointerCollector(snapshot))


def collector_blueprint(collector: Collector) -> Blueprint:
    """The blueprint of /metrics over what `collector` tells at each scrape."""
    registry = CollectorRegistry()
    registry.register(collector)
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def get_metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    return blueprint


class CheckpointerCollector(Collector):
    """Turns a snapshot into metric families; a value that is not known has HELP and TYPE, but no sample."""

    def __init__(self, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterator[Metric]:
        """Names nothing ahead, so that registering asks for no snapshot."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now = self._snapshot()
        yield InfoMetricFamily(
            _PREFIX, "Version and role of the checkpointer.", {"version": now.version, "role": now.role}
        )
        yield _gauge("up", "1 while the checkpointer answers.", 1)
        yield _gauge("ready", "1 while checkpoints are made as they fall due.", float(now.ready))
        yield _gauge("alarms", "Conditions that need an operator now; /status tells them.", now.alarms)
        yield _gauge("start_time_seconds", "Start of the process, in seconds since the epoch.", now.started_at)
        yield from _checkpoint(now)
        yield from _journal(now)
        yield from _transfer(now)
        yield from _targets(now.targets)
        yield from _lake(now)


def _checkpoint(now: MetricsSnapshot) -> Iterator[Metric]:
    phases = dict.fromkeys((*_PHASES, now.phase))
    yield _labelled(
        "phase", "1 for what the checkpointer does now.", ("phase",), [((p,), float(p == now.phase)) for p in phases]
    )
    yield _gauge(
        "checkpoint_age_seconds",
        "Seconds since the last checkpoint, or since the start when none was made.",
        now.checkpoint_age_seconds,
    )
    yield _gauge(
        "last_checkpoint_timestamp_seconds",
        "When the last checkpoint was saved, in seconds since the epoch.",
        now.checkpoint_at,
    )
    yield _gauge("checkpoint_txid", "Transaction id of the newest image.", now.checkpoint_txid)
    yield _gauge("journal_txid", "Newest transaction id known of the edit log.", now.journal_txid)
    yield _gauge(
        "transactions_since_checkpoint",
        "Transactions that the newest image does not have.",
        now.transactions_since_checkpoint,
    )
    yield _labelled(
        "last_checkpoint_duration_seconds",
        "Duration of the last checkpoint by phase.",
        ("phase",),
        _by_name(now.phase_seconds),
    )
    yield _gauge(
        "last_checkpoint_latency_seconds",
        "From the trigger of the last checkpoint until its image had its name.",
        now.latency_seconds,
    )
    yield _gauge("image_size_bytes", "Size of the newest image.", now.image_bytes)
    yield _counter("checkpoints", "Checkpoints made since the start.", [((), now.checkpoints)])
    yield _counter("checkpoint_failures", "Checkpoints that failed since the start.", [((), now.failures)])
    yield _counter("healed", "Inconsistencies of snapshots that were healed in images.", [((), now.healed)])
    yield _gauge(
        "last_error_timestamp_seconds",
        "When a checkpoint or an upload last failed, in seconds since the epoch.",
        now.last_error_at,
    )
    yield _labelled(
        "storage_directory_up",
        "1 for a storage directory in use, 0 for one that was dropped.",
        ("directory",),
        _by_name(now.storage),
    )


def _journal(now: MetricsSnapshot) -> Iterator[Metric]:
    """How the edits are followed; a JournalNode is one series, so that a sum tells how many answer."""
    yield _gauge("tailing_lag_seconds", "Seconds since edits were last read from the journal.", now.lag_seconds)
    yield _gauge(
        "tailing_lag_transactions", "Transactions of the journal that are not replayed yet.", now.lag_transactions
    )
    yield _gauge("source_txid", "Newest transaction that the journal was seen to hold.", now.source_txid)
    yield _gauge("applied_txid", "Newest transaction in the replayed state.", now.applied_txid)
    yield _gauge("active_txid", "Newest transaction of a NameNode when they were last asked.", now.active_txid)
    yield _labelled(
        "journal_node_up",
        "1 for a JournalNode that answers, 0 for one that does not.",
        ("node",),
        [((each.address,), None if each.up is None else float(each.up)) for each in now.journal_nodes],
    )
    yield _labelled(
        "journal_node_lag_transactions",
        "Transactions that other JournalNodes told of, and this one did not.",
        ("node",),
        [((each.address,), each.lag) for each in now.journal_nodes],
    )


def _transfer(now: MetricsSnapshot) -> Iterator[Metric]:
    yield _counter("uploads", "Images that NameNodes took since the start.", [((), now.uploads)])
    yield _counter("upload_failures", "Uploads that failed since the start.", [((), now.upload_failures)])
    yield _counter(
        "transfer_bytes",
        "Bytes of images and edits over HTTP since the start.",
        [(("sent",), now.bytes_sent), (("received",), now.bytes_received)],
        ("direction",),
    )


def _lake(now: MetricsSnapshot) -> Iterator[Metric]:
    up = None if now.lake_up is None else float(now.lake_up)
    yield _gauge("lake_up", "1 while the last append to the lake succeeded, 0 after one that failed.", up)
    yield _gauge(
        "lake_last_append_timestamp_seconds",
        "When images and edits were last appended to the lake, in seconds since the epoch.",
        now.lake_appended_at,
    )
    yield _counter("lake_appends", "Appends to the lake since the start.", [((), now.lake_appends)])
    yield _counter("lake_append_failures", "Appends to the lake that failed.", [((), now.lake_failures)])


def _targets(targets: Iterable[TargetMetrics]) -> Iterator[Metric]:
    """One series a NameNode; two targets of one address are one series."""
    by_address = {target.address: target for target in targets}.items()
    yield _labelled(
        "upload_result",
        "1 for how the last offer of an image to a NameNode ended.",
        ("target", "result"),
        [((a, r), float(r == t.result)) for a, t in by_address for r in dict.fromkeys((*_RESULTS, t.result))],
    )
    yield _labelled(
        "upload_age_seconds",
        "Seconds since an image was last offered to a NameNode.",
        ("target",),
        [((address,), target.age_seconds) for address, target in by_address],
    )
    yield _labelled(
        "upload_txid",
        "Newest image a NameNode took or does not need.",
        ("target",),
        [((address,), target.txid) for address, target in by_address],
    )
    yield _labelled(
        "upload_primary",
        "1 while a NameNode takes our images, 0 while another checkpointer is ahead of us there.",
        ("target",),
        [((a,), None if t.primary is None else float(t.primary)) for a, t in by_address],
    )
    yield _labelled(
        "upload_consecutive_failures",
        "Uploads to a NameNode that failed in a row.",
        ("target",),
        [((address,), target.failures) for address, target in by_address],
    )


def _by_name(values: Mapping[str, float]) -> _Samples:
    return [((name,), float(value)) for name, value in values.items()]


def _gauge(name: str, documentation: str, value: float | None) -> Metric:
    return _labelled(name, documentation, (), [((), value)])


def _labelled(name: str, documentation: str, labels: tuple[str, ...], samples: _Samples) -> Metric:
    family = GaugeMetricFamily(f"{_PREFIX}_{name}", documentation, labels=labels)
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family


def _counter(name: str, documentation: str, samples: _Samples, labels: tuple[str, ...] = ()) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", documentation, labels=labels)
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family
