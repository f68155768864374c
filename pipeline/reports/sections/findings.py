"""Section `findings`: the findings of `checkpointer image verify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hadoop_common.quantities import counted
from image_tools.verify.catalogue import CODES
from pipeline.reports.model import ReportSection
from pipeline.reports.rows import count, table, text
from pipeline.reports.work import ReportData

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
    """Make a table of the findings."""
    assert work.findings is not None
    return describe(work.findings, limit=work.options.top)


def describe(found: Mapping[str, Any], *, limit: int) -> ReportSection:
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
        f"{verdict}: {counted(found['errors'], 'error')}, {counted(found['warnings'], 'warning')}, "
        f"{counted(found['infos'], 'info')}.",
        tables if codes else (),
        notes=("checkpointer image verify --repair writes a repaired copy.",) if not found["valid"] else (),
    )
