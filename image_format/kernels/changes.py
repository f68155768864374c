"""Rows and names that differ from the base image, collected into arrays of the caller.

A backlog of edits can change more inodes than the memory limit allows. Therefore, the changes are counted first, so
that the caller's allocator can place the arrays in files. No kernel sorts: one pass over the tables produces the order.
"""

from __future__ import annotations

from image_format.kernels.inode import DIRTY, DROPPED
from image_format.kernels.jit import lean_kernel


@lean_kernel
def count_dirty(rows, count):
    """Return the numbers of changed base inodes and of new inodes to write, among the first `count` rows."""
    old = new = 0
    for i in range(count):
        if rows[i]["flags"] & (DIRTY | DROPPED) == DIRTY:
            if rows[i]["slot"] >= 0:
                old += 1
            else:
                new += 1
    return old, new


@lean_kernel
def list_dirty(rows, count, old, new):
    """Fill `old` and `new` with the rows that `count_dirty` counts.

    Returns:
        Whether the slots of `old` ascend, and whether the ids of `new` ascend.
    """
    olds = news = 0
    old_slot = new_id = -1
    old_ascend = new_ascend = True
    for i in range(count):
        row = rows[i]
        if row["flags"] & (DIRTY | DROPPED) != DIRTY:
            continue
        if row["slot"] >= 0:
            old[olds] = i
            olds += 1
            old_ascend &= row["slot"] > old_slot
            old_slot = row["slot"]
        else:
            new[news] = i
            news += 1
            new_ascend &= row["id"] > new_id
            new_id = row["id"]
    return old_ascend, new_ascend


@lean_kernel
def count_changed_names(links, count, rows, starts):
    """Count the changed names of each directory that still exists.

    Args:
        links: the first `count` are used.
        starts: zeros, one item per row; result: the number of changed names in the directory of the row.

    Returns:
        Number of directories with changed names, and number of these names.
    """
    directories = names = 0
    for i in range(count):
        directory = links[i]["directory"]
        if links[i]["changed"] and rows[directory]["flags"] & DROPPED == 0:
            directories += starts[directory] == 0
            starts[directory] += 1
            names += 1
    return directories, names


@lean_kernel
def list_changed_names(links, count, rows, starts, directories, bounds, spans, holders):
    """Fill the fields of `engine.namespace.links.ChangedNames`; names of one directory keep the order of their links.

    Args:
        starts: result of `count_changed_names`; afterwards, the end of the names of each directory.
    """
    used = total = 0
    for row in range(starts.size):
        if starts[row]:
            directories[used] = row
            bounds[used] = total
            used += 1
            size = starts[row]
            starts[row] = total
            total += size
    bounds[used] = total
    for i in range(count):
        link = links[i]
        directory = link["directory"]
        if link["changed"] and rows[directory]["flags"] & DROPPED == 0:
            place = starts[directory]
            starts[directory] += 1
            spans[place, 0] = link["name_offset"]
            spans[place, 1] = link["name_length"]
            holders[place] = link["row"]
