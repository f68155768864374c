"""Ways through directories and their diffs to the inodes that one snapshot has diffs of."""

from __future__ import annotations

from engine.namespace.history import History
from engine.namespace.references import WithName
from engine.namespace.tree import ROOT_ROW, Tree
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DROPPED

Ways = dict[int, list[int | WithName]]
"""By row of a directory: what it has or had on the ways."""


def find_ways(tree: Tree, history: History, snapshot_id: int) -> Ways | None:
    """Where the deletion of a snapshot has something to do: all that is not on these ways would stay as it is.

    Returns:
        None where the ways are not known, or where a NameNode may trip over something beside them.
    """
    if history.may_be_inconsistent:
        return None
    table, references = tree.table, tree.references
    waiting = [row for row in history.rows_with_diffs(snapshot_id) if not table.flags[row] & DROPPED]
    seen = set(waiting)
    ways: Ways = {}
    while waiting:
        row = waiting.pop()
        if row == ROOT_ROW:
            continue
        hub = references.hub(row)
        places: list[tuple[int, int | WithName]] = [(int(table.parent[row]), row)]
        if hub is not None:
            places += [(named.parent, named) for named in hub.with_names]
        for directory, node in places:
            if directory == NO_ROW:
                return None
            ways.setdefault(directory, []).append(node)
            if directory not in seen:
                seen.add(directory)
                waiting.append(directory)
    return ways
