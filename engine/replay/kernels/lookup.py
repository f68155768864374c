"""Path look-up for kernels, in the same order as `Tree`: links first, then the base image.

Kernels cache the directory of a path in a table by the path's hash, with one entry per place; a new entry replaces the
old entry. An entry is valid while all of these conditions are met; otherwise, the directory is looked up again:

    same bytes   the path in the segment equals the cached path, not only its hash.
    same era     the segment is the same, and Python has not changed a directory. A change of a directory by Python
                 increments `era` of the state.
    same place   neither the directory nor an ancestor was moved or deleted. `directories_moved` of the state counts
                 moved and deleted directories; each row records the count at its last move.

A new directory does not invalidate an entry, because missing paths are not cached.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import NO_ENTRY, base_child, base_offset, open_directory, slot_near, slot_of
from engine.replay.kernels.features import features_mark
from engine.replay.kernels.state import (
    ABSENT,
    AGAIN,
    DONE,
    UNUSUAL,
    blocks_of,
    dropped_of,
    early_arena_of,
    early_of,
    early_slots_of,
    ids_of,
    inodes_of,
    leased_ids_of,
    link_slots_of,
    links_of,
    names_of,
    opened_of,
    paths_of,
    rows_of,
    special_ids_of,
)
from engine.replay.kernels.strings import read_client
from image_format.kernels.inode import DIRECTORY, FEATURES, LEASED, SPECIAL, UNDER_CONSTRUCTION, decode_inode
from image_format.kernels.jit import step
from image_format.kernels.prefetch import prefetch
from image_format.kernels.scan import find_id
from image_format.kernels.tables import (
    UNKNOWN,
    find_link,
    find_number,
    hash_bytes,
    hash_name,
    place_of_number,
    put_link,
    put_number,
    same_bytes,
)
from image_format.kernels.wire import read_varint

_ROOT_ROW = 0
_SLASH = 47
_SMALLEST_BLOCK = 6
MAX_NAME_BYTES = 0xFFFF
_LATER = 16


@step
def has_room(state, rows, links, names, blocks):
    """Return whether the tables have space for this many more elements; a quarter of each hash table stays free."""
    count = state.rows_used + rows
    linked = state.links_used + links
    return (
        count <= rows_of(state).size
        and count * 4 <= ids_of(state).shape[0] * 3
        and linked <= links_of(state).size
        and linked * 4 <= link_slots_of(state).size * 3
        and state.names_used + names <= names_of(state).size
        and state.blocks_used + blocks <= blocks_of(state).size
    )


@step
def is_new_id(state, inode_id):
    """Return whether no inode has or had this id; prefetch a later id, because ids are often consecutive."""
    prefetch(ids_of(state), np.int64(place_of_number(ids_of(state), inode_id + _LATER)))
    return find_number(ids_of(state), inode_id) == UNKNOWN and slot_of(state, inode_id) < 0


@step
def load(state, inode_id, near):
    """Return the row of an inode of the base image, decoded if necessary, or `UNUSUAL` or `AGAIN`.

    The result is `UNUSUAL` for a missing or deleted inode, and for a record that only Python can decode.

    Args:
        near: most likely slot of the inode.
    """
    known = find_number(ids_of(state), inode_id)
    if known != UNKNOWN:
        return known
    slot = slot_near(state, inode_id, near)
    if slot < 0 or dropped_of(state)[slot]:
        return np.int64(UNUSUAL)
    offset = base_offset(state, slot)
    length, _ = read_varint(inodes_of(state), offset, inodes_of(state).size)
    # A record is never shorter than its name and blocks.
    if not has_room(state, 1, 0, length, length // _SMALLEST_BLOCK + 1):
        return np.int64(AGAIN)
    row = state.rows_used
    names_used, blocks_used, flags = decode_inode(
        inodes_of(state),
        offset,
        rows_of(state),
        row,
        names_of(state),
        state.names_used,
        blocks_of(state),
        state.blocks_used,
    )
    if flags < 0:
        return np.int64(UNUSUAL)
    if flags & FEATURES:
        mark = features_mark(inodes_of(state), offset)
        if mark < 0:
            return np.int64(UNUSUAL)
        rows_of(state)[row]["marks"] = mark
        state.features_read += 1
    if flags & UNDER_CONSTRUCTION:
        read = read_client(state, offset, rows_of(state)[row])
        if read != DONE:
            return np.int64(read)
        if find_id(leased_ids_of(state), inode_id) >= 0:
            rows_of(state)[row]["marks"] |= LEASED
    state.names_used = names_used
    state.blocks_used = blocks_used
    state.rows_used = row + 1
    rows_of(state)[row]["slot"] = slot
    if special_ids_of(state).size and find_id(special_ids_of(state), inode_id) >= 0:
        rows_of(state)[row]["marks"] |= SPECIAL
    put_number(ids_of(state), inode_id, row)
    return row


@step
def is_ancestor(rows, ancestor, row):
    """Return whether `row` is `ancestor` or is below it."""
    while row != ancestor and row > _ROOT_ROW:
        row = rows[row]["parent"]
    return row == ancestor


# ---- paths ---------------------------------------------------------------------------------------------------


@step
def add_link(state, directory, row, offset, size, hashed):
    """Add a link with its name at `offset` of the arena, and return its number; the tables must have space."""
    number = state.links_used
    state.links_used = number + 1
    link = links_of(state)[number]
    holder = rows_of(state)[directory]
    link["name_offset"] = offset
    link["directory"] = directory
    link["row"] = row
    link["next"] = holder["first_link"]
    link["name_length"] = size
    link["changed"] = 0
    holder["first_link"] = number + 1
    put_link(link_slots_of(state), hashed, number)
    return number


@step
def link_of(state, row):
    """Return the number of the link to an inode from its directory."""
    entry = rows_of(state)[row]
    directory = np.int64(entry["parent"])
    start, size = entry["name_offset"], np.int64(entry["name_length"])
    hashed = hash_name(directory, names_of(state), start, size)
    return find_link(
        link_slots_of(state), links_of(state), names_of(state), hashed, directory, names_of(state), start, size
    )


@step
def child(state, directory, buf, start, size, hashed):
    """Return the row of a child as `any_child` does, but `UNUSUAL` for a child in snapshots."""
    row = any_child(state, directory, buf, start, size, hashed)
    return row if row < 0 or rows_of(state)[row]["marks"] & SPECIAL == 0 else np.int64(UNUSUAL)


@step
def any_child(state, directory, buf, start, size, hashed):
    """Return the row of a child, `ABSENT`, `UNUSUAL` or `AGAIN`.

    Args:
        directory: row of a directory.
        buf, start, size: the name; hashed: its `hash_name`.
    """
    number = find_link(link_slots_of(state), links_of(state), names_of(state), hashed, directory, buf, start, size)
    if number >= 0:
        return np.int64(links_of(state)[number]["row"])
    holder = rows_of(state)[directory]
    if holder["slot"] < 0:
        return np.int64(ABSENT)
    if holder["entry"] == 0:
        if state.opened_used == opened_of(state).shape[0]:
            return np.int64(AGAIN)
        open_directory(state, directory)
    entry = holder["entry"]
    if entry < 0:
        return np.int64(ABSENT if entry == NO_ENTRY else UNUSUAL)
    inode_id, slot = base_child(state, directory, buf, start, size)
    if inode_id <= 0:
        return np.int64(ABSENT if inode_id == 0 else inode_id)
    if size > MAX_NAME_BYTES:
        return np.int64(UNUSUAL)
    if not has_room(state, 0, 1, 0, 0):
        return np.int64(AGAIN)
    row = load(state, inode_id, slot)
    if row < 0:
        return row
    found = rows_of(state)[row]
    held = found["parent"]
    if (held != -1 and held != directory) or (
        found["kind"] == DIRECTORY and is_ancestor(rows_of(state), row, directory)
    ):
        return np.int64(UNUSUAL)
    found["parent"] = directory
    found["base_parent"] = directory
    add_link(state, directory, row, found["name_offset"], size, hashed)
    return row


@step
def last_slash(buf, start, end):
    """Return the position of the last slash of a path."""
    pos = end - 1
    while buf[pos] != _SLASH:
        pos -= 1
    return pos


@step
def name_end(buf, pos, end):
    """Return the end of the name that begins at `pos` of a path."""
    while pos < end and buf[pos] != _SLASH:
        pos += 1
    return pos


@step
def look_into(state, row):
    """Update `latest` and `inside` for a directory on a path; return whether the directory's diffs are known."""
    entry = rows_of(state)[row]
    if entry["marks"] & SPECIAL:
        if entry["newest"] == 0 or not state.snapshots_plain:
            return False
        if entry["newest"] > state.latest:
            state.latest = entry["newest"]
            state.inside = 1
    return True


