"""The top of the page: how large the namespace is, and the few things that somebody should act on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.reports.html.values import bytes_text, cell_text, count_text
from pipeline.reports.model import Cell, Kind, Report, ReportTable, Section

TOTALS = "totals"
"""The table that the facts are taken from; the page shows it at the top alone."""

_FULL, _NEARLY_FULL = 100.0, 90.0
_MANY_SMALL, _MUCH_COLD, _MUCH_HELD, _MUCH_GROWN = 50.0, 25.0, 10.0, 5.0
"""Percentages from which on it is worth a line."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A number with its name."""

    title: str
    value: Cell
    kind: Kind


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to act on, and the section that has more on it."""

    level: Literal["fault", "warning"]
    text: str
    section: str
    link: str


@dataclass(frozen=True, slots=True)
class Headline:
    """What stands above the sections; faults come before warnings."""

    facts: tuple[Fact, ...]
    findings: tuple[Finding, ...]


def headline(report: Report) -> Headline:
    """What the tables of the report say, as far as they are in it."""
    tables = {table.name: (section, table) for section in report.sections for table in section.tables}
    facts = single_row(tables[TOTALS][1]) if TOTALS in tables else ()
    findings = [*_damage(tables), *_quotas(tables), *_parts(tables), *_growth(tables)]
    return Headline(facts, tuple(sorted(findings, key=lambda finding: finding.level)))


def single_row(table: ReportTable) -> tuple[Fact, ...]:
    """The numbers of a table that is one row of them; of any other, nothing."""
    if len(table.rows) != 1 or any(column.kind in {"text", "path"} for column in table.columns):
        return ()
    pairs = zip(table.columns, table.rows[0], strict=True)
    return tuple(Fact(column.title, value, column.kind) for column, value in pairs)


_Tables = dict[str, tuple[Section, ReportTable]]


def _records(tables: _Tables, name: str) -> list[dict[str, Any]]:
    if name not in tables:
        return []
    table = tables[name][1]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def _finding(level: Literal["fault", "warning"], text: str, section: Section) -> Finding:
    return Finding(level, text, section.id, section.title)


def _damage(tables: _Tables) -> Iterator[Finding]:
    """What `checkpointer image verify` calls errors and warnings, each level in one line."""
    for severity, level in (("error", "fault"), ("warning", "warning")):
        records = [record for record in _records(tables, "findings") if record["severity"] == severity]
        if records:
            total = sum(record["count"] for record in records)
            text = (
                f"The image holds {_counted(total, severity)}, most often {records[0]['code']}: {records[0]['meaning']}"
            )
            yield _finding("fault" if level == "fault" else "warning", text, tables["findings"][0])


def _quotas(tables: _Tables) -> Iterator[Finding]:
    """Quotas at or over their limit, and those that nearly are."""
    used = [
        (record[column], record["path"], kind)
        for record in _records(tables, "quotas")
        for column, kind in (("names_used", "name"), ("space_used", "space"))
        if record[column] is not None and record[column] >= _NEARLY_FULL
    ]
    used.sort(key=lambda row: (-row[0], row[1]))
    full = [row for row in used if row[0] >= _FULL]
    for level, rows, words in (("fault", full, "used up"), ("warning", used[len(full) :], "nearly used up")):
        if rows:
            part, path, kind = rows[0]
            most = f"{path} has used {cell_text(part, 'percent')} of its {kind} quota"
            text = f"{most}." if len(rows) == 1 else f"{len(rows)} quotas are {words}; {most}."
            yield _finding("fault" if level == "fault" else "warning", text, tables["quotas"][0])


def _parts(tables: _Tables) -> Iterator[Finding]:
    """Small files, cold data and what only snapshots hold, each where it is much of the whole."""
    for record in _records(tables, "small_files"):
        if (part := _share(record["small_files"], record["files"])) >= _MANY_SMALL:
            text = f"{count_text(record['small_files'])} files are small, {cell_text(part, 'percent')} of all"
            text += f"; merging them would free about {bytes_text(record['saved_heap'])} of the NameNode's heap."
            yield _finding("warning", text, tables["small_files"][0])
    total = next((record["raw"] for record in _records(tables, TOTALS)), 0)
    cold = sum(record["cold_raw"] for record in _records(tables, "cold_by_owner"))
    if (part := _share(cold, total)) >= _MUCH_COLD:
        yield _finding(
            "warning",
            f"{bytes_text(cold)} are cold, {cell_text(part, 'percent')} of all space.",
            tables["cold_by_owner"][0],
        )
    held = sum(record["raw"] for record in _records(tables, "snapshots"))
    if (part := _share(held, total)) >= _MUCH_HELD:
        text = f"Only snapshots hold {bytes_text(held)}, as much as {cell_text(part, 'percent')} of the current tree."
        yield _finding("warning", text, tables["snapshots"][0])


def _growth(tables: _Tables) -> Iterator[Finding]:
    records = _records(tables, "growth_by_directory")
    for root in (record for record in records if record["path"] == "/"):
        if (part := _share(root["raw"], root["raw_before"])) >= _MUCH_GROWN:
            text = f"Space grew by {bytes_text(root['raw'])}, {cell_text(part, 'percent')} of what it was."
            yield _finding("warning", text, tables["growth_by_directory"][0])


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole > 0 else 0.0


def _counted(number: int, noun: str) -> str:
    return f"{count_text(number)} {noun}{'' if number == 1 else 's'}"
