"""Prefetch of the memory that the next operations will read, so that the replay does not wait for each location.

An operation on a file that was not used recently reads a dozen locations of the base image and of the delta. Each
location contains the address of the next location, so one operation would wait for a dozen cache misses in sequence.
Therefore, the paths of upcoming operations pass through stages. Each stage reads the location that the previous stage
prefetched, and prefetches the next location. Between two stages of a path, the kernel advances other paths and applies
operations.

    HASH    reads the path's bytes; prefetches the place of its directory in the table of paths.
    PATH    reads that place; prefetches the directory's row, and the place of the name among the links.
    LINK    reads that place; prefetches the link, or else the entry of the directory's children in the base image.
    NAMED   reads the link or that entry; prefetches the row of the link, or the place in the table of names; without a
            table, the child in the middle.
    SLOT    reads that place; prefetches the columns of the base image.
    RECORD  reads the columns; prefetches the record, and the place of its id.

The stages change no state and cache nothing that another operation could invalidate. If a directory is moved between
two stages, the prefetched locations of its paths are simply not read.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import BEHIND, FIRST, TABLE, TABLE_SIZE
from engine.replay.kernels.frames import BODY, CHECKSUM, frame_end
from engine.replay.kernels.layouts import PATH_FIRST, TARGET_NEXT
from engine.replay.kernels.records import skip_string
from engine.replay.kernels.state import (
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
"""Number of pending paths: a power of two that exceeds the number of paths in the stages."""
START, SLASH, END, HASHED, DIRECTORY, NAME, FOUND, STAGE = range(8)
"""Columns of a pending path; `FOUND` is a link's number or a slot, depending on the path's `STAGE`."""
COLUMNS = 8
SEEN, HEADS = range(2)
"""Columns of the row after all paths: position up to which operations were read, and number of paths added."""
_APART = 2
"""Number of other paths that advance between two stages of a path."""
_LOST, _PATH, _LINK, _LINKED, _NAMED, _SLOT, _RECORD = range(7)
_LINE = 64
_SEGMENT_AHEAD = 1024
_SLASH = 47
_PROBES = 4


@step
def look_ahead(state, buf, pos):
    """Add the paths of the operations in the next few thousand bytes after `pos`."""
    about = coming_of(state)[COMING]
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
            _take_up(state, buf, start + 2, following)
            if TARGET_NEXT[opcode] and following >= 0:
                _take_up(state, buf, following + 2, skip_string(buf, following, end))
        at = end + CHECKSUM
    about[SEEN] = at


@step
def _take_up(state, buf, start, end):
    """Add a path, and process the next stage of each path that is due."""
    heads = coming_of(state)[COMING, HEADS]
    coming_of(state)[COMING, HEADS] = heads + 1
    path = coming_of(state)[heads & (COMING - 1)]
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
        prefetch(paths_of(state), np.int64(hashed & np.uint64(paths_of(state).size - 1)))
    for behind in range(_APART, 6 * _APART, _APART):
        if heads >= behind:
            _go_on(state, buf, coming_of(state)[(heads - behind) & (COMING - 1)])


@step
def _go_on(state, buf, path):
    """Pass a path through a stage."""
    stage = path[STAGE]
    if stage == _LOST:
        return
    path[STAGE] = _LOST
    if stage == _PATH:
        _see_directory(state, buf, path)
    elif stage == _LINK:
        _see_place(state, path)
    elif stage == _LINKED:
        _see_link(state, path)
    elif stage == _NAMED:
        _see_opened(state, buf, path)
    elif stage == _SLOT:
        _see_name(state, path)
    else:
        _see_columns(state, path)


@step
def _see_directory(state, buf, path):
    size = path[SLASH] - path[START]
    directory = np.int64(0)
    if size > 0:
        known = paths_of(state)[np.uint64(path[HASHED]) & np.uint64(paths_of(state).size - 1)]
        if known["hashed"] != np.uint64(path[HASHED]) or known["era"] != state.era or known["size"] != size:
            return
        directory = known["row"]
        for byte in range(0, size, _LINE):
            prefetch(buf, known["at"] + byte)
    _ask_for_row(state, directory)
    path[DIRECTORY] = directory
    path[NAME] = hash_name(directory, buf, path[SLASH] + 1, path[END] - path[SLASH] - 1)
    prefetch(link_slots_of(state), _link_place(state, path))
    path[STAGE] = _LINK


@step
def _link_place(state, path):
    return (path[NAME] >> 32) & (link_slots_of(state).size - 1)


@step
def _ask_for_row(state, row):
    rows = rows_of(state)
    prefetch(rows, row)
    prefetch(rows, row, _LINE)
    prefetch(rows, row, rows.itemsize - 1)


@step
def _see_place(state, path):
    slots = link_slots_of(state)
    at = _link_place(state, path)
    for _ in range(_PROBES):
        slot = slots[at]
        if slot == 0:
            break
        if (slot >> 32) << 32 == path[NAME]:
            path[FOUND] = (slot & 0xFFFFFFFF) - 1
            prefetch(links_of(state), path[FOUND])
            path[STAGE] = _LINKED
            return
        at = (at + 1) & (slots.size - 1)
    entry = np.int64(rows_of(state)[path[DIRECTORY]]["entry"])
    if entry > 0:
        path[FOUND] = entry - 1
        prefetch(opened_of(state), entry - 1)
        path[STAGE] = _NAMED


@step
def _see_link(state, path):
    link = links_of(state)[path[FOUND]]
    prefetch(names_of(state), link["name_offset"])
    if link["row"] >= 0:
        _ask_for_row(state, np.int64(link["row"]))


@step
def _see_opened(state, buf, path):
    about = opened_of(state)[path[FOUND]]
    if about[TABLE_SIZE] > 0:
        start = path[SLASH] + 1
        at = hash_bytes(np.uint64(0), buf, start, path[END] - start) & np.uint64(about[TABLE_SIZE] - 1)
        path[FOUND] = about[TABLE] + np.int64(at)
        prefetch(named_of(state), path[FOUND])
        path[STAGE] = _SLOT
    else:
        prefetch(directories_of(state), (about[FIRST] + about[BEHIND]) // 2)


@step
def _see_name(state, path):
    slot = np.int64(named_of(state)[path[FOUND]]) - 1
    if slot < 0:
        return
    path[FOUND] = slot
    prefetch(base_offsets_low_of(state), slot)
    prefetch(base_offsets_bases_of(state), slot >> 6)
    prefetch(base_ids_low_of(state), slot)
    prefetch(base_ids_bases_of(state), slot >> 6)
    prefetch(dropped_of(state), slot)
    path[STAGE] = _RECORD


@step
def _see_columns(state, path):
    slot = path[FOUND]
    offsets = Columns(base_offsets_low_of(state), base_offsets_bases_of(state), base_offsets_wide_of(state))
    offset = packed_at(offsets, slot)
    for byte in range(0, 3 * _LINE, _LINE):
        prefetch(inodes_of(state), offset + byte)
    if not base_slots_of(state).size:
        inode_id = packed_at(Columns(base_ids_low_of(state), base_ids_bases_of(state), base_ids_wide_of(state)), slot)
        prefetch(ids_of(state), np.int64(place_of_number(ids_of(state), inode_id)))