@step
def _look_below(state, directory, row):
    """Apply `look_into` to a directory's child, which may have been created after the newest snapshot."""
    if (
        state.inside
        and rows_of(state)[directory]["newest"] == state.latest
        and born(state, directory, row) >= state.latest
    ):
        state.inside = 0
    return look_into(state, row)


@step
def born(state, directory, row):
    """Return `born` of a child of a directory whose diffs are known."""
    entry = rows_of(state)[row]
    if entry["born"] == 0:
        offset, size = entry["name_offset"], np.int64(entry["name_length"])
        hashed = hash_name(directory, names_of(state), offset, size)
        items = early_of(state)
        number = find_link(
            early_slots_of(state), items, early_arena_of(state), hashed, directory, names_of(state), offset, size
        )
        entry["born"] = items[number]["row"] if number >= 0 else -1
    return entry["born"]


@step
def _stayed(rows, row, moved):
    """Return whether neither a directory nor an ancestor was moved or deleted since the counter was `moved`."""
    while row > _ROOT_ROW and rows[row]["moved"] <= moved:
        row = rows[row]["parent"]
    return row == _ROOT_ROW


@step
def _known(state, buf, start, stop):
    """Return the row of the directory `buf[start:stop]` from the table of paths, or `ABSENT`; see `parent_of`."""
    size = stop - start
    hashed = hash_bytes(np.uint64(size), buf, start, size)
    cached = paths_of(state)[hashed & np.uint64(paths_of(state).size - 1)]
    if (
        cached["hashed"] == hashed
        and cached["era"] == state.era
        and cached["size"] == size
        and same_bytes(buf, cached["at"], buf, start, size)
        and (cached["moved"] == state.directories_moved or _stayed(rows_of(state), cached["row"], cached["moved"]))
    ):
        cached["moved"] = state.directories_moved
        # The most recently read place is the most likely to be in the CPU cache.
        cached["at"] = start
        state.latest = cached["latest"]
        state.inside = cached["inside"]
        return cached["row"]
    return np.int64(ABSENT)


