"""GET /metrics: the state of a daemon for Prometheus, from one snapshot a scrape."""

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
# the results of an offer, each a series, so that an alarm needs no text to compare
_RESULTS = ("SUCCESS", "OLD_TRANSACTION_ID_FAILURE", "NOT_ACTIVE_NAMENODE_FAILURE", "failed", "standby", "never")
_PHASES = ("idle", "load", "replay", "save", "upload")

_Samples = Iterable[tuple[tuple[str, ...], float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """A state, and what of the process stands beside it.

    `refused` counts what peers were refused; `now` and `started_at` are seconds since the epoch.
    """

    state: NodeState
    now: float
    version: str
    started_at: float
    counter: TransferCounter
    refused: Mapping[str, int] = field(default_factory=dict)


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
        state = now.state
        yield InfoMetricFamily(
            _PREFIX, "Version and role of the checkpointer.", {"version": now.version, "role": state.role}
        )
        yield _gauge("up", "1 while the checkpointer answers.", 1)
        yield _gauge("ready", "1 while checkpoints are made as they fall due.", float(state.ready))
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
                "1 while this daemon, of several for its cluster, makes the checkpoints.",
                float(state.leader.claim == "leading"),
            )
            yield _counter("leader_terms", "How often it became the one that does.", [((), state.leader.terms)])
        yield refused_family(_PREFIX, now.refused)
        yield from tls_families(_PREFIX, now.now)
        yield from login_families(_PREFIX)


def tls_families(prefix: str, now: float) -> Iterator[Metric]:
    """TLS of this process; `now` is in seconds since the epoch."""

    def gauge(name: str, documentation: str, values: Mapping[str, float | None]) -> Metric:
        family = GaugeMetricFamily(f"{prefix}_tls_{name}", documentation, labels=("side",))
        for side, value in values.items():
            if value is not None:
                family.add_metric((side,), value)
        return family

    found = {each.side: each for each in states()}
    own = {side: None if each.own_end is None else each.own_end - now for side, each in found.items()}
    anchors = {side: None if each.anchors_end is None else each.anchors_end - now for side, each in found.items()}
    yield gauge("certificate_end_seconds", "Seconds to the end of our own certificate.", own)
    yield gauge("trust_end_seconds", "Seconds to the end of the first certificate that we trust.", anchors)
    refused = {side: float(bool(each.fault)) for side, each in found.items()}
    yield gauge("files_refused", "1 while files that changed cannot be used, and older ones are in force.", refused)
    handshakes = CounterMetricFamily(
        f"{prefix}_tls_handshakes", "Handshakes by our side, and how they ended.", labels=("side", "result")
    )
    for (side, result), count in sorted(HANDSHAKES.counts().items()):
        handshakes.add_metric((side, result), count)
    yield handshakes


def refused_family(prefix: str, refused: Mapping[str, int]) -> Metric:
    """What the ports of a process refused their peers, by reason."""
    family = CounterMetricFamily(
        f"{prefix}_refused", "Connections and requests that were refused or ended, by reason.", labels=("reason",)
    )
    for reason, count in sorted(refused.items()):
        family.add_metric((reason,), count)
    return family


def login_families(prefix: str) -> Iterator[Metric]:
    """Logins by Kerberos at the servers of the process, and the end of its own ticket; no samples without Kerberos."""
    logins = LOGINS.now()
    tried = CounterMetricFamily(
        f"{prefix}_logins", "Logins by Kerberos at our servers, by server and result.", labels=("server", "result")
    )
    for names, count in sorted(logins.results.items()):
        tried.add_metric(names, count)
    yield tried
    connections = GaugeMetricFamily(
        f"{prefix}_rpc_connections", "RPC connections of those who logged in, by protection.", labels=("protection",)
    )
    for protection, count in sorted(logins.connections.items()):
        connections.add_metric((protection,), count)
    yield connections
    ends = GaugeMetricFamily(
        f"{prefix}_ticket_end_timestamp_seconds",
        "When the ticket that was last used ends, in seconds since the epoch; a new one is taken at half of its life.",
    )
    if (end := ticket_end()) is not None:
        ends.add_metric((), end)
    yield ends


def _checkpoint(state: NodeState) -> Iterator[Metric]:
    record = state.record
    phases = dict.fromkeys((*_PHASES, record.phase))
    yield _labelled(
        "phase", "1 for what the checkpointer does now.", ("phase",), [((p,), float(p == record.phase)) for p in phases]
    )
    yield _gauge(
        "checkpoint_age_seconds",
        "Seconds since the newest image was made, as a NameNode tells or as it lies on disk.",
        state.seconds_since_checkpoint,
    )
    yield _gauge(
        "last_checkpoint_timestamp_seconds",
        "When the newest image was made, in seconds since the epoch.",
        state.checkpoint_at,
    )
    yield _gauge("checkpoint_txid", "Transaction id of the newest image.", _txid(state.image_txid))
    yield _gauge("journal_txid", "Newest transaction id known of the edit log.", state.journal_txid)
    yield _gauge(
        "transactions_since_checkpoint", "Transactions that the newest image does not have.", state.transactions_behind
    )
    yield _labelled(
        "last_checkpoint_duration_seconds",
        "Duration of the last checkpoint by phase.",
        ("phase",),
        _by_name(record.last_seconds or {}),
    )
    yield _gauge(
        "last_checkpoint_latency_seconds",
        "From the trigger of the last checkpoint until its image had its name.",
        record.latency_seconds,
    )
    yield _gauge("image_size_bytes", "Size of the newest image.", record.image_bytes)
    yield _counter("checkpoints", "Checkpoints made since the start.", [((), record.checkpoints)])
    yield _counter("checkpoint_failures", "Checkpoints that failed since the start.", [((), record.failures)])
    yield _gauge(
        "consecutive_failures", "Attempts that failed since the last that did not.", float(state.failures_in_row)
    )
    yield _counter("healed", "Inconsistencies of snapshots that were healed in images.", [((), record.healed_total)])
    yield _counter("ignored", "Operations that changed nothing, as on a NameNode.", [((), record.ignored_total)])
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
    """How the edits are followed; a JournalNode is one series, so that a sum tells how many answer."""
    now, nodes = state.details, state.details.journal_nodes or ()
    yield _gauge("tailing_lag_seconds", "Seconds since edits were last read from the journal.", now.tailing_lag_seconds)
    yield _gauge(
        "tailing_lag_transactions",
        "Transactions of the journal that are not replayed yet.",
        now.tailing_lag_transactions,
    )
    yield _gauge("source_txid", "Newest transaction that the journal was seen to hold.", _txid(now.source_txid))
    yield _gauge("applied_txid", "Newest transaction in the replayed state.", _txid(now.applied_txid))
    yield _gauge("active_txid", "Newest transaction of a NameNode when they were last asked.", _txid(now.active_txid))
    yield _labelled(
        "journal_node_up",
        "1 for a JournalNode that answers, 0 for one that does not.",
        ("node",),
        [((each.address,), None if each.answers is None else float(each.answers)) for each in nodes],
    )
    yield _labelled(
        "journal_node_lag_transactions",
        "Transactions that other JournalNodes reported, and this one did not.",
        ("node",),
        [((each.address,), each.lag_transactions) for each in nodes],
    )


def _transfer(record: Record, counter: TransferCounter) -> Iterator[Metric]:
    yield _counter("uploads", "Images that NameNodes took since the start.", [((), record.uploads)])
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
        [((address,), None if each.at is None else max(0.0, now - each.at)) for address, each in by_address],
    )
    yield _labelled(
        "upload_txid",
        "Newest image a NameNode took or does not need.",
        ("target",),
        [((address,), _txid(target.txid)) for address, target in by_address],
    )
    yield _labelled(
        "upload_primary",
        "1 while a NameNode takes our images, 0 while another checkpointer is ahead of us there.",
        ("target",),
        [((a,), float(t.primary)) for a, t in by_address],
    )
    yield _labelled(
        "upload_consecutive_failures",
        "Uploads to a NameNode that failed in a row.",
        ("target",),
        [((address,), target.failures) for address, target in by_address],
    )


def _txid(txid: int | None) -> int | None:
    """A state has -1 of what there is not."""
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
