"""CREATE_SNAPSHOT, RENAME_SNAPSHOT and DELETE_SNAPSHOT as kernels; `engine.replay.snapshots` is the plain twin.

A kernel does to rows what later operations have to know of, and notes the rest in `snapshot_changes`: Python makes,
renames and deletes the snapshots when kernels return, which they do at once behind a deletion. It finds out only then
that a directory is not snapshottable, that a name is taken, or that there is no such snapshot; each is an error, at
which a replay ends. Arguments and results are those of `kernels.files`.
"""

from __future__ import annotations

import numpy as np

from engine.namespace.diffs import LARGEST_ID
from engine.replay.kernels.change import call_end, raise_mtime
from engine.replay.kernels.files import anywhere
from engine.replay.kernels.layouts import CREATE_SNAPSHOT, DELETE_SNAPSHOT, RENAME_SNAPSHOT, SNAPSHOT_TIMES
from engine.replay.kernels.recording import copy_row, is_known, room
from engine.replay.kernels.records import i64, is_plain_text, skip_string
from engine.replay.kernels.state import (
    ACLS_USED,
    AGAIN,
    CLOCK,
    DONE,
    ERA,
    HADOOP3,
    LAYOUT,
    NEXT_SNAPSHOT,
    NOTES_USED,
    PAUSE,
    SNAPSHOT_CHANGES_USED,
    SNAPSHOTS_PLAIN,
    UNUSUAL,
    rows_of,
    snapshot_changes_of,
)
from image_format.kernels.inode import COPIED, DIRECTORY, SPECIAL, UNKNOWN_FIELDS
from image_format.kernels.jit import step

RENAMED, DELETED = -1, -2
"""In place of the copy of the row of a directory whose snapshot is made."""


@step
def create(a, buf, pos, end):
    """CREATE_SNAPSHOT, where open files are not captured."""
    body = pos
    row, name = _directory(a, buf, pos, end)
    if row < 0:
        return row
    mtime, whole = _time(a, buf, _name_end(buf, name, end), end, CREATE_SNAPSHOT.rpc_client_id)
    snapshot = a[NEXT_SNAPSHOT]
    # a directory that has its ACL only when Python gave it
    if not whole or a[ACLS_USED] or not 0 <= snapshot <= LARGEST_ID:
        return UNUSUAL
    if rows_of(a)[row]["flags"] & UNKNOWN_FIELDS or not a[SNAPSHOTS_PLAIN] or not is_known(a, row):
        return UNUSUAL
    if not _has_room(a) or room(a) != DONE:
        return AGAIN
    if not a[HADOOP3]:
        mtime = a[CLOCK]
    entry = rows_of(a)[row]
    _note(a, row, copy_row(a, row), body, name, mtime)
    entry["newest"] = snapshot + 1
    entry["marks"] |= SPECIAL | COPIED
    raise_mtime(a, row, mtime, 0)
    a[NEXT_SNAPSHOT] = snapshot + 1
    # Paths below the directory are in another snapshot now.
    a[ERA] += 1
    return DONE


@step
def rename(a, buf, pos, end):
    """RENAME_SNAPSHOT."""
    body = pos
    row, name = _directory(a, buf, pos, end)
    if row < 0:
        return row
    behind = _name_end(buf, _name_end(buf, name, end), end)
    mtime, whole = _time(a, buf, behind, end, RENAME_SNAPSHOT.rpc_client_id)
    if not whole:
        return UNUSUAL
    if not _has_room(a):
        return AGAIN
    _note(a, row, np.int64(RENAMED), body, name, mtime)
    return DONE


@step
def delete(a, buf, pos, end):
    """DELETE_SNAPSHOT."""
    body = pos
    row, name = _directory(a, buf, pos, end)
    if row < 0:
        return row
    mtime, whole = _time(a, buf, _name_end(buf, name, end), end, DELETE_SNAPSHOT.rpc_client_id)
    if not whole:
        return UNUSUAL
    if not _has_room(a):
        return AGAIN
    _note(a, row, np.int64(DELETED), body, name, mtime)
    return PAUSE


@step
def _directory(a, buf, pos, end):
    """(row of the directory whose path is at `pos`, `UNUSUAL` or `AGAIN`; position behind the path)."""
    row, following = anywhere(a, buf, pos, end)
    if row == AGAIN:
        return row, following
    if row < 0 or rows_of(a)[row]["kind"] != DIRECTORY:
        return np.int64(UNUSUAL), following
    return row, following


@step
def _name_end(buf, pos, end):
    """Position behind the name at `pos`, -1 where none is that Python reads as it stands."""
    following = skip_string(buf, pos, end)
    return following if following >= 0 and is_plain_text(buf, pos + 2, following) else np.int64(-1)


@step
def _time(a, buf, pos, end, size):
    """(the time at `pos`, 0 in layouts without one; whether nothing but it and the call stands up to `end`)."""
    call = pos + size if a[LAYOUT] <= SNAPSHOT_TIMES else pos
    if pos < 0 or call > end or not call_end(buf, call, end):
        return np.int64(0), False
    return i64(buf, pos) if call > pos else np.int64(0), True


@step
def _has_room(a):
    return a[SNAPSHOT_CHANGES_USED] < snapshot_changes_of(a).shape[0]


@step
def _note(a, row, kept, body, name, mtime):
    used = a[SNAPSHOT_CHANGES_USED]
    a[SNAPSHOT_CHANGES_USED] = used + 1
    note = snapshot_changes_of(a)[used]
    note[0] = a[NOTES_USED]
    note[1] = row
    note[2] = kept
    note[3] = body
    note[4] = name
    note[5] = mtime
