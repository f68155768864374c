"""Asks for the memory that the next operations will read, so that the replay does not wait for place after place.

An operation on a file that nobody touched lately reads a dozen places of the base image and of the delta, each of which
says where the next one is. The replay of one operation would wait for all of them. Here the paths of the next
operations go through stages: each reads what the stage before it has asked for, and asks for the next place. Between
two stages of a path others are at it, and operations are applied.

    HASH    the path's bytes; asks for the place of its directory in the table of paths.
    PATH    that place; asks for the directory's row, and for the place of the name among the links.
    LINK    that place; asks for the link, or, without one, for what is known of the directory's children in the base.
    NAMED   the link, or what is known of the children; asks for the row it leads to, or for the place in the table of
            their names; without a table, for the child in their middle.
    SLOT    that place; asks for the columns of the base image.
    RECORD  the columns; asks for the record, and for the place of its id.

This code changes no state and caches nothing that another operation could invalidate: if a directory is moved in
between, the prefetched places of its paths are simply not read.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import BEHIND, FIRST, TABLE, TABLE_SIZE
from engine.replay.kernels.frames import BODY, CHECKSUM, frame_end
from engine.replay.kernels.layouts import PATH_FIRST, TARGET_NEXT
from engine.replay.kernels.records import skip_string
from engine.replay.kernels.state import (
    ERA,
    base_ids_bases_of,
    base_ids_low_of,
    base_ids_wide_of,
    base_offsets_bases_of,
    base_offsets_low_of,
    base_offsets_wide_of,
    base_slots_of,
    coming_of,
    directories_of,
    dropped_of,
    ids_of,
    inodes_of,
    link_slots_of,
    links_of,
    named_of,
    names_of,
    opened_of,
    paths_of,
    rows_of,
)
from image_format.kernels.jit import step
from image_format.kernels.packed import Columns, packed_at
from image_format.kernels.prefetch import prefetch
from image_format.kernels.tables import hash_bytes, hash_name, place_of_number
from image_format.kernels.wire import octet

_FAR = 4096
COMING = 32
"""Paths that are remembered; a power of two, and more than are on their way through the stages."""
START, SLASH, END, HASHED, DIRECTORY, NAME, FOUND, STAGE = range(8)
"""Columns of a path on its way; `FOUND` is a link's number or a slot, see `STAGE`."""
COLUMNS = 8
SEEN, HEADS = range(2)
"""Columns of the row behind all paths: up to where operations were looked at, and how many paths were taken up."""
_APART = 2
"""Paths between two stages."""
_LOST, _PATH, _LINK, _LINKED, _NAMED, _SLOT, _RECORD = range(7)
_LINE = 64
_SEGMENT_AHEAD = 1024
_SLASH = 47
_PROBES = 4


@step
def look_ahead(a, buf, pos):
    """Take up the paths of the operations up to some thousand bytes behind the one at `pos`."""
    about = coming_of(a)[COMING]
    at = max(about[SEEN], pos)
    while at < pos + _FAR:
        end = frame_end(buf, at)
        if end < 0:
            break
        for line in range(_SEGMENT_AHEAD, _SEGMENT_AHEAD + min(end - at, _SEGMENT_AHEAD), _LINE):
            prefetch(buf, at + line)
        opcode = buf[at]
        if PATH_FIRST[opcode]:
            start = at + BODY
            following = skip_string(buf, start, end)
            _take_up(a, buf, start + 2, following)
            if TARGET_NEXT[opcode] and following >= 0:
                _take_up(a, buf, following + 2, skip_string(buf, following, end))
        at = end + CHECKSUM
    about[SEEN] = at


@step
def _take_up(a, buf, start, end):
    """A path takes its place, and each that is due for a stage goes through it."""
    heads = coming_of(a)[COMING, HEADS]
    coming_of(a)[COMING, HEADS] = heads + 1
    path = coming_of(a)[heads & (COMING - 1)]
    path[STAGE] = _LOST
    slash = end - 1
    while slash >= start and octet(buf, slash) != _SLASH:
        slash -= 1
    if end >= 0 and slash >= start:
        path[START] = start
        path[SLASH] = slash
        path[END] = end
        path[STAGE] = _PATH
        hashed = hash_bytes(np.uint64(slash - start), buf, start, slash - start)
        path[HASHED] = np.int64(hashed)
        prefetch(paths_of(a), np.int64(hashed & np.uint64(paths_of(a).size - 1)))
    for behind in range(_APART, 6 * _APART, _APART):
        if heads >= behind:
            _go_on(a, buf, coming_of(a)[(heads - behind) & (COMING - 1)])


