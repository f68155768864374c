"""Look-up of paths for kernels, as `Tree` does it: links first, then the base image.

A directory that a path leads to is kept in a table by the path's hash, one entry a place, the newest wins. An entry
holds while all of these do, and is looked up anew otherwise:

    same bytes   the path in the segment is the one that was looked up, not only its hash.
    same era     Python changed no directory since, and it is the same segment; else `ERA` was raised.
    same place   neither the directory nor one above it lost its place since. `DIRECTORIES_MOVED` counts those that
                 did, and each row has the count at which it did.

A directory that comes into being does not end an entry: a path that leads nowhere is not kept.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import NO_ENTRY, base_child, base_offset, open_directory, slot_near, slot_of
from engine.replay.kernels.features import features_mark
from engine.replay.kernels.state import (
    ABSENT,
    AGAIN,
    BLOCKS_USED,
    DIRECTORIES_MOVED,
    DONE,
    ERA,
    FEATURES_READ,
    INSIDE,
    LATEST,
    LINKS_USED,
    NAMES_USED,
    OPENED_USED,
    ROWS_USED,
    SNAPSHOTS_PLAIN,
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
LONGEST_NAME = 0xFFFF
_LATER = 16


@step
def has_room(a, rows, links, names, blocks):
    """Whether so much can be added; a fourth of the places in the hash tables stays free."""
    n = a
    count = n[ROWS_USED] + rows
    linked = n[LINKS_USED] + links
    return (
        count <= rows_of(a).size
        and count * 4 <= ids_of(a).shape[0] * 3
        and linked <= links_of(a).size
        and linked * 4 <= link_slots_of(a).size * 3
        and n[NAMES_USED] + names <= names_of(a).size
        and n[BLOCKS_USED] + blocks <= blocks_of(a).size
    )


@step
def is_new_id(a, inode_id):
    """Whether no inode has or had this id; where ids follow each other, one of the next is asked for."""
    prefetch(ids_of(a), np.int64(place_of_number(ids_of(a), inode_id + _LATER)))
    return find_number(ids_of(a), inode_id) == UNKNOWN and slot_of(a, inode_id) < 0


@step
def load(a, inode_id, near):
    """Row of an inode of the base image, decoded if need be; `UNUSUAL` where it is gone, and as `features_mark` says.

    Args:
        near: the slot where it most likely is.
    """
    known = find_number(ids_of(a), inode_id)
    if known != UNKNOWN:
        return known
    slot = slot_near(a, inode_id, near)
    if slot < 0 or dropped_of(a)[slot]:
        return np.int64(UNUSUAL)
    offset = base_offset(a, slot)
    length, _ = read_varint(inodes_of(a), offset, inodes_of(a).size)
    # A name and blocks are never longer than the record that holds them.
    if not has_room(a, 1, 0, length, length // _SMALLEST_BLOCK + 1):
        return np.int64(AGAIN)
    n = a
    row = n[ROWS_USED]
    names_used, blocks_used, flags = decode_inode(
        inodes_of(a), offset, rows_of(a), row, names_of(a), n[NAMES_USED], blocks_of(a), n[BLOCKS_USED]
    )
    if flags < 0:
        return np.int64(UNUSUAL)
    if flags & FEATURES:
        mark = features_mark(inodes_of(a), offset)
        if mark < 0:
            return np.int64(UNUSUAL)
        rows_of(a)[row]["marks"] = mark
        n[FEATURES_READ] += 1
    if flags & UNDER_CONSTRUCTION:
        read = read_client(a, offset, rows_of(a)[row])
        if read != DONE:
            return np.int64(read)
        if find_id(leased_ids_of(a), inode_id) >= 0:
            rows_of(a)[row]["marks"] |= LEASED
    n[NAMES_USED] = names_used
    n[BLOCKS_USED] = blocks_used
    n[ROWS_USED] = row + 1
    rows_of(a)[row]["slot"] = slot
    if special_ids_of(a).size and find_id(special_ids_of(a), inode_id) >= 0:
        rows_of(a)[row]["marks"] |= SPECIAL
    put_number(ids_of(a), inode_id, row)
    return row


@step
def is_ancestor(rows, ancestor, row):
    """Whether `row` is `ancestor` or lies below it."""
    while row != ancestor and row > _ROOT_ROW:
        row = rows[row]["parent"]
    return row == ancestor


# ---- paths ---------------------------------------------------------------------------------------------------


@step
def add_link(a, directory, row, offset, size, hashed):
    """A link that is not there yet, with its name at `offset` of the arena; there is room. Returns its number."""
    number = a[LINKS_USED]
    a[LINKS_USED] = number + 1
    link = links_of(a)[number]
    holder = rows_of(a)[directory]
    link["name_offset"] = offset
    link["directory"] = directory
    link["row"] = row
    link["next"] = holder["first_link"]
    link["name_length"] = size
    link["changed"] = 0
    holder["first_link"] = number + 1
    put_link(link_slots_of(a), hashed, number)
    return number


@step
def link_of(a, row):
    """Number of the link that leads to an inode from its directory."""
    entry = rows_of(a)[row]
    directory = np.int64(entry["parent"])
    start, size = entry["name_offset"], np.int64(entry["name_length"])
    hashed = hash_name(directory, names_of(a), start, size)
    return find_link(link_slots_of(a), links_of(a), names_of(a), hashed, directory, names_of(a), start, size)


@step
def child(a, directory, buf, start, size, hashed):
    """Row of a child, `ABSENT`, `UNUSUAL` (whatever snapshots know, too) or `AGAIN`; see `any_child`."""
    row = any_child(a, directory, buf, start, size, hashed)
    return row if row < 0 or rows_of(a)[row]["marks"] & SPECIAL == 0 else np.int64(UNUSUAL)


@step
def any_child(a, directory, buf, start, size, hashed):
    """Row of a child, `ABSENT`, `UNUSUAL` or `AGAIN`.

    Args:
        directory: row of a directory.
        buf, start, size: the name; hashed: its `hash_name`.
    """
    number = find_link(link_slots_of(a), links_of(a), names_of(a), hashed, directory, buf, start, size)
    if number >= 0:
        return np.int64(links_of(a)[number]["row"])
    holder = rows_of(a)[directory]
    if holder["slot"] < 0:
        return np.int64(ABSENT)
    if holder["entry"] == 0:
        if a[OPENED_USED] == opened_of(a).shape[0]:
            return np.int64(AGAIN)
        open_directory(a, directory)
    entry = holder["entry"]
    if entry < 0:
        return np.int64(ABSENT if entry == NO_ENTRY else UNUSUAL)
    inode_id, slot = base_child(a, directory, buf, start, size)
    if inode_id <= 0:
        return np.int64(ABSENT if inode_id == 0 else inode_id)
    if size > LONGEST_NAME:
        return np.int64(UNUSUAL)
    if not has_room(a, 0, 1, 0, 0):
        return np.int64(AGAIN)
    row = load(a, inode_id, slot)
    if row < 0:
        return row
    found = rows_of(a)[row]
    held = found["parent"]
    if (held != -1 and held != directory) or (found["kind"] == DIRECTORY and is_ancestor(rows_of(a), row, directory)):
        return np.int64(UNUSUAL)
    found["parent"] = directory
    add_link(a, directory, row, found["name_offset"], size, hashed)
    return row


@step
def last_slash(buf, start, end):
    """Position of the last slash of a path."""
    pos = end - 1
    while buf[pos] != _SLASH:
        pos -= 1
    return pos


@step
def look_into(a, row):
    """A path leads through a directory: whether its diffs are known, and `LATEST` and `INSIDE` take them up."""
    entry = rows_of(a)[row]
    if entry["marks"] & SPECIAL:
        if entry["newest"] == 0 or not a[SNAPSHOTS_PLAIN]:
            return False
        if entry["newest"] > a[LATEST]:
            a[LATEST] = entry["newest"]
            a[INSIDE] = 1
    return True


@step
def _look_below(a, directory, row):
    """`look_into` the child of a directory, which may have come after the newest snapshot."""
    if a[INSIDE] and rows_of(a)[directory]["newest"] == a[LATEST] and born(a, directory, row) >= a[LATEST]:
        a[INSIDE] = 0
    return look_into(a, row)


@step
def born(a, directory, row):
    """`born` of a child of a directory whose diffs are known."""
    entry = rows_of(a)[row]
    if entry["born"] == 0:
        offset, size = entry["name_offset"], np.int64(entry["name_length"])
        hashed = hash_name(directory, names_of(a), offset, size)
        items = early_of(a)
        number = find_link(early_slots_of(a), items, early_arena_of(a), hashed, directory, names_of(a), offset, size)
        entry["born"] = items[number]["row"] if number >= 0 else -1
    return entry["born"]


@step
def _stayed(rows, row, moved):
    """Whether neither a directory nor one above it lost its place after so many had."""
    while row > _ROOT_ROW and rows[row]["moved"] <= moved:
        row = rows[row]["parent"]
    return row == _ROOT_ROW


@step
def _known(a, buf, start, stop):
    """Row of the directory `buf[start:stop]` where it is in the table of paths, else `ABSENT`; see `parent_of`."""
    size = stop - start
    hashed = hash_bytes(np.uint64(size), buf, start, size)
    cached = paths_of(a)[hashed & np.uint64(paths_of(a).size - 1)]
    if (
        cached["hashed"] == hashed
        and cached["era"] == a[ERA]
        and cached["size"] == size
        and same_bytes(buf, cached["at"], buf, start, size)
        and (cached["moved"] == a[DIRECTORIES_MOVED] or _stayed(rows_of(a), cached["row"], cached["moved"]))
    ):
        cached["moved"] = a[DIRECTORIES_MOVED]
        # Of two places, the one that was read last is nearer.
        cached["at"] = start
        a[LATEST] = cached["latest"]
        a[INSIDE] = cached["inside"]
        return cached["row"]
    return np.int64(ABSENT)


@step
def _remember(a, buf, start, stop, row):
    """The directory `buf[start:stop]` goes into the table of paths."""
    size = stop - start
    hashed = hash_bytes(np.uint64(size), buf, start, size)
    cached = paths_of(a)[hashed & np.uint64(paths_of(a).size - 1)]
    cached["hashed"] = hashed
    cached["at"] = start
    cached["era"] = a[ERA]
    cached["moved"] = a[DIRECTORIES_MOVED]
    cached["row"] = row
    cached["size"] = size
    cached["latest"] = a[LATEST]
    cached["inside"] = a[INSIDE]


@step
def parent_of(a, buf, start, slash):
    """Row of the directory `buf[start:slash]`, `ABSENT`, `UNUSUAL` or `AGAIN`; of a file, too, that stands there.

    A path that leads through a file or a symbolic link is `UNUSUAL`.

    `LATEST` and `INSIDE` tell what snapshots have of it.
    """
    a[LATEST] = 0
    a[INSIDE] = 0
    if not look_into(a, _ROOT_ROW):
        return np.int64(UNUSUAL)
    # from the nearest directory above it that is known
    row = np.int64(ABSENT)
    stop = np.int64(slash)
    while stop > start:
        row = _known(a, buf, start, stop)
        if row != ABSENT:
            break
        stop = last_slash(buf, start, stop)
    if stop == start:
        row = np.int64(_ROOT_ROW)
    while stop < slash:
        pos = stop + 1
        stop = pos
        while stop < slash and buf[stop] != _SLASH:
            stop += 1
        if rows_of(a)[row]["kind"] != DIRECTORY:
            return np.int64(UNUSUAL)
        directory = row
        row = any_child(a, directory, buf, pos, stop - pos, hash_name(directory, buf, pos, stop - pos))
        if row < 0:
            return row
        if not _look_below(a, directory, row):
            return np.int64(UNUSUAL)
        if rows_of(a)[row]["kind"] == DIRECTORY:
            _remember(a, buf, start, stop, row)
    return row
