"""The top of a report: the size of the namespace, and the few findings that need attention.

All numbers come from tables of totals, never from tables that show only the first rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pipeline.reports.model import FULL, Cell, NamespaceReport, ReportSection, ReportTable, ValueKind, cell_text

TOTALS = "totals"
"""The table with the facts; the text and the page show this table only at the top."""

CHANGES = "growth"
"""The table with the changes since the older image; the text and the page also show this table at the top."""

_MIN_SMALL, _MIN_COLD, _MIN_TEMPORARY, _MIN_IN_SNAPSHOTS, _MIN_GROWTH = 50.0, 25.0, 10.0, 10.0, 5.0
"""Percentages at and above which the headline reports a finding."""

ValueFormatter: TypeAlias = Callable[[Cell, ValueKind], str]
"""Function that formats a value as readable text; the text and the page use different separators."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A named number."""

    title: str
    value: Cell
    kind: ValueKind


@dataclass(frozen=True, slots=True)
class HeadlineFinding:
    """A finding that needs attention, and the section with the details."""

    level: Literal["fault", "warning"]
    text: str
    section: str
    link: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The part above the sections; faults precede warnings.

    Attributes:
        changes: differences from the older image, empty if there is none.
    """

    facts: tuple[Fact, ...]
    findings: tuple[HeadlineFinding, ...]
    changes: tuple[Fact, ...] = ()


def headline(report: NamespaceReport, say: ValueFormatter = cell_text) -> Headline:
    """Return the headline from the tables of totals that the report contains."""
    tables = {table.name: (section, table) for section in report.sections for table in section.tables}
    facts = single_row(tables[TOTALS][1]) if TOTALS in tables else ()
    makers = (_damage, _quotas, _directory_items, _small, _cold, _temporary, _held, _growth)
    findings = [finding for maker in makers for finding in maker(tables, say)]
    changes = single_row(tables[CHANGES][1]) if CHANGES in tables else ()
    return Headline(facts, tuple(sorted(findings, key=lambda finding: finding.level)), changes)


def single_row(table: ReportTable) -> tuple[Fact, ...]:
    """Return the numbers of a table with one row of numbers; empty for any other table."""
    if len(table.rows) != 1 or table.cut or any(column.kind in {"text", "path"} for column in table.columns):
        return ()
    pairs = zip(table.columns, table.rows[0], strict=True)
    return tuple(Fact(column.title, value, column.kind) for column, value in pairs)


_Tables: TypeAlias = Mapping[str, tuple[ReportSection, ReportTable]]


def _records(tables: _Tables, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, or an empty list if the report lacks the table.

    The table must be complete, because the headline sums and counts its rows.
    """
    if name not in tables:
        return []
    table = tables[name][1]
    assert not table.cut, name
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def _finding(level: Literal["fault", "warning"], text: str, section: ReportSection) -> HeadlineFinding:
    return HeadlineFinding(level, text, section.id, section.title)


def _damage(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    """Yield one finding for all errors, and one for all warnings, of `checkpointer image verify`."""
    levels: tuple[tuple[str, Literal["fault", "warning"]], ...] = (("error", "fault"), ("warning", "warning"))
    for severity, level in levels:
        records = [record for record in _records(tables, "findings") if record["severity"] == severity]
        if records:
            total = sum(record["count"] for record in records)
            noun = severity if total == 1 else f"{severity}s"
            most = max(records, key=lambda record: record["count"])
            text = f"The image has {say(total, 'count')} {noun}, most often {most['code']}: {most['meaning']}"
            yield _finding(level, text, tables["findings"][0])


def _quotas(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    """Yield a finding for the quotas at or over their limit, and a finding for the quotas close to their limit."""
    for record in _records(tables, "quota_levels"):
        kind = "name" if record["kind"] == "names" else "space"
        most = f"{record['path']} has used {say(record['used'], 'percent')} of its {kind} quota"
        number = record["quotas"]
        text = f"{most}." if number == 1 else f"{say(number, 'count')} quotas are {record['level']}; {most}."
        yield _finding("fault" if record["level"] == FULL else "warning", text, tables["quota_levels"][0])


def _directory_items(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    """Yield a finding if a directory approaches or has reached the limit on children."""
    for record in _records(tables, "directory_items"):
        if number := record["near_limit"]:
            noun = "directory has" if number == 1 else "directories have"
            text = f"{say(number, 'count')} {noun} at least 90 % of the children that a NameNode allows"
            text += f", the fullest {say(record['most_children'], 'count')}."
            level: Literal["fault", "warning"] = "fault" if record["at_limit"] else "warning"
            yield _finding(level, text, tables["directory_items"][0])


def _small(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    for record in _records(tables, "small_files"):
        if (part := _share(record["small_files"], record["files"])) >= _MIN_SMALL:
            noun = "file is" if record["small_files"] == 1 else "files are"
            text = f"{say(record['small_files'], 'count')} {noun} small, {say(part, 'percent')} of all"
            text += f"; merging them would free about {say(record['saved_heap'], 'bytes')} of NameNode heap."
            yield _finding("warning", text, tables["small_files"][0])


def _cold(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    for record in _records(tables, "cold"):
        if (part := _share(record["cold_raw"], record["raw"])) >= _MIN_COLD:
            text = f"{say(record['cold_raw'], 'bytes')} are cold, {say(part, 'percent')} of all space."
            yield _finding("warning", text, tables["cold"][0])


def _temporary(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    for record in _records(tables, "temporary"):
        if (part := record["share"] or 0.0) >= _MIN_TEMPORARY:
            text = f"{say(record['raw'], 'bytes')} are in trash and other temporary directories, "
            yield _finding("warning", text + f"{say(part, 'percent')} of all space.", tables["temporary"][0])


def _held(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    """Yield a finding if snapshots alone keep much space compared with the current tree."""
    for record in _records(tables, "snapshots"):
        if (part := _share(record["raw"], record["current_raw"])) >= _MIN_IN_SNAPSHOTS:
            much = f"{say(part, 'percent')} of the space of the current tree"
            text = f"Snapshots alone keep {say(record['raw'], 'bytes')}, {much}."
            yield _finding("warning", text, tables["snapshots"][0])


def _growth(tables: _Tables, say: ValueFormatter) -> Iterator[HeadlineFinding]:
    for record in _records(tables, "growth"):
        if (part := _share(record["raw"], record["raw_before"])) >= _MIN_GROWTH:
            text = f"Space grew by {say(record['raw'], 'bytes')}, {say(part, 'percent')} of the earlier space."
            yield _finding("warning", text, tables["growth"][0])


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole > 0 else 0.0
