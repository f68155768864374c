"""The totals of a report in the text format of Prometheus, for the textfile collector of its node exporter.

Only tables with one row become metrics, so no label contains the name of a path or of a user.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline.reports.headline import TOTALS, headline, single_row
from pipeline.reports.model import NamespaceReport, ReportSection, ReportTable

_PREFIX = "hdfs_report"
_LEVELS = ("fault", "warning")


def metrics_text(report: NamespaceReport) -> str:
    """Return a gauge `hdfs_report_TABLE_COLUMN` for each number of the totals, labelled with the cluster.

    Names omit the table of the whole namespace; sizes end in `_bytes`. Further gauges contain the transaction,
    the times of the image and of the report in seconds since 1970, and the number of findings by level.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ReportCollector(report))
    return generate_latest(registry).decode()


class _ReportCollector(Collector):
    """The gauges of one report."""

    def __init__(self, report: NamespaceReport) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        report = self._report
        yield self._gauge("txid", "Last transaction of the image", report.txid)
        yield self._gauge("generated_time_seconds", "Time of the report", report.generated.timestamp())
        if report.image_time is not None:
            yield self._gauge("image_time_seconds", "Modification time of the image", report.image_time.timestamp())
        found = GaugeMetricFamily(f"{_PREFIX}_findings", "Findings that need attention", labels=("cluster", "level"))
        levels: list[str] = [finding.level for finding in headline(report).findings]
        for level in _LEVELS:
            found.add_metric((report.cluster, level), levels.count(level))
        yield found
        for section in report.sections:
            for table in section.tables:
                yield from self._numbers(section, table)

    def _numbers(self, section: ReportSection, table: ReportTable) -> Iterator[Metric]:
        if not single_row(table) or any(column.kind == "time" for column in table.columns):
            return
        part = "" if table.name == TOTALS else f"{table.name}_"
        for column, value in zip(table.columns, table.rows[0], strict=True):
            if column.kind == "percent" or value is None or isinstance(value, str | datetime):
                continue
            unit = "_bytes" if column.kind == "bytes" else ""
            yield self._gauge(f"{part}{column.name}{unit}", f"{section.title}: {column.title}", value)

    def _gauge(self, name: str, documentation: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"{_PREFIX}_{name}", documentation, labels=("cluster",))
        family.add_metric((self._report.cluster,), value)
        return family
