"""The directories of an image on the driver: sums of whole trees, inherited policies, quotas and savings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.grouping import (
    MAX_LONG,
    Numbers,
    add_up,
    codes_of,
    first,
    grouped,
    more_than_none,
    numbers,
    total_of,
    with_columns,
)
from pipeline.reports.counts.namespace import DIMENSIONS, MEASURES, OF_FILES, PARTS, merge_counts
from pipeline.reports.model import FULL, NEARLY_FULL

"""Levels of quotas."""

HEAP_BYTES = 150
"""NameNode heap for an inode or a block, by Hadoop's rule of thumb."""

SAVINGS = ("saved_inodes", "saved_blocks", "saved_heap")

EFFECTIVE_POLICY = "effective_policy"

_NONE = -1


class DirectoryTree:
    """Directories, one row each in the order of `rows`.

    Attributes:
        rows: `DIRECTORY_COLUMNS` of `counts.namespace`.
        above: row of each directory's parent, -1 for the root.
        depth: 0 for the root.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows.sort_by("id")
        self._ids = numbers(self.rows["id"])
        parents = numbers(self.rows["parent"], _NONE)
        self.above = np.where(parents == _NONE, _NONE, self.rows_of(parents))
        paths = self.rows["path"]
        self.depth = np.where(pc.equal(paths, "/").to_numpy(), 0, numbers(pc.count_substring(paths, "/")))
        order = np.argsort(self.depth, kind="stable")
        edges = np.searchsorted(self.depth[order], np.arange(int(self.depth.max(initial=0)) + 2))
        self._levels = [order[start:stop] for start, stop in itertools.pairwise(edges)]

    @property
    def count(self) -> int:
        return self._ids.size

    def rows_of(self, ids: Numbers) -> Numbers:
        """Return the rows of directories by inode id."""
        return np.minimum(np.searchsorted(self._ids, ids), max(0, self._ids.size - 1))

    def roll_up(self, direct: Numbers) -> Numbers:
        """Return the sums of whole trees from the sums of direct children; see `grouping.add_up`."""
        total, about = direct.copy(), direct.astype(np.float64)
        for level in reversed(self._levels[1:]):
            np.add.at(total, self.above[level], total[level])
            np.add.at(about, self.above[level], about[level])
        # A sum of doubles is inexact by far less than a quarter of a long's range, so a wrapped sum is recognised.
        total[((total < 0) & (about > 0.75 * MAX_LONG)) | (about > 1.5 * MAX_LONG)] = MAX_LONG
        return total

    def inherit(self, own: Numbers) -> Numbers:
        """Return each directory's value, or else the value of the nearest ancestor with a value; -1 means no value."""
        found = own.copy()
        for level in self._levels[1:]:
            found[level] = np.where(found[level] == _NONE, found[self.above[level]], found[level])
        return found


