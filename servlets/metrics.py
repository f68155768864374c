"""GET /metrics for Prometheus, and the metrics that all servers share: TLS, Kerberos logins, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hadoop_common.tls.process import HANDSHAKES, store_states
from hadoop_rpc.kerberos import ticket_end
from hadoop_rpc.server_counts import LOGINS


class _ScrapeCollector(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def describe(self) -> Iterable[Metric]:
        """Return no names, so that registering reads no state."""
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._families()


def families_blueprint(families: Callable[[], Iterable[Metric]]) -> Blueprint:
    """Make the blueprint of /metrics; `families` is called once per scrape, from any thread."""
    registry = CollectorRegistry()
    registry.register(_ScrapeCollector(families))
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def get_metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    return blueprint


def server_families(prefix: str, refused: Mapping[str, int], now: float) -> Iterator[Metric]:
    """Return the metrics that all servers share; `refused` counts refusals by reason."""
    yield _refused_family(prefix, refused)
    yield from _tls_families(prefix, now)
    yield from _login_families(prefix)


def _tls_families(prefix: str, now: float) -> Iterator[Metric]:
    """Return the metrics of this process's TLS; `now` is in seconds since the epoch."""

    def gauge(name: str, documentation: str, values: Mapping[str, float | None]) -> Metric:
        family = GaugeMetricFamily(f"{prefix}_tls_{name}", documentation, labels=("side",))
        for side, value in values.items():
            if value is not None:
                family.add_metric((side,), value)
        return family

    found = {each.side: each for each in store_states()}
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


def _refused_family(prefix: str, refused: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(
        f"{prefix}_refused", "Connections and requests that were refused or ended, by reason.", labels=("reason",)
    )
    for reason, count in sorted(refused.items()):
        family.add_metric((reason,), count)
    return family


def _login_families(prefix: str) -> Iterator[Metric]:
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
