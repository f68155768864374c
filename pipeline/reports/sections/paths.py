"""Section `paths`: path sets, and the tables of databases, as `--paths` names them."""

from __future__ import annotations

import pyarrow as pa

from pipeline.reports.counts.grouping import grouped
from pipeline.reports.counts.path_groups import SUMS, set_sizes, set_sums, table_sums
from pipeline.reports.model import Bars, ReportSection, ReportTable
from pipeline.reports.rows import CONTENT, Record, first_bars, first_rows, records, share, text
from pipeline.reports.sections.owners import MORE, SIZE_COLUMNS, size_counts
from pipeline.reports.work import ReportData

_DATABASE, _TABLE = text("database", "Database"), text("table", "Table")


def section(work: ReportData) -> ReportSection:
    """Make tables of space, sizes and cold data by path set, by database and by table."""
    rules, most = work.options.paths, work.options.top
    assert rules is not None
    tables: list[ReportTable] = []
    charts: list[Bars] = []
    if rules.sets:
        sets, sizes = _sorted(work, set_sums(work.image, rules)), set_sizes(work.image, rules)
        name = text("name", "Path set")
        tables.append(first_rows("path_sets", "Path sets", (name, *CONTENT, *MORE), sets, most=len(sets)))
        rows = [{"name": row["name"], **size_counts(sizes[row["name"]])} for row in sets]
        tables.append(
            first_rows("sizes_by_path_set", "Files by size and path set", (name, *SIZE_COLUMNS), rows, most=len(sets))
        )
        charts += first_bars("Space with replicas by path set", "name", "raw", sets, unit="bytes", most=most)
    if rules.tables:
        by_table = table_sums(work.image, rules)
        databases = _sorted(work, grouped(by_table, ("database",), SUMS))
        found = _sorted(work, by_table)
        tables.append(first_rows("databases", "Databases", (_DATABASE, *CONTENT, *MORE), databases, most=most))
        tables.append(first_rows("database_tables", "Tables", (_DATABASE, _TABLE, *CONTENT, *MORE), found, most=most))
        charts += first_bars("Space with replicas by database", "database", "raw", databases, unit="bytes", most=most)
    note = "Everything below the directories of a set or table is included. A directory may be in several sets."
    title = "Path sets and tables"
    return ReportSection("paths", title, "Named directories of --paths.", tuple(tables), tuple(charts), (note,))


def _sorted(work: ReportData, rows: pa.Table) -> list[Record]:
    """Return rows with their share, the largest first."""
    keys = [name for name in ("name", "database", "table") if name in rows.column_names]
    found = sorted(records(rows), key=lambda row: (-row["raw"], -row["files"], *(row[key] for key in keys)))
    for row in found:
        row["share"] = share(row["raw"], work.image.total["raw"])
    return found
