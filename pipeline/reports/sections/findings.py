"""Section `findings`: the findings of `checkpointer image verify`, which runs in a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from image_tools.verify.catalogue import CODES
from image_tools.verify.checker import verify_image
from pipeline.reports.model import ReportSection
from pipeline.reports.rows import count, table, text
from pipeline.reports.work import ReportData
from pipeline.source_files import SourceFile
from pipeline.task_errors import mark_typed_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CODES = (
    text("severity", "Severity"),
    text("code", "Finding"),
    count("count", "Count"),
    text("meaning", "Meaning"),
    text("repair", "Repair"),
)
_LISTED = (
    text("severity", "Severity"),
    text("code", "Finding"),
    text("section", "Section"),
    count("inode", "Inode"),
    text("message", "Problem"),
)
_SEVERITIES = ("error", "warning", "info")


def section(work: ReportData) -> ReportSection:
    """Verify the image and make a table of the findings."""
    assert work.spark is not None
    assert work.file is not None
    return image_findings(work.spark, work.file, limit=work.options.top)


def image_findings(spark: SparkSession, file: SourceFile, *, limit: int) -> ReportSection:
    """Verify an image in one task, which uses the memory of its Python process and not the JVM's heap.

    Args:
        limit: maximum number of listed findings of each kind.
    """

    def check(number: int) -> dict[str, Any]:
        with mark_typed_errors():
            return verify_image(file.in_task(), limit=number).as_dict()

    found = spark.sparkContext.parallelize([limit], 1).map(check).collect()[0]
    return describe(found, limit=limit)


def describe(found: dict[str, Any], *, limit: int) -> ReportSection:
    """Make the section from a `Verification.as_dict`."""
    counts: dict[str, int] = found["counts"]
    codes = [
        {
            "severity": CODES[code].severity.value,
            "code": code,
            "count": number,
            "meaning": CODES[code].meaning,
            "repair": CODES[code].repair or None,
        }
        for code, number in counts.items()
    ]
    codes.sort(key=lambda row: (_SEVERITIES.index(str(row["severity"])), -counts[str(row["code"])], str(row["code"])))
    listed = [{"inode": None, **finding} for finding in found["findings"]]
    for row in listed:
        row.setdefault("section", None)
    listed.sort(key=lambda row: _SEVERITIES.index(row["severity"]))
    verdict = "The image is valid" if found["valid"] else "The image is damaged"
    tables = (
        table("findings", "Findings by kind", _CODES, codes),
        table("findings_listed", f"The first {limit} of each kind", _LISTED, listed),
    )
    return ReportSection(
        "findings",
        "Corruption",
        f"{verdict}: {found['errors']} errors, {found['warnings']} warnings, {found['infos']} infos.",
        tables if codes else (),
        notes=("checkpointer image verify --repair writes a repaired copy.",) if not found["valid"] else (),
    )
