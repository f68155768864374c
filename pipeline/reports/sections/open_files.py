"""Section `open-files`: files that are open for writing."""

from __future__ import annotations

from pipeline.reports.counts.classes import AGE_LABELS
from pipeline.reports.counts.features import OPEN, OPEN_AGES, oldest
from pipeline.reports.counts.grouping import grouped
from pipeline.reports.model import ReportSection
from pipeline.reports.rows import bytes_, count, first_rows, path, records, table, text, time
from pipeline.reports.work import ReportData

_SUMS = (count("files", "Open files"), bytes_("length", "Committed size"))
_FILES = (
    path("path", "File"),
    time("mtime", "Last modified"),
    bytes_("length", "Committed size"),
    text("client_machine", "Client machine"),
    text("client_name", "Client"),
)


def section(work: ReportData) -> ReportSection:
    """Make tables of the open files: in total, by age, and the files modified first."""
    tables, most = work.image.tables, work.options.top
    ages = grouped(tables.get("open_ages", OPEN_AGES.empty_table()), ("age_class",), ("files", "length"))
    found = {record["age_class"]: record for record in records(ages)}
    by_age = [
        {"value": label, **found.get(position, {"files": 0, "length": 0})} for position, label in enumerate(AGE_LABELS)
    ]
    total = {name: sum(record[name] for record in found.values()) for name in ("files", "length")}
    first = records(oldest(tables.get("open_files", OPEN.empty_table()), most + 1))
    return ReportSection(
        "open-files",
        "Open files",
        f"Files that were open for writing, by age on {work.options.as_of:%Y-%m-%d}.",
        (
            table("open_files", "In total", _SUMS, [total]),
            table("open_by_age", "By last modification", (text("value", "Last modified"), *_SUMS), by_age),
            first_rows("oldest_open_files", "Open files that were modified first", _FILES, first, most=most),
        ),
        notes=(
            (
                "A writer that flushes or syncs does not change the modification time. Only committed blocks have a "
                "size in the image."
            ),
        ),
    )
