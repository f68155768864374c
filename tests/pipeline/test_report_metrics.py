"""The totals of a report as metrics."""

from __future__ import annotations

from datetime import UTC, datetime

from pipeline.reports.model import NamespaceReport, ReportColumn, ReportSection, ReportTable
from pipeline.reports.writers.prometheus import metrics_text
from tests.pipeline.report_frames import samples_of
from tests.pipeline.sample_report import hostile_report

NOON = datetime(2026, 3, 18, 12, tzinfo=UTC)
SPACE, FILES, SHARE = (
    ReportColumn("raw", "bytes", "Space"),
    ReportColumn("files", "count", "Files"),
    ReportColumn("share", "percent", "Share"),
)


def test_tables_of_one_row_become_metrics() -> None:
    owner, hour = ReportColumn("owner", "text", "Owner"), ReportColumn("hour", "time", "Hour")
    tables = (
        ReportTable("totals", "Totals", (SPACE, FILES), ((1000, 7),)),
        ReportTable("temporary", "Temporary", (SPACE, FILES, SHARE), ((10, None, 1.0),)),
        ReportTable("by_owner", "Owners", (owner, SPACE), (("alice", 1000),)),
        ReportTable("hours", "Hours", (hour, FILES), ((NOON, 7),)),
        ReportTable("two", "Two rows", (FILES,), ((1,), (2,))),
    )
    report = NamespaceReport("t", "i", 9, NOON, NOON, (ReportSection("space", "Space", "", tables),), cluster="CID-7")
    found = {(each.name, each.labels.get("level")): each.value for each in samples_of(metrics_text(report))}
    assert found == {
        ("hdfs_report_txid", None): 9,
        ("hdfs_report_generated_time_seconds", None): NOON.timestamp(),
        ("hdfs_report_image_time_seconds", None): NOON.timestamp(),
        ("hdfs_report_findings", "fault"): 0,
        ("hdfs_report_findings", "warning"): 0,
        ("hdfs_report_raw_bytes", None): 1000,
        ("hdfs_report_files", None): 7,
        ("hdfs_report_temporary_raw_bytes", None): 10,
    }
    assert all(each.labels["cluster"] == "CID-7" for each in samples_of(metrics_text(report)))


def test_names_in_a_namespace_never_become_labels() -> None:
    samples = samples_of(metrics_text(hostile_report()))
    assert {label for each in samples for label in each.labels} <= {"cluster", "level"}