@step
def _remember(state, buf, start, stop, row):
    """Put the directory `buf[start:stop]` into the table of paths."""
    size = stop - start
    hashed = hash_bytes(np.uint64(size), buf, start, size)
    cached = paths_of(state)[hashed & np.uint64(paths_of(state).size - 1)]
    cached["hashed"] = hashed
    cached["at"] = start
    cached["era"] = state.era
    cached["moved"] = state.directories_moved
    cached["row"] = row
    cached["size"] = size
    cached["latest"] = state.latest
    cached["inside"] = state.inside


@step
def parent_of(state, buf, start, slash):
    """Return the row of the directory or file `buf[start:slash]`, `ABSENT`, `UNUSUAL` or `AGAIN`.

    A path that leads through a file or a symbolic link is `UNUSUAL`. `latest` and `inside` of the state identify the
    snapshot that contains the directory.
    """
    state.latest = 0
    state.inside = 0
    if not look_into(state, _ROOT_ROW):
        return np.int64(UNUSUAL)
    # start at the nearest cached ancestor
    row = np.int64(ABSENT)
    stop = np.int64(slash)
    while stop > start:
        row = _known(state, buf, start, stop)
        if row != ABSENT:
            break
        stop = last_slash(buf, start, stop)
    if stop == start:
        row = np.int64(_ROOT_ROW)
    while stop < slash:
        pos = stop + 1
        stop = name_end(buf, pos, slash)
        if rows_of(state)[row]["kind"] != DIRECTORY:
            return np.int64(UNUSUAL)
        directory = row
        row = any_child(state, directory, buf, pos, stop - pos, hash_name(directory, buf, pos, stop - pos))
        if row < 0:
            return row
        if not _look_below(state, directory, row):
            return np.int64(UNUSUAL)
        if rows_of(state)[row]["kind"] == DIRECTORY:
            _remember(state, buf, start, stop, row)
    return row