class ImageCounts:
    """Counts of a whole image, merged from the tasks' counts.

    Args:
        tables: `NamespaceCounts.tables` of all tasks.
    """

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.tables = merge_counts(tables)
        # an Arrow string array contains at most 2 GiB, but all paths become one array
        rows = self.tables["tree"]
        paths = rows["path"].cast(pa.large_string())
        self.tables["tree"] = rows.set_column(rows.column_names.index("path"), "path", paths)

    @cached_property
    def tree(self) -> DirectoryTree:
        return DirectoryTree(self.tables["tree"])

    @cached_property
    def direct(self) -> pa.Table:
        """The `direct` table with the `SAVINGS` of merging each owner's small files in a directory into full blocks.

        Each merged file fills one block of the largest block size among the small files; at least one file remains,
        even if all are empty.
        """
        direct = self.tables["direct"]
        files, length, blocks, size = (
            numbers(direct[name]) for name in ("small_files", "small_length", "small_blocks", "block_size")
        )
        merged = np.maximum(1, -(-length // np.maximum(1, size)))
        inodes = np.where(files > 0, np.maximum(0, files - merged), 0)
        saved = np.where(files > 0, np.maximum(0, blocks - merged), 0)
        columns = (inodes, saved, (inodes + saved) * HEAP_BYTES)
        return with_columns(direct, dict(zip(SAVINGS, columns, strict=True)))

    @cached_property
    def total(self) -> dict[str, int]:
        """Sums over the whole tree."""
        return {name: total_of(self.direct[name]) for name in (*MEASURES, *PARTS, *SAVINGS)}

    @cached_property
    def by_directory(self) -> pa.Table:
        """A row for each directory with children: its path, and the sums over its direct children."""
        sums = (*MEASURES, *PARTS, *SAVINGS)
        found = grouped(self.direct, ("parent",), sums)
        rows = pa.array(self.tree.rows_of(numbers(found["parent"])))
        return found.append_column("path", self.tree.rows["path"].take(rows))

    @cached_property
    def by_owner(self) -> pa.Table:
        return grouped(self.direct, ("owner",), (*MEASURES, *PARTS, *SAVINGS))

    @cached_property
    def whole_trees(self) -> dict[str, Numbers]:
        """`MEASURES` of everything below each directory, by row of the tree, and their sum of `names`."""
        rows = self.tree.rows_of(numbers(self.direct["parent"]))
        found = {
            name: self.tree.roll_up(add_up(numbers(self.direct[name]), rows, self.tree.count)) for name in MEASURES
        }
        return {**found, "names": found["files"] + found["directories"] + found["symlinks"]}

    def rolled(self, depth: int) -> pa.Table:
        """Return the trees down to `depth` that are not empty: path, owner, depth, `MEASURES`, names."""
        tree = self.tree
        chosen = pa.array((tree.depth <= depth) & (self.whole_trees["names"] > 0))
        rows = tree.rows.select(["path", "owner"])
        return with_columns(rows, {"depth": tree.depth, **self.whole_trees}).filter(chosen)

    def dimension(self, name: str, limit: int) -> list[dict[str, Any]]:
        """Return the `limit` values of a dimension with the most raw space: value, `MEASURES`, `PARTS`.

        All dimensions except owner and group count only files.
        """
        if name == EFFECTIVE_POLICY:
            rows = self._effective_policies()
        else:
            assert name in DIMENSIONS, name
            every = self.tables["dimensions"]
            rows = every.filter(pc.equal(every["dimension"], name))
        found: list[dict[str, Any]] = first(rows, _LARGEST, limit).to_pylist()
        return found

    def sizes(self, name: str) -> dict[str | None, dict[int, int]]:
        """Return the files by owner or group (`name`) and size class; see `classes.SIZE_LABELS`."""
        every = self.tables["sizes"]
        found: dict[str | None, dict[int, int]] = {}
        for row in every.filter(pc.equal(every["dimension"], name)).to_pylist():
            found.setdefault(row["value"], {})[row["size_class"]] = row["files"]
        return found

    def _effective_policies(self) -> pa.Table:
        """Sum files by the storage policy set on the file, or else on the nearest ancestor with a policy.

        BlockStoragePolicySuite and INode.getStoragePolicyID resolve the policy in this way. Without any policy, the
        NameNode's default applies, and the value is null.
        """
        tree, own = self.tree, self.tables["policies"]
        codes, names = codes_of(tree.rows["storage_policy"])
        is_set = names.is_valid().to_numpy(zero_copy_only=False)
        inherited = tree.inherit(np.where(is_set[codes], codes, _NONE))
        rest = {name: self._of_direct(self.direct, name) - self._of_direct(own, name) for name in OF_FILES}
        policy = names.take(pa.array(inherited, mask=inherited == _NONE))
        rows = more_than_none(pa.table({"value": policy, **rest}), "files")
        named = own.rename_columns({"policy": "value"}).select(rows.column_names)
        return grouped(pa.concat_tables([rows, named]), ("value",), OF_FILES)

    def _of_direct(self, table: pa.Table, name: str) -> Numbers:
        return add_up(numbers(table[name]), self.tree.rows_of(numbers(table["parent"])), self.tree.count)

    def quotas(self) -> pa.Table:
        """Return the use of every quota: path, ns_quota, names, ds_quota, raw; null if unlimited.

        As in a NameNode, a directory counts as one of its names. Unlike a NameNode, this method does not count inodes
        that exist only in snapshots, or the unwritten rest of a block under construction.
        """
        limits = {name: _limits(self.tree.rows[name]) for name in ("ns_quota", "ds_quota")}
        columns = {
            "path": self.tree.rows["path"],
            "ns_quota": limits["ns_quota"],
            "names": self.whole_trees["names"] + 1,
            "ds_quota": limits["ds_quota"],
            "raw": self.whole_trees["raw"],
        }
        return pa.table(columns).filter(pc.or_(limits["ns_quota"].is_valid(), limits["ds_quota"].is_valid()))


_LARGEST: Any = [("raw", "descending"), ("files", "descending"), ("value", "ascending")]


def _limits(column: pa.ChunkedArray) -> pa.Array:
    """Return quotas, null if unlimited: a NameNode writes the largest long for a root without a quota."""
    values = numbers(column, _NONE)
    return pa.array(values, mask=(values < 0) | (values == MAX_LONG))


def quota_levels(used: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count the quotas that are used up or nearly used up (90 per cent). Columns: level, quotas; path, kind (names or
    space) and used (per cent) of the fullest quota.

    Args:
        used: rows of `ImageCounts.quotas`.
    """
    found: dict[str, list[tuple[float, str, str]]] = {FULL: [], NEARLY_FULL: []}
    for row in used:
        for kind, part, limit in (("names", row["names"], row["ns_quota"]), ("space", row["raw"], row["ds_quota"])):
            if limit and part * 10 >= limit * 9:
                found[FULL if part >= limit else NEARLY_FULL].append((-part * 100.0 / limit, row["path"], kind))
    levels = []
    for level, quotas in found.items():
        if quotas:
            order, path, kind = min(quotas)
            levels.append({"level": level, "quotas": len(quotas), "path": path, "kind": kind, "used": round(-order, 2)})
    return levels


CHANGES = ("files", "directories", "length", "raw", "blocks")
"""Compared measures."""


def changes(before: pa.Table, after: pa.Table, key: str, limit: int) -> pa.Table:
    """Return the `limit` largest differences, sorted by raw space and names: key, `CHANGES` (after - before),
    raw_before, raw_after.

    A key that exists only in one image counts as 0 in the other; an unchanged key has no row.

    Args:
        before, after: key and `CHANGES`; the function sums rows with the same key.
        key: `path` or `owner`.
    """
    sides = {"before": before, "after": after}
    parts = []
    for side, rows in sides.items():
        columns = {key: rows[key]}
        for name in CHANGES:
            for other in sides:
                values = numbers(rows[name])
                columns[f"{name}_{other}"] = pa.array(values if other == side else np.zeros_like(values))
        parts.append(pa.table(columns))
    both = pa.concat_tables(parts)
    summed = grouped(both, (key,), both.column_names[1:])
    differences = {name: numbers(summed[f"{name}_after"]) - numbers(summed[f"{name}_before"]) for name in CHANGES}
    rows = with_columns(summed.select([key, "raw_before", "raw_after"]), differences)
    most = {"most": np.abs(differences["raw"]), "names": np.abs(differences["files"] + differences["directories"])}
    changed = np.any([values != 0 for values in differences.values()], axis=0)
    order: Any = [("most", "descending"), ("names", "descending"), (key, "ascending")]
    return first(with_columns(rows, most).filter(pa.array(changed)), order, limit).drop(list(most))
