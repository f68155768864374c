"""A report on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.reports.model import Report, ReportTable
from pipeline.reports.units import RIGHT, cell_text

__all__ = ["print_report"]


def print_report(report: Report, console: Console) -> None:
    """Every section with its tables, numbers with units; charts are for the page."""
    console.print(Text(report.title, style="bold"))
    console.print(Text(f"{report.image}; {_written(report)}report of {report.generated:%Y-%m-%d %H:%M} UTC"))
    for section in report.sections:
        console.print()
        console.rule(Text(section.title, style="bold"), align="left")
        console.print(Text(section.text))
        for table in section.tables:
            console.print()
            _print_table(table, console)
        for note in section.notes:
            console.print(Text(note, style="dim"))


def _written(report: Report) -> str:
    return f"written {report.image_time:%Y-%m-%d %H:%M} UTC; " if report.image_time else ""


def _print_table(table: ReportTable, console: Console) -> None:
    if not table.rows:
        console.print(Text(f"{table.title}: none"))
        return
    shown = Table(title=Text(table.title), title_justify="left", caption=table.text or None, caption_justify="left")
    for column in table.columns:
        right = column.kind in RIGHT
        shown.add_column(Text(column.title), justify="right" if right else "left", overflow="fold")
    for row in table.rows:
        cells = (cell_text(value, column.kind) for value, column in zip(row, table.columns, strict=True))
        shown.add_row(*(Text(cell) for cell in cells))
    console.print(shown)