@step
def _go_on(a, buf, path):
    """One stage of a path."""
    stage = path[STAGE]
    if stage == _LOST:
        return
    path[STAGE] = _LOST
    if stage == _PATH:
        _see_directory(a, buf, path)
    elif stage == _LINK:
        _see_place(a, path)
    elif stage == _LINKED:
        _see_link(a, path)
    elif stage == _NAMED:
        _see_opened(a, buf, path)
    elif stage == _SLOT:
        _see_name(a, path)
    else:
        _see_columns(a, path)


@step
def _see_directory(a, buf, path):
    size = path[SLASH] - path[START]
    directory = np.int64(0)
    if size > 0:
        known = paths_of(a)[np.uint64(path[HASHED]) & np.uint64(paths_of(a).size - 1)]
        if known["hashed"] != np.uint64(path[HASHED]) or known["era"] != a[ERA] or known["size"] != size:
            return
        directory = known["row"]
        for byte in range(0, size, _LINE):
            prefetch(buf, known["at"] + byte)
    _ask_for_row(a, directory)
    path[DIRECTORY] = directory
    path[NAME] = hash_name(directory, buf, path[SLASH] + 1, path[END] - path[SLASH] - 1)
    prefetch(link_slots_of(a), _link_place(a, path))
    path[STAGE] = _LINK


@step
def _link_place(a, path):
    return (path[NAME] >> 32) & (link_slots_of(a).size - 1)


@step
def _ask_for_row(a, row):
    rows = rows_of(a)
    prefetch(rows, row)
    prefetch(rows, row, _LINE)
    prefetch(rows, row, rows.itemsize - 1)


@step
def _see_place(a, path):
    slots = link_slots_of(a)
    at = _link_place(a, path)
    for _ in range(_PROBES):
        slot = slots[at]
        if slot == 0:
            break
        if (slot >> 32) << 32 == path[NAME]:
            path[FOUND] = (slot & 0xFFFFFFFF) - 1
            prefetch(links_of(a), path[FOUND])
            path[STAGE] = _LINKED
            return
        at = (at + 1) & (slots.size - 1)
    entry = np.int64(rows_of(a)[path[DIRECTORY]]["entry"])
    if entry > 0:
        path[FOUND] = entry - 1
        prefetch(opened_of(a), entry - 1)
        path[STAGE] = _NAMED


@step
def _see_link(a, path):
    link = links_of(a)[path[FOUND]]
    prefetch(names_of(a), link["name_offset"])
    if link["row"] >= 0:
        _ask_for_row(a, np.int64(link["row"]))


@step
def _see_opened(a, buf, path):
    about = opened_of(a)[path[FOUND]]
    if about[TABLE_SIZE] > 0:
        start = path[SLASH] + 1
        at = hash_bytes(np.uint64(0), buf, start, path[END] - start) & np.uint64(about[TABLE_SIZE] - 1)
        path[FOUND] = about[TABLE] + np.int64(at)
        prefetch(named_of(a), path[FOUND])
        path[STAGE] = _SLOT
    else:
        prefetch(directories_of(a), (about[FIRST] + about[BEHIND]) // 2)


@step
def _see_name(a, path):
    slot = np.int64(named_of(a)[path[FOUND]]) - 1
    if slot < 0:
        return
    path[FOUND] = slot
    prefetch(base_offsets_low_of(a), slot)
    prefetch(base_offsets_bases_of(a), slot >> 6)
    prefetch(base_ids_low_of(a), slot)
    prefetch(base_ids_bases_of(a), slot >> 6)
    prefetch(dropped_of(a), slot)
    path[STAGE] = _RECORD


@step
def _see_columns(a, path):
    slot = path[FOUND]
    offsets = Columns(base_offsets_low_of(a), base_offsets_bases_of(a), base_offsets_wide_of(a))
    offset = packed_at(offsets, slot)
    for byte in range(0, 3 * _LINE, _LINE):
        prefetch(inodes_of(a), offset + byte)
    if not base_slots_of(a).size:
        inode_id = packed_at(Columns(base_ids_low_of(a), base_ids_bases_of(a), base_ids_wide_of(a)), slot)
        prefetch(ids_of(a), np.int64(place_of_number(ids_of(a), inode_id)))
