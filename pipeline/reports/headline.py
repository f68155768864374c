"""The top of a report: how large the namespace is, and the few things that somebody should act on.

Every number here comes from a table of totals, never from one that shows the first rows of many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pipeline.reports.model import Cell, Kind, Report, ReportTable, Section
from pipeline.reports.units import cell_text

TOTALS = "totals"
"""The table that the facts are taken from; text and page show it at the top alone."""

_MANY_SMALL, _MUCH_COLD, _MUCH_HELD, _MUCH_GROWN = 50.0, 25.0, 10.0, 5.0
"""Percentages from which on it is worth a line."""

Say: TypeAlias = Callable[[Cell, Kind], str]
"""Writes a value for people: text and page have their own spaces and separators."""


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


def headline(report: Report, say: Say = cell_text) -> Headline:
    """What the tables of totals of the report say, as far as the report has them."""
    tables = {table.name: (section, table) for section in report.sections for table in section.tables}
    facts = single_row(tables[TOTALS][1]) if TOTALS in tables else ()
    makers = (_damage, _quotas, _small, _cold, _held, _growth)
    findings = [finding for maker in makers for finding in maker(tables, say)]
    return Headline(facts, tuple(sorted(findings, key=lambda finding: finding.level)))


def single_row(table: ReportTable) -> tuple[Fact, ...]:
    """The numbers of a table that is one row of them; of any other, nothing."""
    if len(table.rows) != 1 or table.cut or any(column.kind in {"text", "path"} for column in table.columns):
        return ()
    pairs = zip(table.columns, table.rows[0], strict=True)
    return tuple(Fact(column.title, value, column.kind) for column, value in pairs)


_Tables: TypeAlias = Mapping[str, tuple[Section, ReportTable]]


def _records(tables: _Tables, name: str) -> list[dict[str, Any]]:
    """The rows of a table, none where the report does not have it.

    It has to be whole: what is added up or counted here must not be the first rows of more.
    """
    if name not in tables:
        return []
    table = tables[name][1]
    assert not table.cut, name
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def _finding(level: Literal["fault", "warning"], text: str, section: Section) -> Finding:
    return Finding(level, text, section.id, section.title)


def _damage(tables: _Tables, say: Say) -> Iterator[Finding]:
    """What `checkpointer image verify` calls errors and warnings, each level in one line."""
    levels: tuple[tuple[str, Literal["fault", "warning"]], ...] = (("error", "fault"), ("warning", "warning"))
    for severity, level in levels:
        records = [record for record in _records(tables, "findings") if record["severity"] == severity]
        if records:
            total = sum(record["count"] for record in records)
            noun = severity if total == 1 else f"{severity}s"
            most = max(records, key=lambda record: record["count"])
            text = f"The image holds {say(total, 'count')} {noun}, most often {most['code']}: {most['meaning']}"
            yield _finding(level, text, tables["findings"][0])


def _quotas(tables: _Tables, say: Say) -> Iterator[Finding]:
    """Quotas at or over their limit, and those that nearly are."""
    for record in _records(tables, "quota_levels"):
        kind = "name" if record["kind"] == "names" else "space"
        most = f"{record['path']} has used {say(record['used'], 'percent')} of its {kind} quota"
        number = record["quotas"]
        text = f"{most}." if number == 1 else f"{say(number, 'count')} quotas are {record['level']}; {most}."
        yield _finding("fault" if record["level"] == "used up" else "warning", text, tables["quota_levels"][0])


def _small(tables: _Tables, say: Say) -> Iterator[Finding]:
    for record in _records(tables, "small_files"):
        if (part := _share(record["small_files"], record["files"])) >= _MANY_SMALL:
            text = f"{say(record['small_files'], 'count')} files are small, {say(part, 'percent')} of all"
            text += f"; merging them would free about {say(record['saved_heap'], 'bytes')} of the NameNode's heap."
            yield _finding("warning", text, tables["small_files"][0])


def _cold(tables: _Tables, say: Say) -> Iterator[Finding]:
    for record in _records(tables, "cold"):
        if (part := _share(record["cold_raw"], record["raw"])) >= _MUCH_COLD:
            text = f"{say(record['cold_raw'], 'bytes')} are cold, {say(part, 'percent')} of all space."
            yield _finding("warning", text, tables["cold"][0])


def _held(tables: _Tables, say: Say) -> Iterator[Finding]:
    """What only snapshots hold, where it is much beside the current tree."""
    for record in _records(tables, "snapshots"):
        if (part := _share(record["raw"], record["current_raw"])) >= _MUCH_HELD:
            much = f"as much as {say(part, 'percent')} of the current tree"
            text = f"Only snapshots hold {say(record['raw'], 'bytes')}, {much}."
            yield _finding("warning", text, tables["snapshots"][0])


def _growth(tables: _Tables, say: Say) -> Iterator[Finding]:
    for record in _records(tables, "growth"):
        if (part := _share(record["raw"], record["raw_before"])) >= _MUCH_GROWN:
            text = f"Space grew by {say(record['raw'], 'bytes')}, {say(part, 'percent')} of what it was."
            yield _finding("warning", text, tables["growth"][0])


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole > 0 else 0.0
