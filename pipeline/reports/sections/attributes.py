"""Section `attributes`: ACLs, extended attributes and encryption zones."""

from __future__ import annotations

import pyarrow as pa

from pipeline.reports.counts.features import ATTRIBUTES, HOLDERS, ZONES
from pipeline.reports.counts.grouping import Order, first, grouped, numbers
from pipeline.reports.counts.namespace import MEASURES
from pipeline.reports.model import ReportSection
from pipeline.reports.rows import CONTENT, Record, count, first_rows, path, records, table, text
from pipeline.reports.work import ReportData

_TOTAL = (
    count("acl_files", "Files with an ACL"),
    count("acl_directories", "Directories with an ACL"),
    count("xattr_files", "Files with attributes"),
    count("xattr_directories", "Directories with attributes"),
    count("encryption_zones", "Encryption zones"),
)
_NAMES = (text("namespace", "Namespace"), text("name", "Attribute"), count("directories", "Directories"))
_MOST: Order = [("directories", "descending"), ("namespace", "ascending"), ("name", "ascending")]


def section(work: ReportData) -> ReportSection:
    """Make tables of inodes with ACLs and attributes, of directory attributes by name, and of encryption zones."""
    tables, most = work.image.tables, work.options.top
    holders = grouped(tables.get("holders", HOLDERS.empty_table()), ("feature", "type"), ("inodes",))
    number = {f"{row['feature']}_{row['type']}": row["inodes"] for row in holders.to_pylist()}
    names = grouped(tables.get("attributes", ATTRIBUTES.empty_table()), ("namespace", "name"), ("directories",))
    zones = _zones(work)
    total = {column.name: number.get(column.name, 0) for column in _TOTAL} | {"encryption_zones": len(zones)}
    return ReportSection(
        "attributes",
        "ACLs, attributes and encryption",
        "Files and directories with ACLs and extended attributes, and the encryption zones.",
        (
            table("attributes", "In total", _TOTAL, [total]),
            first_rows(
                "attributes_of_directories",
                "Attributes of directories by name",
                _NAMES,
                records(first(names, _MOST, most + 1)),
                most=most,
            ),
            first_rows("encryption_zones", "Encryption zones", (path(), *CONTENT), zones, most=most),
        ),
        notes=("The attributes with which HDFS stores policies and encryption are included.",),
    )


def _zones(work: ReportData) -> list[Record]:
    """Return the encryption zones with their content, the largest first."""
    zones = work.image.tables.get("zones", ZONES.empty_table())
    rows = work.image.tree.rows_of(numbers(zones["inode_id"]))
    content = {name: pa.array(work.image.whole_trees[name][rows]) for name in MEASURES}
    found = records(pa.table({"path": zones["path"], **content}))
    return sorted(found, key=lambda record: (-record["raw"], record["path"]))
