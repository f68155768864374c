"""GET /metrics for Prometheus, and the metrics that all servers share: TLS, logins and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hadoop_common.tls.reloading import HANDSHAKES, TlsStoreState, store_states
from hadoop_rpc.kerberos import PROCESS
from hadoop_rpc.server_counts import LOGINS

Samples = Iterable[tuple[tuple[str, ...], float | None]]


class _ScrapeCollector(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def describe(self) -> Iterable[Metric]:
        """Return no names, so that the registration does not read the state."""
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._families()


def families_blueprint(families: Callable[[], Iterable[Metric]]) -> Blueprint:
    """Return the blueprint of /metrics; `families` is called once per scrape, from any thread."""
    registry = CollectorRegistry()
    registry.register(_ScrapeCollector(families))
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def get_metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    return blueprint


@dataclass(frozen=True, slots=True)
class MetricFamilies:
    """Factory for metric families. An unknown value has HELP and TYPE, but no sample.

    Attributes:
        prefix: prefix of all names.
    """

    prefix: str

    def gauge(
        self, name: str, documentation: str, samples: Samples | float | None, labels: Sequence[str] = ()
    ) -> Metric:
        """Return a family with a sample for each tuple of label values, or with one value without labels."""
        return _filled(GaugeMetricFamily(f"{self.prefix}_{name}", documentation, labels=labels), samples)

    def counter(self, name: str, documentation: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
        return _filled(CounterMetricFamily(f"{self.prefix}_{name}", documentation, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples | float | None) -> Metric:
    for values, value in samples if isinstance(samples, Iterable) else [((), samples)]:
        if value is not None:
            family.add_metric(values, float(value))
    return family


def server_families(prefix: str, refused: Mapping[str, int], now: float) -> Iterator[Metric]:
    """Return the metrics that all servers share.

    Args:
        refused: counts of refusals by reason.
        now: seconds since the epoch.
    """
    families = MetricFamilies(prefix)
    text = "Connections and requests that were refused or ended, by reason."
    by_reason = [((reason,), count) for reason, count in sorted(refused.items())]
    yield families.counter("refused", text, by_reason, ("reason",))
    yield from _tls_families(families, now)
    yield from _login_families(families)


def _tls_families(families: MetricFamilies, now: float) -> Iterator[Metric]:
    """Return the metrics of this process's TLS."""
    states = {each.side: each for each in store_states()}

    def gauge(name: str, documentation: str, value: Callable[[TlsStoreState], float | None]) -> Metric:
        samples = [((side,), value(each)) for side, each in states.items()]
        return families.gauge(f"tls_{name}", documentation, samples, ("side",))

    def until(end: float | None) -> float | None:
        return None if end is None else end - now

    yield gauge("certificate_end_seconds", "Seconds until our own certificate expires.", lambda at: until(at.own_end))
    text = "Seconds until the first trusted certificate expires."
    yield gauge("trust_end_seconds", text, lambda at: until(at.anchors_end))
    text = "1 while changed files cannot be used and the previous files stay active."
    yield gauge("files_refused", text, lambda at: float(bool(at.fault)))
    handshakes = sorted(HANDSHAKES.counts().items())
    yield families.counter("tls_handshakes", "Handshakes by side and result.", handshakes, ("side", "result"))


def _login_families(families: MetricFamilies) -> Iterator[Metric]:
    """Return the metrics of logins to this process's servers and of this process's ticket; without Kerberos, no
    samples.
    """
    logins = LOGINS.now()
    text = "Logins by Kerberos and by delegation token at our servers, by server and result."
    yield families.counter("logins", text, sorted(logins.results.items()), ("server", "result"))
    connections = [((protection,), count) for protection, count in sorted(logins.connections.items())]
    text = "RPC connections with a login, by protection."
    yield families.gauge("rpc_connections", text, connections, ("protection",))
    text = (
        "Expiry of the ticket used last, in seconds since the epoch; a ticket is replaced after half of its lifetime."
    )
    yield families.gauge("ticket_end_timestamp_seconds", text, PROCESS.ticket_end())
