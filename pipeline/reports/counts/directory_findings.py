"""Directories of an image that need attention: empty, temporary, nearly full, or world-writable."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.grouping import Mask, Numbers, add_up, more_than_none, numbers, with_columns
from pipeline.reports.counts.namespace import EVERYBODY_WRITES, MEASURES, STICKY
from pipeline.reports.counts.tree import DirectoryTree, ImageCounts

TEMPORARY = (".Trash", ".staging", ".sparkStaging", "_temporary")
"""Names of directories for short-lived data; TrashPolicyDefault, MRJobConfig, Spark's ApplicationMaster and
FileOutputCommitter use these names.
"""

_NONE = -1


def empty_directories(image: ImageCounts) -> Mask:
    """Return whether each directory of the tree, except the root, has no children."""
    empty: Mask = (image.whole_trees["names"] == 0) & (image.tree.above != _NONE)
    return empty


def with_empty(image: ImageCounts) -> pa.Table:
    """Return the directories with empty children: path, empty_files, empty_directories, empty (both)."""
    tree, empty = image.tree, empty_directories(image)
    above = tree.above[empty]
    found = {
        "empty_files": _empty_files(image),
        "empty_directories": add_up(np.ones(above.size, np.int64), above, tree.count),
    }
    found["empty"] = found["empty_files"] + found["empty_directories"]
    return more_than_none(with_columns(tree.rows.select(["path"]), found), "empty")


def temporary_trees(image: ImageCounts) -> pa.Table:
    """Return the directories whose name is in `TEMPORARY`: path, name, owner, and `MEASURES` and `names` below.

    A temporary tree below another temporary tree counts as a part of the upper tree.
    """
    tree = image.tree
    own = _temporary_names(tree)
    inherited = tree.inherit(own)
    outer = np.where(tree.above == _NONE, _NONE, inherited[tree.above])
    names = pa.array(TEMPORARY).take(pa.array(own, mask=own == _NONE))
    rows = tree.rows.select(["path", "owner"]).append_column("name", names)
    sums = {name: image.whole_trees[name] for name in (*MEASURES, "names")}
    return with_columns(rows, sums).filter(pa.array((own != _NONE) & (outer == _NONE)))


def _temporary_names(tree: DirectoryTree) -> Numbers:
    """Return the position in `TEMPORARY` of each directory's name, or -1 for another name."""
    found = np.full(tree.count, _NONE, np.int64)
    for position, name in enumerate(TEMPORARY):
        found[pc.ends_with(tree.rows["path"], f"/{name}").to_numpy()] = position
    return found


def children(image: ImageCounts) -> pa.Table:
    """Return the number of children of each directory with children: path, children."""
    rows = image.by_directory
    total = numbers(rows["files"]) + numbers(rows["directories"]) + numbers(rows["symlinks"])
    return with_columns(rows.select(["path"]), {"children": total})


def near_limit(rows: pa.Table, limit: int) -> dict[str, int]:
    """Return the numbers of directories with at least 90 per cent of the children that a NameNode allows, and with 100
    per cent.

    Args:
        rows: rows of `children`.
        limit: dfs.namenode.fs-limits.max-directory-items.
    """
    found = numbers(rows["children"])
    near = {"near_limit": int((found * 10 >= limit * 9).sum()), "at_limit": int((found >= limit).sum())}
    return {**near, "most_children": int(found.max(initial=0))}


def writable_by_everybody(image: ImageCounts) -> pa.Table:
    """Return the world-writable directories: path, owner, permission, sticky (0 or 1), and `names` below.

    With the sticky bit, only owners can delete and rename the children.
    """
    tree = image.tree
    mode = numbers(tree.rows["permission"])
    sums = {"sticky": (mode & STICKY > 0).astype(np.int64), "names": image.whole_trees["names"]}
    rows = with_columns(tree.rows.select(["path", "owner", "permission"]), sums)
    return rows.filter(pa.array(mode & EVERYBODY_WRITES > 0))


def _empty_files(image: ImageCounts) -> Numbers:
    """Return the number of empty files in each directory."""
    rows = image.tree.rows_of(numbers(image.direct["parent"]))
    return add_up(numbers(image.direct["empty_files"]), rows, image.tree.count)
