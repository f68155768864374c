"""Counts of the few inodes with an ACL, extended attributes or an open writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.reports.counts.classes import NO_TIME, age_class
from pipeline.reports.counts.grouping import grouped, numbers, with_columns
from pipeline.reports.counts.namespace import Rules
from pipeline.schema import TIMESTAMP

ZONE = ("RAW", "hdfs.crypto.encryption.zone")
"""Namespace and name of the xattr of an encryption zone's root (HdfsServerConstants.CRYPTO_XATTR_ENCRYPTION_ZONE)."""

HOLDERS = pa.schema([("feature", pa.string()), ("type", pa.string()), ("inodes", pa.int64())])
ATTRIBUTES = pa.schema([("namespace", pa.string()), ("name", pa.string()), ("directories", pa.int64())])
ZONES = pa.schema([("inode_id", pa.int64()), ("path", pa.string())])
OPEN = pa.schema(
    [
        ("path", pa.string()),
        ("client_machine", pa.string()),
        ("client_name", pa.string()),
        ("mtime", TIMESTAMP),
        ("length", pa.int64()),
    ]
)
OPEN_AGES = pa.schema([("age_class", pa.int64()), ("files", pa.int64()), ("length", pa.int64())])


def attribute_counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, pa.Table]:
    """Return `attributes`: namespace, name, directories; and `zones`: inode_id, path.

    Args:
        rows: rows of the `xattrs` table, for directories in the current tree.
    """
    found: Counter[tuple[str, str]] = Counter()
    zones = []
    for row in rows:
        key = (row["namespace"], row["name"])
        found[key] += 1
        if key == ZONE:
            zones.append({name: row[name] for name in ZONES.names})
    named = [{"namespace": space, "name": name, "directories": number} for (space, name), number in found.items()]
    return {"attributes": pa.Table.from_pylist(named, ATTRIBUTES), "zones": pa.Table.from_pylist(zones, ZONES)}


def open_file_counts(rows: Iterable[Mapping[str, Any]], rules: Rules) -> dict[str, pa.Table]:
    """Return `open_files`, the `rules.limit` files that were modified first, and `open_ages`: age_class, files, length.

    Args:
        rows: rows of the `under_construction` table; files without a path exist only in snapshots and do not count.
    """
    listed = [{name: row.get(name) for name in OPEN.names} for row in rows if row["path"] is not None]
    files = pa.Table.from_pylist(listed, OPEN)
    ages = with_columns(
        files.select(["length"]),
        {
            "age_class": age_class(numbers(files["mtime"], NO_TIME), rules.as_of),
            "files": np.ones(files.num_rows, np.int64),
        },
    )
    return {
        "open_files": oldest(files, rules.limit),
        "open_ages": grouped(ages, ("age_class",), ("files", "length")).cast(OPEN_AGES),
    }


def oldest(files: pa.Table, limit: int) -> pa.Table:
    """Return the `limit` open files that were modified first."""
    return files.sort_by([("mtime", "ascending"), ("path", "ascending")]).slice(0, limit)
