"""CREATE_SNAPSHOT, RENAME_SNAPSHOT and DELETE_SNAPSHOT as kernels; `engine.replay.snapshots` contains the plain twins.

A kernel changes the parts of rows that later operations need, and notes the rest in `snapshot_changes`. When kernels
return, Python creates, renames and deletes the snapshots; after a deletion, kernels return immediately. Python then
also detects errors: a directory that is not snapshottable, a name in use, or a missing snapshot. Each of these errors
ends the replay. Arguments and results are the same as in `kernels.files`.
"""

from __future__ import annotations

import numpy as np

from engine.namespace.diffs import LARGEST_ID
from engine.replay.kernels.change import call_end, raise_mtime
from engine.replay.kernels.files import anywhere
from engine.replay.kernels.layouts import CREATE_SNAPSHOT, DELETE_SNAPSHOT, RENAME_SNAPSHOT, SNAPSHOT_TIMES
from engine.replay.kernels.recording import copy_row, is_known, note_change, room
from engine.replay.kernels.records import i64, is_plain_text, skip_string
from engine.replay.kernels.state import AGAIN, DONE, PAUSE, UNUSUAL, rows_of, snapshot_changes_of
from image_format.kernels.inode import COPIED, DIRECTORY, SPECIAL, UNKNOWN_FIELDS
from image_format.kernels.jit import step

RENAMED, DELETED = -1, -2
"""Values stored in place of the number of a row's copy, if a snapshot was renamed or deleted."""


@step
def create(state, buf, pos, end):
    """Apply CREATE_SNAPSHOT if open files are not captured."""
    body = pos
    row, name = _directory(state, buf, pos, end)
    if row < 0:
        return row
    mtime, whole = _time(state, buf, _name_end(buf, name, end), end, CREATE_SNAPSHOT.rpc_client_id)
    snapshot = state.next_snapshot
    # Python has yet to set the directory's ACL
    if not whole or state.acls_used or not 0 <= snapshot <= LARGEST_ID:
        return UNUSUAL
    if rows_of(state)[row]["flags"] & UNKNOWN_FIELDS or not state.snapshots_plain or not is_known(state, row):
        return UNUSUAL
    if not _has_room(state) or room(state) != DONE:
        return AGAIN
    if not state.hadoop3:
        mtime = state.clock
    entry = rows_of(state)[row]
    _note(state, row, copy_row(state, row), body, name, mtime)
    entry["newest"] = snapshot + 1
    entry["marks"] |= SPECIAL | COPIED
    note_change(state, row)
    raise_mtime(state, row, mtime, 0)
    state.next_snapshot = snapshot + 1
    # From now on, paths below the directory are in the new snapshot.
    state.era += 1
    return DONE


@step
def rename(state, buf, pos, end):
    """Apply RENAME_SNAPSHOT."""
    body = pos
    row, name = _directory(state, buf, pos, end)
    if row < 0:
        return row
    behind = _name_end(buf, _name_end(buf, name, end), end)
    mtime, whole = _time(state, buf, behind, end, RENAME_SNAPSHOT.rpc_client_id)
    if not whole:
        return UNUSUAL
    if not _has_room(state):
        return AGAIN
    _note(state, row, np.int64(RENAMED), body, name, mtime)
    return DONE


@step
def delete(state, buf, pos, end):
    """Apply DELETE_SNAPSHOT."""
    body = pos
    row, name = _directory(state, buf, pos, end)
    if row < 0:
        return row
    mtime, whole = _time(state, buf, _name_end(buf, name, end), end, DELETE_SNAPSHOT.rpc_client_id)
    if not whole:
        return UNUSUAL
    if not _has_room(state):
        return AGAIN
    _note(state, row, np.int64(DELETED), body, name, mtime)
    return PAUSE


@step
def _directory(state, buf, pos, end):
    """Return (row of the directory whose path is at `pos`, or `UNUSUAL` or `AGAIN`; position after the path)."""
    row, following = anywhere(state, buf, pos, end)
    if row == AGAIN:
        return row, following
    if row < 0 or rows_of(state)[row]["kind"] != DIRECTORY:
        return np.int64(UNUSUAL), following
    return row, following


@step
def _name_end(buf, pos, end):
    """Return the position after the name at `pos`; -1 if Python would not read the name's bytes unchanged."""
    following = skip_string(buf, pos, end)
    return following if following >= 0 and is_plain_text(buf, pos + 2, following) else np.int64(-1)


@step
def _time(state, buf, pos, end, size):
    """Return (time at `pos`, or 0 in layouts without a time; whether only the time and the call precede `end`)."""
    call = pos + size if state.layout <= SNAPSHOT_TIMES else pos
    if pos < 0 or call > end or not call_end(buf, call, end):
        return np.int64(0), False
    return i64(buf, pos) if call > pos else np.int64(0), True


@step
def _has_room(state):
    return state.snapshot_changes_used < snapshot_changes_of(state).shape[0]


@step
def _note(state, row, kept, body, name, mtime):
    used = state.snapshot_changes_used
    state.snapshot_changes_used = used + 1
    note = snapshot_changes_of(state)[used]
    note[0] = state.notes_used
    note[1] = row
    note[2] = kept
    note[3] = body
    note[4] = name
    note[5] = mtime
