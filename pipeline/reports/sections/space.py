"""Section `space`: directory trees and quotas."""

from __future__ import annotations

from collections import defaultdict

from hadoop_common.quantities import counted
from pipeline.reports.counts.directory_findings import children, near_limit
from pipeline.reports.counts.grouping import Order, first
from pipeline.reports.counts.tree import HEAP_BYTES, quota_levels
from pipeline.reports.model import ReportSection, ReportTable, Treemap, TreemapNode
from pipeline.reports.rows import CONTENT, Record, bytes_, count, first_rows, path, percent, records, share, table, text
from pipeline.reports.work import ReportData

_NODES = 300
_PLACE: Order = (("depth", "ascending"), ("path", "ascending"))
_TREE = (path(), *CONTENT, percent("share", "Share of space"), text("owner", "Owner"))
_TOTALS = (*CONTENT, count("symlinks", "Symlinks"), bytes_("heap", "NameNode heap (approx.)"))
_QUOTAS = (
    path(),
    count("ns_quota", "Name quota"),
    count("names", "Names"),
    percent("names_used", "Used"),
    bytes_("ds_quota", "Space quota"),
    bytes_("raw", "Space with replicas"),
    percent("space_used", "Used"),
)
_NEAR_LIMIT = (
    count("near_limit", "At 90 % or more"),
    count("at_limit", "At the limit"),
    count("most_children", "Most children"),
)
_FULLEST = (path(), count("children", "Children"), percent("children_used", "Used"))
_LEVELS = (text("level", "Level"), count("quotas", "Quotas"), path(), text("kind", "Quota of"), percent("used", "Used"))


def section(work: ReportData) -> ReportSection:
    """Make tables of totals, the largest directories as a tree, the directories with the most names, and quotas."""
    options = work.options
    rows, most = work.image.rolled(options.depth), options.top
    largest = records(first(rows, [("raw", "descending"), ("names", "descending"), *_PLACE], max(_NODES, most + 1)))
    fullest = records(first(rows, [("names", "descending"), ("raw", "descending"), *_PLACE], most + 1))
    total = work.image.total
    for record in [*largest, *fullest]:
        record["share"] = share(record["raw"], total["raw"])
    heap = HEAP_BYTES * (1 + total["files"] + total["directories"] + total["symlinks"] + total["blocks"])
    tables = [
        table("totals", "The whole namespace", _TOTALS, [{**total, "heap": heap}]),
        first_rows(
            "directories", "Largest directories, as a tree", _TREE, _as_tree(largest[:most]) + largest[most:], most=most
        ),
        first_rows("names", "Directories with the most names", _TREE, fullest, most=most),
        *_fullest(work),
        *_quotas(work),
    ]
    return ReportSection(
        "space",
        "Space by directory",
        f"Content of directory trees, down to {counted(options.depth, 'level')} below the root.",
        tuple(tables),
        (Treemap("Space with replicas", _treemap(largest)),) if total["raw"] else (),
        (
            (
                "Space with replicas includes all replicas of written bytes, and the parity of erasure-coded files. "
                "The section on snapshots covers files that exist only in snapshots."
            ),
        ),
    )


def _fullest(work: ReportData) -> list[ReportTable]:
    """Make tables of the directories that approach the limit on children."""
    limit, most = work.options.max_items, work.options.top
    rows = children(work.image)
    fullest = records(first(rows, [("children", "descending"), ("path", "ascending")], most + 1))
    for record in fullest:
        record["children_used"] = share(record["children"], limit)
    text = f"The limit is {limit:,} (dfs.namenode.fs-limits.max-directory-items); --max-directory-items sets it."
    return [
        table(
            "directory_items", "Directories near the limit on children", _NEAR_LIMIT, [near_limit(rows, limit)], text
        ),
        first_rows("fullest_directories", "Directories with the most children", _FULLEST, fullest, most=most),
    ]


def _quotas(work: ReportData) -> list[ReportTable]:
    """Make tables of the quotas at their limits and of the fullest quotas; no tables if no directory has a quota."""
    used = records(work.image.quotas())
    if not used:
        return []
    for record in used:
        record["names_used"] = share(record["names"], record["ns_quota"])
        record["space_used"] = share(record["raw"], record["ds_quota"])
    most = work.options.top
    fullest = sorted(used, key=lambda record: (-_fill(record), record["path"]))[: most + 1]
    levels = quota_levels(used)
    return [
        table("quota_levels", "Quotas at their limits", _LEVELS, levels, "The row of a level names its fullest quota."),
        first_rows(
            "quotas",
            "Quotas and their use, the fullest first",
            _QUOTAS,
            fullest,
            most=most,
            text="A NameNode also counts names and space that only snapshots keep: see `hdfs dfs -count -q`.",
        ),
    ]


def _fill(record: Record) -> float:
    """Return the higher of the used percentages of the two quotas, or -1 if neither quota is above 0."""
    return max(-1.0 if record[name] is None else record[name] for name in ("names_used", "space_used"))


def _as_tree(records: list[Record]) -> list[Record]:
    """Sort each directory after its parent; siblings keep their order."""
    children = _children(records)
    ordered: list[Record] = []
    waiting = [record for record in records if record["depth"] == 0]
    while waiting:
        record = waiting.pop()
        ordered.append(record)
        waiting.extend(reversed(children[record["path"]]))
    return ordered


def _children(records: list[Record]) -> dict[str, list[Record]]:
    """Group records by parent. Records are sorted by size, so the parent of each record is among them."""
    children: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record["depth"]:
            children[record["path"].rpartition("/")[0] or "/"].append(record)
    return children


def _treemap(records: list[Record]) -> TreemapNode:
    children = _children(records)

    def node(record: Record) -> TreemapNode:
        name = record["path"].rpartition("/")[2] or "/"
        return TreemapNode(
            name, record["raw"], tuple(node(child) for child in children[record["path"]] if child["raw"])
        )

    return node(next(record for record in records if record["depth"] == 0))
