"""GET /metrics: the state of a daemon for Prometheus, from one snapshot per scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hadoop_common.tls.process import HANDSHAKES, states
from hadoop_rpc.kerberos import ticket_end
from hadoop_rpc.logins import LOGINS
from servlets.node_state import LakeState, NodeState, Record, TargetState
from servlets.transfer_counter import TransferCounter

_PREFIX = "hdfs_checkpointer"
# results of an offer, each with its own series, so that alerts need no text comparison
_RESULTS = ("SUCCESS", "OLD_TRANSACTION_ID_FAILURE", "NOT_ACTIVE_NAMENODE_FAILURE", "failed", "standby", "never")
_PHASES = ("idle", "load", "replay", "save", "upload")

_Samples = Iterable[tuple[tuple[str, ...], float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """A state with facts of the process.

    `refused` counts refused requests; `now` and `started_at` are seconds since the epoch.
    """

    state: NodeState
    now: float
    version: str
    started_at: float
    counter: TransferCounter
    refused: Mapping[str, int] = field(default_factory=dict)


def metrics_blueprint(snapshot: Callable[[], MetricsSnapshot]) -> Blueprint:
    """Make the blueprint of /metrics; `snapshot` is called once per scrape, from any thread."""
    return collector_blueprint(CheckpointerCollector(snapshot))


def collector_blueprint(collector: Collector) -> Blueprint:
    """Make the blueprint of /metrics with the metrics of `collector`."""
    registry = CollectorRegistry()
    registry.register(collector)
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def get_metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    return blueprint


class CheckpointerCollector(Collector):
    """Converter of a snapshot to metric families; an unknown value has HELP and TYPE, but no sample."""

    def __init__(self, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterator[Metric]:
        """Return no names, so that registering takes no snapshot."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now = self._snapshot()
        state = now.state
        yield InfoMetricFamily(
            _PREFIX, "Version and role of the checkpointer.", {"version": now.version, "role": state.role}
        )
        yield _gauge("up", "1 while the checkpointer answers.", 1)
        yield _gauge("ready", "1 while checkpoints are made on schedule.", float(state.ready))
        yield _gauge("alarms", "Conditions that need an operator now; /status lists them.", len(state.alarms))
        yield _gauge("start_time_seconds", "Start of the process, in seconds since the epoch.", now.started_at)
        yield from _checkpoint(state)
        yield from _journal(state)
        yield from _transfer(state.record, now.counter)
        yield from _targets(state.targets, now.now)
        yield from _lake(state.lake)
        if state.leader is not None:
            yield _gauge(
                "leading",
                "1 while this daemon is the leader of several for its cluster.",
                float(state.leader.claim == "leading"),
            )
            yield _counter("leader_terms", "How often this daemon became the leader.", [((), state.leader.terms)])
        yield refused_family(_PREFIX, now.refused)
        yield from tls_families(_PREFIX, now.now)
        yield from login_families(_PREFIX)


def tls_families(prefix: str, now: float) -> Iterator[Metric]:
    """Return the metrics of this process's TLS; `now` is in seconds since the epoch."""

    def gauge(name: str, documentation: str, values: Mapping[str, float | None]) -> Metric:
        family = GaugeMetricFamily(f"{prefix}_tls_{name}", documentation, labels=("side",))
        for side, value in values.items():
            if value is not None:
                family.add_metric((side,), value)
        return family

    found = {each.side: each for each in states()}
    own = {side: None if each.own_end is None else each.own_end - now for side, each in found.items()}
    anchors = {side: None if each.anchors_end is None else each.anchors_end - now for side, each in found.items()}
    yield gauge("certificate_end_seconds", "Seconds until our own certificate expires.", own)
    yield gauge("trust_end_seconds", "Seconds until the first trusted certificate expires.", anchors)
    refused = {side: float(bool(each.fault)) for side, each in found.items()}
    yield gauge("files_refused", "1 while changed files cannot be used and the previous ones stay active.", refused)
    handshakes = CounterMetricFamily(
        f"{prefix}_tls_handshakes", "Handshakes by side and result.", labels=("side", "result")
    )
    for (side, result), count in sorted(HANDSHAKES.counts().items()):
        handshakes.add_metric((side, result), count)
    yield handshakes


