"""A report as lines of text for a terminal or a file."""

from __future__ import annotations

from collections.abc import Iterator

from hadoop_common.text_layout import table_lines, wrapped
from pipeline.reports.headline import CHANGES, TOTALS, headline
from pipeline.reports.model import RIGHT, NamespaceReport, ReportTable, cell_text


def report_lines(report: NamespaceReport, width: int | None) -> Iterator[str]:
    """Yield the lines of every section with its tables, and numbers with units; only the page has charts.

    Args:
        width: width of the terminal, None if unlimited.
    """
    yield from summary_lines(report, width)
    for section in report.sections:
        yield from ("", section.title, "-" * len(section.title))
        yield from wrapped("", section.text, width)
        for table in section.tables:
            if table.name == TOTALS:
                continue
            yield ""
            yield from _table(table, width)
        for note in section.notes:
            yield from wrapped("", note, width)


def summary_lines(report: NamespaceReport, width: int | None) -> Iterator[str]:
    """Yield the top of the report: its origin, the totals, and the findings that need attention."""
    yield f"{report.title}, cluster {report.cluster}" if report.cluster else report.title
    yield from wrapped("", f"{report.image}; {_written(report)}report of {report.generated:%Y-%m-%d %H:%M} UTC", width)
    tables = {table.name: table for section in report.sections for table in section.tables}
    if TOTALS in tables:
        yield ""
        yield from _table(tables[TOTALS], width)
    if headline(report).changes:
        yield from ("", *wrapped("", f"Changes since {report.before}", width))
        yield from _table(tables[CHANGES], width)
    findings = headline(report).findings
    yield from ("", "Needs attention:" if findings else "Needs attention: nothing found")
    for finding in findings:
        yield from wrapped(f"  {finding.level:<8} ", f"{finding.text} ({finding.section})", width)


def _written(report: NamespaceReport) -> str:
    return f"written {report.image_time:%Y-%m-%d %H:%M} UTC; " if report.image_time else ""


def _table(table: ReportTable, width: int | None) -> Iterator[str]:
    if not table.rows:
        yield f"{table.title}: none"
        return
    yield f"{table.title}:"
    kinds = [column.kind for column in table.columns]
    rows = [[cell_text(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in table.rows]
    yield from table_lines(
        [column.title for column in table.columns], rows, right=[kind in RIGHT for kind in kinds], width=width
    )
    if table.text:
        yield from wrapped("", table.text, width)
