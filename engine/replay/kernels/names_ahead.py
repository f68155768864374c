"""Looks names up in the base image for operations that are to come, on another core.

What a directory of the base image has under a name never changes, whatever edits do. So it can be looked up before the
operations in front are applied: a path is followed in the base image alone, and the replay is told what its last name
leads to, and the id of the directory. The replay uses that only where it is about to look for the same name, at the
same place of the segment, in the directory of that id. If edits have moved the path elsewhere, the look-up was in vain.
No rows and nothing of the delta are used here: `seen_paths_of` has what paths lead to in the base image.

Nothing is said of names in a directory that the base image does not have, or that only the plain functions can read.
What else is told of every path saves the replay to look for its slashes and to take its hash.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import (
    DIRECTORY_ID,
    NAME_AT,
    NOT_LOOKED_UP,
    PATH_END,
    PATH_HASH,
    PATH_START,
    SLOT,
    child_of_opened,
    open_children,
)
from engine.replay.kernels.frames import BODY, CHECKSUM, TXID, frame_end
from engine.replay.kernels.layouts import PATH_AT, TARGET_NEXT
from engine.replay.kernels.records import i64, skip_string
from engine.replay.kernels.state import (
    ABSENT,
    AGAIN,
    DONE,
    OPENED_USED,
    UNUSUAL,
    directory_ids_of,
    found_ahead_of,
    opened_at_of,
    opened_of,
    seen_paths_of,
)
from hadoop_common.inode_ids import ROOT_INODE_ID
from image_format.kernels.jit import kernel, step
from image_format.kernels.scan import find_id
from image_format.kernels.tables import hash_bytes, same_bytes
from image_format.kernels.wire import octet

_HASHED, _SPAN, _ID, _NUMBER = range(4)
"""Columns of `seen_paths_of`: hash; where the path stands, and its size; the directory's id; its row of `opened_of`."""
_SIZE_BITS = 16
_NONE = -1
"""In place of a row of `opened_of`: nothing is known of the names in it."""
_SLASH = 47


@kernel
def look_up_names(s, buf, pos, skipped, limit, last_txid):
    """Look up the names of the operations from the one at `pos` on.

    Args:
        s: a state of its own, with what `kernels.base_children` needs; buf: the segment.
        skipped: so many operations are walked over first; limit: how many are looked at then, at most.
        last_txid: what follows it is not looked at.

    Returns:
        (position behind the last operation, how many were walked over, how many were looked at, how many paths they
        had, `DONE`, `AGAIN` where a table lacks room, or `UNUSUAL` at the segment's end or at what is damaged).
    """
    walked = 0
    count = 0
    paths = 0
    while count < limit:
        end = frame_end(buf, pos)
        if end < 0 or i64(buf, pos + TXID) > last_txid:
            return pos, walked, count, paths, np.int64(UNUSUAL)
        if walked < skipped:
            walked += 1
        else:
            found = _follow_paths(s, buf, pos, end, paths)
            if found < 0:
                return pos, walked, count, paths, np.int64(AGAIN)
            paths = found
            count += 1
        pos = end + CHECKSUM
    return pos, walked, count, paths, np.int64(DONE)


@step
def _follow_paths(s, buf, pos, end, paths):
    """Follow the paths of one operation; how many there are then, or `AGAIN`."""
    opcode = buf[pos]
    if PATH_AT[opcode] < 0:
        return np.int64(paths)
    start = pos + BODY + PATH_AT[opcode]
    following = skip_string(buf, start, end)
    found = _follow(s, buf, start + 2, following, paths)
    if found >= 0 and TARGET_NEXT[opcode]:
        found = _follow(s, buf, following + 2, skip_string(buf, following, end), found)
    return np.int64(found)


@step
def _follow(s, buf, start, end, paths):
    """Follow the path `buf[start:end]`; how many there are then, or `AGAIN`."""
    if end <= start or octet(buf, start) != _SLASH:
        return np.int64(paths)
    slash = _slash_before(buf, end)
    hashed = np.int64(hash_bytes(np.uint64(slash - start), buf, start, slash - start))
    number, directory = _directory_at(s, buf, start, slash, hashed)
    slot = np.int64(NOT_LOOKED_UP)
    if number >= 0 and end > slash + 1:
        inode_id, slot = child_of_opened(s, number, buf, slash + 1, end - slash - 1)
        if inode_id == AGAIN:
            return np.int64(AGAIN)
        if inode_id <= 0:
            slot = np.int64(ABSENT if inode_id == 0 else NOT_LOOKED_UP)
    elif number == AGAIN:
        return np.int64(AGAIN)
    path = found_ahead_of(s)[paths]
    path[NAME_AT] = slash + 1
    path[DIRECTORY_ID] = directory
    path[SLOT] = slot
    path[PATH_START] = start
    path[PATH_END] = end
    path[PATH_HASH] = hashed
    return np.int64(paths + 1)


@step
def _slash_before(buf, end):
    """Position of the last slash of a path that begins with one."""
    pos = end - 1
    while octet(buf, pos) != _SLASH:
        pos -= 1
    return pos


@step
def _directory_at(s, buf, start, end, hashed):
    """(row of `opened_of`, id) of the directory `buf[start:end]`; the row may be `_NONE` or `AGAIN`."""
    stop = np.int64(end)
    number = np.int64(_NONE)
    directory = np.int64(ROOT_INODE_ID)
    while stop > start:
        size = stop - start
        if stop < end:
            hashed = np.int64(hash_bytes(np.uint64(size), buf, start, size))
        seen = seen_paths_of(s)[hashed & (seen_paths_of(s).shape[0] - 1)]
        if (
            seen[_HASHED] == hashed
            and seen[_SPAN] & ((1 << _SIZE_BITS) - 1) == size
            and same_bytes(buf, seen[_SPAN] >> _SIZE_BITS, buf, start, size)
        ):
            number = seen[_NUMBER]
            directory = seen[_ID]
            break
        stop = _slash_before(buf, stop)
    if stop == start:
        number = _opened(s, directory)
    while stop < end and number != AGAIN:
        pos = stop + 1
        stop = pos
        while stop < end and octet(buf, stop) != _SLASH:
            stop += 1
        if number != _NONE:
            directory, _ = child_of_opened(s, number, buf, pos, stop - pos)
            if directory == AGAIN:
                return np.int64(AGAIN), directory
            number = _opened(s, directory) if directory > 0 else np.int64(_NONE)
        if number != AGAIN:
            _see(s, buf, start, stop - start, directory, number)
    return number, directory


@step
def _opened(s, directory):
    """Row of `opened_of` of a directory, `_NONE` or `AGAIN`."""
    place = find_id(directory_ids_of(s), directory)
    if place < 0:
        return np.int64(_NONE)
    if opened_at_of(s)[place] == 0:
        if s[OPENED_USED] == opened_of(s).shape[0]:
            return np.int64(AGAIN)
        number = open_children(s, place)
        opened_at_of(s)[place] = number + 1 if number >= 0 else _NONE
    number = np.int64(opened_at_of(s)[place])
    return number - 1 if number > 0 else np.int64(_NONE)


@step
def _see(s, buf, start, size, directory, number):
    """What the path `buf[start:start + size]` leads to goes into the table, in the place of another one."""
    hashed = np.int64(hash_bytes(np.uint64(size), buf, start, size))
    seen = seen_paths_of(s)[hashed & (seen_paths_of(s).shape[0] - 1)]
    seen[_HASHED] = hashed
    seen[_SPAN] = start << _SIZE_BITS | size
    seen[_ID] = directory
    seen[_NUMBER] = number