def refused_family(prefix: str, refused: Mapping[str, int]) -> Metric:
    """Return the counts of refused connections and requests by reason."""
    family = CounterMetricFamily(
        f"{prefix}_refused", "Connections and requests that were refused or ended, by reason.", labels=("reason",)
    )
    for reason, count in sorted(refused.items()):
        family.add_metric((reason,), count)
    return family


def login_families(prefix: str) -> Iterator[Metric]:
    """Return Kerberos logins at the process's servers, and the end of its own ticket; no samples without Kerberos."""
    logins = LOGINS.now()
    tried = CounterMetricFamily(
        f"{prefix}_logins", "Logins by Kerberos at our servers, by server and result.", labels=("server", "result")
    )
    for names, count in sorted(logins.results.items()):
        tried.add_metric(names, count)
    yield tried
    connections = GaugeMetricFamily(
        f"{prefix}_rpc_connections", "RPC connections with a Kerberos login, by protection.", labels=("protection",)
    )
    for protection, count in sorted(logins.connections.items()):
        connections.add_metric((protection,), count)
    yield connections
    ends = GaugeMetricFamily(
        f"{prefix}_ticket_end_timestamp_seconds",
        "End of the latest used ticket, in seconds since the epoch; it is replaced at half of its lifetime.",
    )
    if (end := ticket_end()) is not None:
        ends.add_metric((), end)
    yield ends


def _checkpoint(state: NodeState) -> Iterator[Metric]:
    record = state.record
    phases = dict.fromkeys((*_PHASES, record.phase))
    yield _labelled(
        "phase",
        "1 for the current phase of the checkpointer.",
        ("phase",),
        [((p,), float(p == record.phase)) for p in phases],
    )
    yield _gauge(
        "checkpoint_age_seconds",
        "Seconds since the newest image was made, as reported by a NameNode or found on disk.",
        state.seconds_since_checkpoint,
    )
    yield _gauge(
        "last_checkpoint_timestamp_seconds",
        "When the newest image was made, in seconds since the epoch.",
        state.checkpoint_at,
    )
    yield _gauge("checkpoint_txid", "Transaction id of the newest image.", _txid(state.image_txid))
    yield _gauge("journal_txid", "Newest known transaction id of the edit log.", state.journal_txid)
    yield _gauge(
        "transactions_since_checkpoint", "Transactions that are not in the newest image.", state.transactions_behind
    )
    yield _labelled(
        "last_checkpoint_duration_seconds",
        "Duration of the last checkpoint by phase.",
        ("phase",),
        _by_name(record.last_seconds or {}),
    )
    yield _gauge(
        "last_checkpoint_latency_seconds",
        "Seconds from the trigger of the last checkpoint until its image was complete.",
        record.latency_seconds,
    )
    yield _gauge("image_size_bytes", "Size of the newest image.", record.image_bytes)
    yield _counter("checkpoints", "Checkpoints made since the start.", [((), record.checkpoints)])
    yield _counter("checkpoint_failures", "Checkpoints that failed since the start.", [((), record.failures)])
    yield _gauge("consecutive_failures", "Failed attempts since the last success.", float(state.failures_in_row))
    yield _counter("healed", "Snapshot inconsistencies that were healed in images.", [((), record.healed_total)])
    yield _counter("ignored", "Operations without effect, as on a NameNode.", [((), record.ignored_total)])
    yield _gauge(
        "last_error_timestamp_seconds",
        "When a checkpoint or an upload last failed, in seconds since the epoch.",
        record.last_error_at,
    )
    yield _labelled(
        "storage_directory_up",
        "1 for a storage directory in use, 0 for one that was dropped.",
        ("directory",),
        [((path,), float(told == "in use")) for path, told in state.storage.items()],
    )


