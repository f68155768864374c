"""Sums of the directories of path sets, of tables of databases, and of subtrees with one owner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.grouping import Mask, Numbers, add_up, codes_of, grouped, numbers, with_columns
from pipeline.reports.counts.namespace import MEASURES, PARTS
from pipeline.reports.counts.tree import DirectoryTree, ImageCounts
from pipeline.reports.path_rules import PathRules

SUMS = (*MEASURES, *PARTS)
_NONE = -1
_JOIN = "\0"
"""Separator of a database and its table; names in a path do not contain it."""


def set_sums(image: ImageCounts, rules: PathRules) -> pa.Table:
    """Return `SUMS` of everything below the directories of each set: name. A directory may be in several sets."""
    rows = image.tree.rows_of(numbers(image.direct["parent"]))
    found = []
    for name, members in _members(image.tree, rules):
        chosen = image.direct.filter(pa.array(members[rows]))
        sums = grouped(chosen.append_column("name", pa.array([name] * chosen.num_rows, pa.string())), ("name",), SUMS)
        found.append(sums if sums.num_rows else pa.table({"name": [name], **dict.fromkeys(SUMS, pa.array([0]))}))
    return pa.concat_tables(found)


def set_sizes(image: ImageCounts, rules: PathRules) -> dict[str, dict[int, int]]:
    """Return the files of each set by size class; see `classes.SIZE_LABELS`."""
    sizes = image.tables["directory_sizes"]
    rows = image.tree.rows_of(numbers(sizes["parent"]))
    found = {}
    for name, members in _members(image.tree, rules):
        counted = grouped(sizes.filter(pa.array(members[rows])), ("size_class",), ("files",))
        found[name] = dict(zip(counted["size_class"].to_pylist(), counted["files"].to_pylist(), strict=True))
    return found


def _members(tree: DirectoryTree, rules: PathRules) -> list[tuple[str, Mask]]:
    """Return, for each set, a mask of the directories in the set or below a directory of the set."""
    paths = tree.rows["path"].combine_chunks()
    found = []
    for name, pattern in rules.sets:
        own = pc.match_substring_regex(paths, pattern).to_numpy(zero_copy_only=False)
        found.append((name, tree.inherit(np.where(own, 0, _NONE)) == 0))
    return found


def table_sums(image: ImageCounts, rules: PathRules) -> pa.Table:
    """Return `SUMS` of the tables of databases: database, table. Directories without a table have no row."""
    codes, names = _table_codes(image.tree, rules.tables)
    sums = _direct_sums(image, codes, len(names))
    columns = {"database": [database for database, _ in names], "table": [table for _, table in names]}
    return with_columns(pa.table({key: pa.array(value, pa.string()) for key, value in columns.items()}), sums)


def _table_codes(tree: DirectoryTree, tables: Sequence[tuple[str, str]]) -> tuple[Numbers, list[list[str]]]:
    """Return the position of each directory's table in the names (-1 for no table), and the names of the database and
    the table.
    """
    paths = tree.rows["path"].combine_chunks()
    named = np.full(tree.count, None, object)
    for pattern, name in reversed(tables):
        parts = name.split(".", 1)
        if "(?P<" in pattern:
            matches = pc.extract_regex(paths, pattern)
            rows = np.flatnonzero(matches.is_valid().to_numpy(zero_copy_only=False))
            found = matches.take(pa.array(rows)).to_pylist()
            values = [_JOIN.join(part.format_map(groups) for part in parts) for groups in found]
        else:
            rows = np.flatnonzero(pc.match_substring_regex(paths, pattern).to_numpy(zero_copy_only=False))
            values = [_JOIN.join(parts)] * rows.size
        named[rows] = values
    codes, names = codes_of(pa.array(named, pa.string()))
    known = names.is_valid().to_numpy(zero_copy_only=False)
    order = np.cumsum(known) - 1
    places = [name.split(_JOIN, 1) for name in names.drop_null().to_pylist()]
    return tree.inherit(np.where(known[codes], order[codes], _NONE)), places


def owned_subtrees(image: ImageCounts) -> pa.Table:
    """Return `SUMS` of the subtrees with one owner: path, owner.

    A subtree begins at a directory whose owner differs from the parent's owner, and ends where another subtree begins.
    """
    tree = image.tree
    owners, _ = codes_of(tree.rows["owner"])
    return _subtrees(image, "owner", (tree.above == _NONE) | (owners != owners[np.maximum(tree.above, 0)]))


def policy_subtrees(image: ImageCounts, policy: str) -> pa.Table:
    """Return `SUMS` of the subtrees of the directories on which a policy is set: path, and the policy.

    A subtree ends where another begins. Its files may have a different policy: a policy set on the file, or the policy
    at the file's creation.

    Args:
        policy: storage_policy or ec_policy.
    """
    return _subtrees(image, policy, image.tree.rows[policy].is_valid().to_numpy())


def _subtrees(image: ImageCounts, value: str, begins: Mask) -> pa.Table:
    """Return `SUMS` of the subtrees that begin at some directories, and end where another begins: path, `value`."""
    tree, roots = image.tree, np.flatnonzero(begins)
    own = np.full(tree.count, _NONE, np.int64)
    own[roots] = np.arange(roots.size)
    sums = _direct_sums(image, tree.inherit(own), roots.size)
    return with_columns(tree.rows.select(["path", value]).take(pa.array(roots)), sums)


def _direct_sums(image: ImageCounts, groups: Numbers, count: int) -> dict[str, Numbers]:
    """Return `SUMS` of the children of the directories in each of `count` groups; -1 means no group."""
    of_row = groups[image.tree.rows_of(numbers(image.direct["parent"]))]
    chosen = of_row != _NONE
    return {name: add_up(numbers(image.direct[name])[chosen], of_row[chosen], count) for name in SUMS}
