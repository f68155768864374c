"""Counts of the files and directories that exist only in snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.classes import known_size
from pipeline.reports.counts.grouping import Numbers, add_up, grouped, numbers, total_of

BLOCK_COLUMNS = ("inode_id", "bytes", "raw_bytes")
HELD = pa.schema([(name, pa.int64()) for name in ("inode_id", "length", "raw", "blocks")])


def held_files(blocks: pa.RecordBatch, outside: Numbers) -> pa.Table:
    """Return the files of a batch of `blocks` that are only in snapshots: inode_id, length, raw, blocks.

    Blocks of unknown size count as 0 bytes.

    Args:
        blocks: `BLOCK_COLUMNS`.
        outside: ids of the inodes that are not in the current tree.
    """
    held = np.isin(numbers(blocks["inode_id"]), outside)
    rows = pa.table(
        {
            "inode_id": blocks["inode_id"],
            "length": known_size(numbers(blocks["bytes"])),
            "raw": numbers(blocks["raw_bytes"]),
            "blocks": np.ones(blocks.num_rows, np.int64),
        }
    )
    return grouped(rows.filter(pa.array(held)), ("inode_id",), HELD.names[1:])


def diff_counts(diffs: Iterable[Mapping[str, Any]], root_of: Mapping[int, int]) -> dict[str, pa.Table]:
    """Return `changed`: root_id, changed (the number of inodes with a diff), and `deleted`: root_id, inode_id.

    A diff counts for the directory of its snapshot. `deleted` contains the inodes that the diffs list as deleted, each
    with its descendants.

    Args:
        diffs: rows of the table `snapshot_diffs`, all rows of an inode.
        root_of: snapshottable directory of each snapshot.
    """
    changed: set[tuple[int, int]] = set()
    deleted: set[tuple[int, int]] = set()
    for diff in diffs:
        root = root_of.get(diff["snapshot_id"])
        if root is not None:
            changed.add((root, diff["inode_id"]))
            deleted.update((root, inode) for inode in diff.get("deleted_inodes") or ())
    roots = pa.table({"root_id": pa.array([root for root, _ in changed], pa.int64())})
    counted = roots.append_column("changed", pa.array(np.ones(len(changed), np.int64)))
    pairs = sorted(deleted)
    return {
        "changed": grouped(counted, ("root_id",), ("changed",)),
        "deleted": pa.table(
            {
                "root_id": pa.array([root for root, _ in pairs], pa.int64()),
                "inode_id": pa.array([inode for _, inode in pairs], pa.int64()),
            }
        ),
    }


def held_totals(held: pa.Table) -> dict[str, int]:
    """Return files, length and raw of the files only in snapshots."""
    return {"files": held.num_rows, "length": total_of(held["length"]), "raw": total_of(held["raw"])}


def held_by_directory(snapshots: Iterable[Mapping[str, Any]], tables: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    """Group by snapshottable directory: path, snapshots, oldest, newest, changed, deleted_trees, files, length, raw.

    `files`, `length` and `raw` describe the inodes listed as deleted that are files and exist only in snapshots. Diffs
    do not list files deeper in a deleted tree; only `held_totals` includes them.

    Args:
        snapshots: root_id, root_path, creation_time of each snapshot.
        tables: `held` of `held_files` (if any), `changed` and `deleted` of `diff_counts`.
    """
    taken: dict[int, list[Mapping[str, Any]]] = {}
    for snapshot in snapshots:
        taken.setdefault(snapshot["root_id"], []).append(snapshot)
    roots = list(taken)
    changed = grouped(tables["changed"], ("root_id",), ("changed",))
    number = dict(zip(changed["root_id"].to_pylist(), changed["changed"].to_pylist(), strict=True))
    found: list[dict[str, Any]] = []
    for root, sums in zip(roots, _deleted(roots, tables).to_pylist(), strict=True):
        times = [each["creation_time"] for each in taken[root] if each["creation_time"] is not None]
        about = {"path": taken[root][0]["root_path"], "snapshots": len(taken[root])}
        times_of = {"oldest": min(times, default=None), "newest": max(times, default=None)}
        found.append({**about, **times_of, "changed": number.get(root, 0), **sums})
    return found


def _deleted(roots: list[int], tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return deleted_trees, files, length and raw of each root."""
    held = tables.get("held", HELD.empty_table())
    deleted = grouped(tables["deleted"], ("root_id", "inode_id"), ())
    places = pc.index_in(deleted["root_id"], pa.array(roots, pa.int64()))
    known = pc.is_valid(places)
    groups = numbers(places.filter(known))
    rows = pc.index_in(deleted["inode_id"].filter(known), held["inode_id"].combine_chunks())
    sums = {"deleted_trees": np.ones(groups.size, np.int64), "files": numbers(pc.is_valid(rows))}
    sums |= {name: numbers(held[name].take(rows)) for name in ("length", "raw")}
    return pa.table({name: add_up(values, groups, len(roots)) for name, values in sums.items()})
