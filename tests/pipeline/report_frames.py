"""Small tables for tests of a report's counts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from pipeline.reports.counts.edits import EditCounts, EditRules, count_bucket, merge_buckets
from pipeline.reports.counts.grouping import pack, unpack
from pipeline.reports.counts.namespace import NamespaceCounts, Rules
from pipeline.reports.counts.tree import ImageCounts
from pipeline.schema import Table
from pipeline.tables.edits import EDITS
from pipeline.tables.inodes import INODES

AS_OF = datetime(2025, 7, 1, tzinfo=UTC)
ROOT = 16385
MIB = 1 << 20


def frame(table: Table, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Make a batch of rows; missing columns are null."""
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in table.names} for row in rows], _nullable(table))


def _nullable(table: Table) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in table.columns])


def directory(inode: int, parent: int | None, path: str, **more: Any) -> dict[str, Any]:
    values = {
        "owner": "hdfs",
        "group": "supergroup",
        "permission": 0o755,
        "mtime": AS_OF,
        "ns_quota": -1,
        "ds_quota": -1,
    }
    name = path.rpartition("/")[2]
    return {**values, "id": inode, "parent": parent, "path": path, "name": name, "type": "DIRECTORY", **more}


def file(
    inode: int, parent: int, path: str, length: int, *, days: float = 0, read: float | None = None, **more: Any
) -> dict[str, Any]:
    """Return a file of 128 MiB blocks, modified `days` days and read `read` days before AS_OF."""
    mtime = AS_OF - timedelta(days=days)
    values: dict[str, Any] = {
        "owner": "alice",
        "group": "users",
        "permission": 0o644,
        "mtime": mtime,
        "atime": mtime if read is None else AS_OF - timedelta(days=read),
        "replication": 3,
        "block_size": 128 * MIB,
        "block_count": -(-length // (128 * MIB)),
    }
    name = path.rpartition("/")[2]
    return {
        **values,
        "id": inode,
        "parent": parent,
        "path": path,
        "name": name,
        "type": "FILE",
        "length": length,
        **more,
    }


def counted(rows: Sequence[dict[str, Any]], rules: Rules | None = None, tasks: int = 3) -> ImageCounts:
    """Count inodes as `tasks` tasks do, each in two batches."""
    parts = []
    for task in range(tasks):
        counts = NamespaceCounts(rules or Rules(AS_OF))
        mine = rows[task::tasks]
        for some in (mine[::2], mine[1::2]):
            counts.add(frame(INODES, some))
            counts.add_directories(frame(INODES, [row for row in some if row["type"] == "DIRECTORY"]))
        parts.append(pack(counts.tables()))
    return ImageCounts(unpack(parts))


def counted_edits(rows: Sequence[dict[str, Any]], rules: EditRules, tasks: int = 3) -> dict[str, pa.Table]:
    """Count transactions as Spark does: first, `tasks` tasks count a part each; then, two tasks count a bucket each."""
    buckets: dict[int, list[dict[str, bytes]]] = {0: [], 1: []}
    cuts = [len(rows) * task // tasks for task in range(tasks + 1)]
    for start, stop in itertools.pairwise(cuts):
        counts = EditCounts()
        counts.add(frame(EDITS, [{"opcode": 0, "segment": "edits", **row} for row in rows[start:stop]]))
        for number, content in counts.buckets(len(buckets)):
            buckets[number].append(content)
    return merge_buckets(unpack(pack(count_bucket(parts, rules)) for parts in buckets.values()), rules.limit)


def samples_of(metrics: str) -> list[Sample]:
    """Parse metrics in the text format of Prometheus."""
    return [sample for family in text_string_to_metric_families(metrics) for sample in family.samples]


def keyed(rows: Sequence[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    """Return rows by the unique values of a column."""
    found = {row[key]: row for row in rows}
    assert len(found) == len(rows)
    return found
