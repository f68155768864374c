"""Growth since an earlier report, whose JSON contains the sums of the rows in its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hadoop_common.file_faults import file_faults
from pipeline.reports.counts.tree import CHANGES
from pipeline.reports.headline import TOTALS

_NOT_A_REPORT = (ValueError, LookupError, TypeError, AttributeError, pa.ArrowException)


@dataclass(frozen=True)
class EarlierReport:
    """Sums of an earlier report.

    Attributes:
        path: path of its JSON file.
        total: `CHANGES` of the whole namespace.
        trees, by_owner: `path` or `owner`, and `CHANGES`; only the listed rows.
        every_owner: whether the report lists all owners.
    """

    path: Path
    txid: int
    total: Mapping[str, int]
    trees: pa.Table
    by_owner: pa.Table
    every_owner: bool

    def rolled(self, depth: int) -> pa.Table:
        """Return the listed trees down to `depth`."""
        paths = self.trees["path"]
        below = pc.less_equal(pc.count_substring(paths, "/"), depth)
        return self.trees.filter(pc.or_(below, pc.equal(paths, "/")))

    def comparable(self, rows: pa.Table, key: str) -> pa.Table:
        """Return the rows of a newer image whose earlier sums are known; `key` is `path` or `owner`."""
        if key == "owner" and self.every_owner:
            return rows
        known = self.trees["path"] if key == "path" else self.by_owner["owner"]
        return rows.filter(pc.is_in(rows[key], known.combine_chunks()))


def last_report(folder: Path, txid: int, namespace: str) -> EarlierReport | None:
    """Return the newest report in a folder on an older image of the namespace; None if there is none.

    Args:
        folder: folder with reports as JSON, and any other files.
        txid, namespace: transaction id and namespace of the image; a report without a namespace, and the namespace "",
            match any namespace.

    Raises:
        StorageError: the folder cannot be read.
    """
    with file_faults(folder, "cannot be read"):
        for path in sorted(filter(Path.is_file, folder.glob("*.json")), key=_written_at, reverse=True):
            try:
                found = json.loads(path.read_bytes())
                report = _read(path, found)
                theirs = found.get("namespace", "")
            except (FileNotFoundError, RecursionError, *_NOT_A_REPORT):
                continue  # another file, or a report that has been deleted
            if report.txid < txid and not (namespace and theirs and namespace != theirs):
                return report
    return None


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _read(path: Path, content: dict[str, Any]) -> EarlierReport:
    tables = {table["name"]: table for section in content["sections"] for table in section["tables"]}
    (total,) = tables[TOTALS]["rows"]
    owners = tables.get("by_owner", {"rows": [], "cut": True})
    # The largest trees and the trees with the most names, which may overlap.
    trees = {row["path"]: row for name in ("directories", "names") for row in tables[name]["rows"]}
    return EarlierReport(
        path,
        int(content["txid"]),
        {name: int(total[name]) for name in CHANGES},
        _sums("path", trees),
        _sums("owner", {row["value"]: row for row in owners["rows"]}),
        not owners["cut"],
    )


def _sums(key: str, rows: Mapping[str | None, Mapping[str, Any]]) -> pa.Table:
    kind = pa.large_string() if key == "path" else pa.string()  # as in `ImageCounts`
    schema = pa.schema([(key, kind), *((name, pa.int64()) for name in CHANGES)])
    records = [{key: value, **{name: row[name] for name in CHANGES}} for value, row in rows.items()]
    return pa.Table.from_pylist(records, schema)
