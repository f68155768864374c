"""Finds and reads the base image's files that are open for writing, by their entries in FILES_UNDERCONSTRUCTION.

An entry is verified without creating a row for its file and without searching for its name. The path must lead to a
directory, and the inode must be an open file of that name and a child of the directory. The children are read last,
once for all entries.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import BEHIND, FIRST, base_offset, open_directory, slot_near, sorted_child
from engine.replay.kernels.lookup import MAX_NAME_BYTES, add_link, has_room, last_slash, load, name_end, parent_of
from engine.replay.kernels.state import AGAIN, UNUSUAL, directories_of, ids_of, inodes_of, names_of, opened_of, rows_of
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.history import is_open_file
from image_format.kernels.inode import DIRECTORY
from image_format.kernels.jit import kernel, step
from image_format.kernels.scan import name_span
from image_format.kernels.tables import UNKNOWN, find_number, hash_name, same_bytes
from image_format.kernels.wire import read_varint


@step
def _opened(state, buf, start, slash):
    """Return the row of the directory `buf[start:slash]` with known children; otherwise `UNUSUAL` or `AGAIN`."""
    directory = parent_of(state, buf, start, slash)
    if directory < 0 or rows_of(state)[directory]["kind"] != DIRECTORY:
        return np.int64(AGAIN if directory == AGAIN else UNUSUAL)
    if rows_of(state)[directory]["entry"] == 0:
        if state.opened_used == opened_of(state).shape[0]:
            return np.int64(AGAIN)
        open_directory(state, directory)
    return np.int64(directory) if rows_of(state)[directory]["entry"] > 0 else np.int64(UNUSUAL)


@kernel
def follow_paths(states, buf, spans, first, apart):
    """Search for the directories of paths in the base image, to read the pages that `find_open_files` needs.

    Several threads, each with different paths, wait for several pages at the same time. The threads change nothing.

    Args:
        states: the state; see `kernels.state`.
        buf, spans: the spans of the entries' paths, as filled by `read_entries`.
        first, apart: number of the first path to follow, and distance between the followed paths.

    Returns:
        Number of paths whose directories were found.
    """
    state = states[0]
    found = np.int64(0)
    for number in range(first, spans.shape[0], apart):
        pos, size = spans[number, 0], spans[number, 1]
        slash = last_slash(buf, pos, pos + size) if size > 0 else pos
        directory = np.int64(ROOT_INODE_ID)
        while pos < slash and directory != 0:
            pos += 1
            stop = name_end(buf, pos, slash)
            directory = sorted_child(state, directory, buf, pos, stop - pos)
            pos = stop
        found += size > 0 and directory != 0
    return found


@kernel
def find_open_files(states, buf, spans, files, number):
    """Find the inodes of entries, from entry `number`.

    Args:
        states: the state; see `kernels.state`.
        buf, spans: the spans of the entries' paths, as filled by `read_entries`.
        files: `UNREAD_DTYPE` with the ids of the entries; it receives the result. `slot` stays -1 if the inode is not
            an open file of that name, or has a row.

    Returns:
        Number of the first entry that was not read because a table is full; the caller grows the table and continues
        there.
    """
    state = states[0]
    inodes = inodes_of(state)
    slot = np.int64(0)
    last = np.int64(0)
    while number < files.size:
        start, size = spans[number, 0], spans[number, 1]
        end = start + size
        slash = last_slash(buf, start, end) if size > 0 else start
        directory = _opened(state, buf, start, slash) if size > 0 else np.int64(UNUSUAL)
        if directory == AGAIN:
            break
        file = files[number]
        inode_id = file["id"]
        slot = slot_near(state, inode_id, slot + inode_id - last)
        last = inode_id
        if directory >= 0 and slot >= 0 and find_number(ids_of(state), inode_id) == UNKNOWN:
            length = end - slash - 1
            offset = base_offset(state, slot)
            name_start, name_size = name_span(inodes, offset)
            same = name_size == length <= MAX_NAME_BYTES and same_bytes(inodes, name_start, buf, slash + 1, length)
            if same and is_open_file(inodes, offset):
                file["slot"] = slot
                file["name_offset"] = slash + 1
                file["name_length"] = length
                file["directory"] = directory
        number += 1
    return number


@kernel
def place_open_files(states, ids, directories, placed):
    """Find the files that are children of the directories of their paths.

    Args:
        states: the state; see `kernels.state`.
        ids, directories: ascending ids of the files, and rows of their directories; see `find_open_files`.
        placed: result: whether each file was found.
    """
    state = states[0]
    packed = directories_of(state)
    for number in range(state.opened_used):
        pos, behind = opened_of(state)[number, FIRST], opened_of(state)[number, BEHIND]
        at = np.int64(0)
        while pos < behind:
            inode_id, pos = read_varint(packed, pos, behind)
            if pos < 0:
                break
            at = _first_from(ids, inode_id, at)
            if at < ids.size and ids[at] == inode_id and rows_of(state)[directories[at]]["entry"] == number + 1:
                placed[at] = True


@step
def _first_from(ids, inode_id, near):
    """Return the index of the first id that is not less than `inode_id`; `near` or `near + 1` is most likely."""
    low = np.int64(0)
    high = ids.size
    if near == high or ids[near] >= inode_id:
        if near == 0 or ids[near - 1] < inode_id:
            return near
        high = near - 1
    elif near + 1 == high or ids[near + 1] >= inode_id:
        return near + 1
    else:
        low = near + 2
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < inode_id:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def load_open_files(states, files, number):
    """Create rows for files, starting with file `number`; skip files that `load` rejects.

    Args:
        states: the state; see `kernels.state`.
        files: `UNREAD_DTYPE`, in the directories that contain them in the base image.

    Returns:
        Number of the first file that was not read because a table is full; the caller grows the table and continues
        there.
    """
    state = states[0]
    while number < files.size:
        file = files[number]
        if not has_room(state, 0, 1, 0, 0):
            break
        row = load(state, file["id"], file["slot"])
        if row == AGAIN:
            break
        if row >= 0:
            entry, directory = rows_of(state)[row], np.int64(file["directory"])
            entry["parent"] = directory
            entry["base_parent"] = directory
            start, size = entry["name_offset"], np.int64(entry["name_length"])
            add_link(state, directory, row, start, size, hash_name(directory, names_of(state), start, size))
        number += 1
    return number
