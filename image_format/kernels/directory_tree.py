"""Kernels for the directories of an image: the directory of each inode, and the path of each directory."""

from __future__ import annotations

from image_format.kernels.jit import kernel
from image_format.kernels.packed import find_slot
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, copy_bytes, next_field, read_varint, record_span

NOT_IN_TREE = -1
"""Path length of a directory outside the tree below the root."""
_UNKNOWN = -2
_WAITING = -3
_SLASH = 47


@kernel
def place_children(buf, rows, offsets, field, ids, slots, referred, parents):
    """Set `parents[slot]` of every child that the DirEntry records at `offsets` list in one field.

    Args:
        buf, rows: INODE_DIR, and the value to set for the children of each entry.
        field: tag of `children`, which are inode ids, or of `refChildren`, which are indices of the ids in `referred`.
        ids, slots: columns of `IndexArrays`.

    Returns:
        (index of the entry that could not be read, or -1; number of a missing reference in it, or -1 if the entry is
        damaged). Children without a record are skipped.
    """
    for k in range(offsets.size):
        pos, end = record_span(buf, offsets[k])
        if pos < 0:
            return k, -1
        while pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            if pos < 0:
                return k, -1
            while tag | DELIMITED == field and at < pos:
                child, at = read_varint(buf, at, pos)
                if at < 0:
                    return k, -1
                if field == DirEntry.refChildren:
                    if child < 0 or child >= referred.size:
                        return k, child
                    child = referred[child]
                slot = find_slot(ids, slots, child)
                if slot >= 0:
                    parents[slot] = rows[k]
    return -1, -1


@kernel
def directory_lengths(parents, name_sizes, root, lengths, order):
    """Compute the length of each directory's path without a trailing slash.

    Args:
        parents, name_sizes: row of the directory that contains each directory, or -1; size of each local name in bytes.
        root: row of the root, or -1 if there is no root.
        lengths: result: path lengths; `NOT_IN_TREE` if no path leads to the root.
        order: result: the rows, each after its parent.

    Returns:
        Row of a directory that contains itself, or -1 if no directory does.
    """
    lengths[:] = _UNKNOWN
    done = 0
    top = lengths.size
    for start in range(lengths.size):
        # The free end of `order` serves as a stack for the rows on the path to the root.
        row = start
        while row >= 0 and row != root and lengths[row] == _UNKNOWN:
            lengths[row] = _WAITING
            top -= 1
            order[top] = row
            row = parents[row]
        if row >= 0 and lengths[row] == _WAITING:
            return start
        if row == root and row >= 0 and lengths[row] == _UNKNOWN:
            lengths[row] = 0
            order[done] = row
            done += 1
        length = lengths[row] if row >= 0 else NOT_IN_TREE
        while top < lengths.size:
            row = order[top]
            top += 1
            if length != NOT_IN_TREE:
                length += 1 + name_sizes[row]
            lengths[row] = length
            order[done] = row
            done += 1
    return -1


@kernel
def add_upwards(parents, order, totals):
    """Add the totals of each directory to the totals of its parent, from the leaves up.

    Args:
        parents, order: see `directory_lengths`.
    """
    for k in range(order.size - 1, -1, -1):
        row = order[k]
        if parents[row] >= 0:
            for column in range(totals.shape[1]):
                totals[parents[row], column] += totals[row, column]


@kernel
def fill_directory_paths(buf, parents, name_starts, name_sizes, root, order, bounds, paths):
    """Write each directory's path between its `bounds` in `paths`; a directory without a path has empty bounds."""
    for k in range(order.size):
        row = order[k]
        if bounds[row + 1] == bounds[row] or row == root:
            continue
        above = parents[row]
        size = bounds[above + 1] - bounds[above]
        copy_bytes(paths, bounds[row], paths, bounds[above], size)
        pos = bounds[row] + size
        paths[pos] = _SLASH
        copy_bytes(paths, pos + 1, buf, name_starts[row], name_sizes[row])


@kernel
def fill_paths(buf, directories, bounds, paths, name_starts, name_sizes, starts, out):
    """Write the paths one after another: the directory's path, a slash and the name.

    Args:
        buf, name_starts, name_sizes: INODE, and the start and size of each name in it.
        directories: row of each inode's directory; -1 for the root itself.
        bounds, paths: bounds and bytes of the directories' paths.
    """
    pos = 0
    for k in range(name_starts.size):
        starts[k] = pos
        row = directories[k]
        if row >= 0:
            size = bounds[row + 1] - bounds[row]
            copy_bytes(out, pos, paths, bounds[row], size)
            pos += size
        out[pos] = _SLASH
        copy_bytes(out, pos + 1, buf, name_starts[k], name_sizes[k])
        pos += 1 + name_sizes[k]
    starts[name_starts.size] = pos


@kernel
def fill_names(buf, name_starts, name_sizes, starts, out):
    """Write the names one after another, as `fill_paths` writes paths."""
    pos = 0
    for k in range(name_starts.size):
        starts[k] = pos
        copy_bytes(out, pos, buf, name_starts[k], name_sizes[k])
        pos += name_sizes[k]
    starts[name_starts.size] = pos