def _journal(state: NodeState) -> Iterator[Metric]:
    """Yield the metrics of following the edits; each JournalNode is a series, so that a sum counts those that
    answer.
    """
    now, nodes = state.details, state.details.journal_nodes or ()
    yield _gauge("tailing_lag_seconds", "Seconds since edits were last read from the journal.", now.tailing_lag_seconds)
    yield _gauge(
        "tailing_lag_transactions",
        "Transactions of the journal that are not replayed yet.",
        now.tailing_lag_transactions,
    )
    yield _gauge("source_txid", "Newest transaction seen in the journal.", _txid(now.source_txid))
    yield _gauge("applied_txid", "Newest transaction in the replayed state.", _txid(now.applied_txid))
    yield _gauge("active_txid", "Newest transaction of the NameNodes at the last query.", _txid(now.active_txid))
    yield _labelled(
        "journal_node_up",
        "1 for a JournalNode that answers, 0 for one that does not.",
        ("node",),
        [((each.address,), None if each.answers is None else float(each.answers)) for each in nodes],
    )
    yield _labelled(
        "journal_node_lag_transactions",
        "Transactions that other JournalNodes reported and this one did not.",
        ("node",),
        [((each.address,), each.lag_transactions) for each in nodes],
    )


def _transfer(record: Record, counter: TransferCounter) -> Iterator[Metric]:
    yield _counter("uploads", "Images that NameNodes accepted since the start.", [((), record.uploads)])
    yield _counter("upload_failures", "Uploads that failed since the start.", [((), record.upload_failures)])
    yield _counter(
        "transfer_bytes",
        "Bytes of images and edits over HTTP since the start.",
        [(("sent",), counter.sent), (("received",), counter.received)],
        ("direction",),
    )


def _lake(lake: LakeState | None) -> Iterator[Metric]:
    up = None if lake is None else float(not lake.error)
    lake = lake or LakeState()
    yield _gauge("lake_up", "1 while the last append to the lake succeeded, 0 after one that failed.", up)
    yield _gauge(
        "lake_last_append_timestamp_seconds",
        "When images and edits were last appended to the lake, in seconds since the epoch.",
        lake.appended_at,
    )
    yield _counter("lake_appends", "Appends to the lake since the start.", [((), lake.appends)])
    yield _counter("lake_append_failures", "Appends to the lake that failed.", [((), lake.failures)])


def _targets(targets: Iterable[TargetState], now: float) -> Iterator[Metric]:
    """Yield one series per NameNode; two targets with one address share a series."""
    by_address = {target.address: target for target in targets}.items()
    yield _labelled(
        "upload_result",
        "1 for the result of the last offer of an image to a NameNode.",
        ("target", "result"),
        [((a, r), float(r == t.result)) for a, t in by_address for r in dict.fromkeys((*_RESULTS, t.result))],
    )
    yield _labelled(
        "upload_age_seconds",
        "Seconds since an image was last offered to a NameNode.",
        ("target",),
        [((address,), None if each.at is None else max(0.0, now - each.at)) for address, each in by_address],
    )
    yield _labelled(
        "upload_txid",
        "Newest image that a NameNode accepted or does not need.",
        ("target",),
        [((address,), _txid(target.txid)) for address, target in by_address],
    )
    yield _labelled(
        "upload_primary",
        "1 while a NameNode accepts our images, 0 while another checkpointer is ahead.",
        ("target",),
        [((a,), float(t.primary)) for a, t in by_address],
    )
    yield _labelled(
        "upload_consecutive_failures",
        "Consecutive failed uploads to a NameNode.",
        ("target",),
        [((address,), target.failures) for address, target in by_address],
    )


def _txid(txid: int | None) -> int | None:
    """Replace -1, which means none in a state, by None."""
    return None if txid is None or txid < 0 else txid


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
