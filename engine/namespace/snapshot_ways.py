"""Ways through directories and their diffs to the inodes that one snapshot has diffs of."""

from __future__ import annotations

from engine.namespace.references import WithName
from engine.namespace.tree import ROOT_ROW, Tree
from image_format.inode_table import NO_ROW

Ways = dict[int, list[int | WithName]]
"""By row of a directory: what it has or had on the ways."""


def find_ways(tree: Tree, root: int, rows: list[int]) -> Ways | None:
    """Ways from `root`, whose snapshot is deleted, to `rows`: all that is not on them stays as it is.

    Returns:
        None where the ways are not known.
    """
    references, parents = tree.references, tree.table.parent
    waiting = list(rows)
    seen = set(waiting)
    ways: Ways = {}
    while waiting:
        row = waiting.pop()
        if row in (ROOT_ROW, root):
            # what is above is not looked at
            continue
        hub = references.hub(row)
        places: list[tuple[int, int | WithName]] = [(parents.item(row), row)]
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
