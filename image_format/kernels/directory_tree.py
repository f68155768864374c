"""Kernels for the directories of an image: which one each inode is in, and the path of each."""

from __future__ import annotations

from image_format.kernels.jit import kernel
from image_format.kernels.packed import find_slot
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, read_varint, skip_field

NOT_IN_TREE = -1
"""Length of the path of a directory that the root does not lead to."""
_UNKNOWN = -2
_WAITING = -3
_SLASH = 47


@kernel
def place_children(buf, rows, offsets, field, ids, slots, referred, parents):
    """Set `parents[slot]` of every child that the DirEntry records at `offsets` list in one of their fields.

    Args:
        buf: INODE_DIR; rows: what to set for the children of each entry.
        field: tag of children, ids of inodes, or of refChildren, numbers of `referred`, which has the ids.
        ids, slots: of `IndexArrays`.

    Returns:
        (index of the entry that could not be read, -1 for none; number of a reference that does not exist there,
        -1 where the entry is damaged). Children without a record are passed over.
    """
    for k in range(offsets.size):
        length, pos = read_varint(buf, offsets[k], buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return k, -1
        end = pos + length
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            if pos < 0:
                return k, -1
            stop = skip_field(buf, pos, end, tag)
            if stop < 0:
                return k, -1
            if tag | DELIMITED == field:
                if tag == field:
                    _, pos = read_varint(buf, pos, end)
                while pos < stop:
                    child, pos = read_varint(buf, pos, stop)
                    if pos < 0:
                        return k, -1
                    if field == DirEntry.refChildren:
                        if child < 0 or child >= referred.size:
                            return k, child
                        child = referred[child]
                    slot = find_slot(ids, slots, child)
                    if slot >= 0:
                        parents[slot] = rows[k]
            pos = stop
    return -1, -1


@kernel
def directory_lengths(parents, name_sizes, root, lengths, order):
    """Length of each directory's path without a slash at its end.

    Args:
        parents: row of the directory that each is in, -1 for none; name_sizes: bytes of each local name.
        root: row of the root, -1 for none.
        lengths: result; `NOT_IN_TREE` where no path leads to the root.
        order: result: the rows, each behind the directory it is in.

    Returns:
        Row of a directory that contains itself, -1 for none.
    """
    lengths[:] = _UNKNOWN
    done = 0
    top = lengths.size
    for start in range(lengths.size):
        # The rows on the way up wait at the end of `order`, which is free as long as they are not done.
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
    """Add the row of each directory in `totals` to that of the one it is in, from the leaves up.

    Args:
        parents: as `directory_lengths` takes them; order: as it gave them.
    """
    for k in range(order.size - 1, -1, -1):
        row = order[k]
        if parents[row] >= 0:
            for column in range(totals.shape[1]):
                totals[parents[row], column] += totals[row, column]


@kernel
def fill_directory_paths(buf, parents, name_starts, name_sizes, root, order, bounds, paths):
    """Write each directory's path between its `bounds` in `paths`; those without one have no room there."""
    for k in range(order.size):
        row = order[k]
        if bounds[row + 1] == bounds[row] or row == root:
            continue
        pos = bounds[row]
        above = parents[row]
        size = bounds[above + 1] - bounds[above]
        start = bounds[above]
        for i in range(size):
            paths[pos + i] = paths[start + i]
        pos += size
        paths[pos] = _SLASH
        start = name_starts[row]
        for i in range(name_sizes[row]):
            paths[pos + 1 + i] = buf[start + i]


@kernel
def fill_paths(buf, directories, bounds, paths, name_starts, name_sizes, starts, out):
    """Write path after path: the directory's, a slash and the name.

    Args:
        buf: INODE; name_starts, name_sizes: of each name in it.
        directories: row of each one's directory, -1 for the root itself; bounds, paths: of the directories' paths.
        starts: one more than names: result, where each path starts in `out`.
    """
    pos = 0
    for k in range(name_starts.size):
        starts[k] = pos
        row = directories[k]
        if row >= 0:
            start = bounds[row]
            size = bounds[row + 1] - start
            for i in range(size):
                out[pos + i] = paths[start + i]
            pos += size
        out[pos] = _SLASH
        pos += 1
        start = name_starts[k]
        for i in range(name_sizes[k]):
            out[pos + i] = buf[start + i]
        pos += name_sizes[k]
    starts[name_starts.size] = pos


@kernel
def fill_names(buf, name_starts, name_sizes, starts, out):
    """Write name after name, as `fill_paths` does with paths."""
    pos = 0
    for k in range(name_starts.size):
        starts[k] = pos
        start = name_starts[k]
        for i in range(name_sizes[k]):
            out[pos + i] = buf[start + i]
        pos += name_sizes[k]
    starts[name_starts.size] = pos
