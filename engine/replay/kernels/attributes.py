"""SET_REPLICATION, SET_PERMISSIONS, SET_OWNER and TIMES as kernels; `engine.replay.attributes` contains the plain
twins.

Arguments and results are the same as in `kernels.files`.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.change import GROUP_SHIFT, MODE, USER_SHIFT, find_known
from engine.replay.kernels.files import anywhere
from engine.replay.kernels.layouts import SET_PERMISSIONS, SET_REPLICATION, TIMES
from engine.replay.kernels.recording import note_change, record, to_record
from engine.replay.kernels.records import i16, i64, skip_string, u16
from engine.replay.kernels.state import ABSENT, DONE, KNOWN_GROUP, KNOWN_USER, UNUSUAL, known_values_of, rows_of
from image_format.kernels.inode import ACL_DUE, DIRTY, FILE, SYMLINK, UNKNOWN_FIELDS
from image_format.kernels.jit import step
from image_format.permission import SERIAL_MASK

_ALL_MODE_BITS = np.uint64(0xFFFF)
_SERIAL = np.uint64(SERIAL_MASK)


@step
def _changeable(state, buf, pos, end):
    """Return (row of an inode that may change after `record`, otherwise `UNUSUAL` or `AGAIN`; end of the path).

    Missing inodes, symbolic links and inodes with unknown fields are `UNUSUAL`.
    """
    row, following = anywhere(state, buf, pos, end)
    if row == ABSENT:
        row = np.int64(UNUSUAL)
    if row >= 0 and (rows_of(state)[row]["kind"] == SYMLINK or rows_of(state)[row]["flags"] & UNKNOWN_FIELDS):
        row = np.int64(UNUSUAL)
    if row >= 0:
        known = to_record(state, row)
        if known != DONE:
            row = np.int64(known)
    return row, following


@step
def set_replication(state, buf, pos, end):
    """Apply SET_REPLICATION to a file that is not striped."""
    row, pos = _changeable(state, buf, pos, end)
    if row < 0:
        return row
    entry = rows_of(state)[row]
    if pos + SET_REPLICATION.end != end or entry["kind"] != FILE or entry["ec_policy"] >= 0:
        return UNUSUAL
    record(state, row)
    entry["flags"] |= DIRTY
    note_change(state, row)
    entry["replication"] = min(max(i16(buf, pos), state.min_replication), state.max_replication)
    return DONE


@step
def set_permissions(state, buf, pos, end):
    """Apply SET_PERMISSIONS."""
    row, pos = _changeable(state, buf, pos, end)
    if row < 0:
        return row
    entry = rows_of(state)[row]
    # The inherited ACL depends on the mode at the inode's creation.
    if pos + SET_PERMISSIONS.end != end or entry["marks"] & ACL_DUE:
        return UNUSUAL
    record(state, row)
    entry["flags"] |= DIRTY
    entry["permission"] = (entry["permission"] & ~_ALL_MODE_BITS) | (np.uint64(u16(buf, pos)) & MODE)
    return DONE


@step
def set_owner(state, buf, pos, end):
    """Apply SET_OWNER; an empty user or group leaves the present value unchanged, but only one of them may be empty."""
    row, user = _changeable(state, buf, pos, end)
    if row < 0:
        return row
    group = skip_string(buf, user, end)
    if group < 0 or skip_string(buf, group, end) != end or (group == user + 2 and end == group + 2):
        return UNUSUAL
    entry = rows_of(state)[row]
    permission = entry["permission"]
    if group > user + 2:
        known = find_known(state, KNOWN_USER, buf, user + 2, group)
        if known < 0:
            return UNUSUAL
        permission = (permission & ~(_SERIAL << USER_SHIFT)) | known_values_of(state)[known] << USER_SHIFT
    if end > group + 2:
        known = find_known(state, KNOWN_GROUP, buf, group + 2, end)
        if known < 0:
            return UNUSUAL
        permission = (permission & ~(_SERIAL << GROUP_SHIFT)) | known_values_of(state)[known] << GROUP_SHIFT
    record(state, row)
    entry["flags"] |= DIRTY
    entry["permission"] = permission
    return DONE


@step
def times(state, buf, pos, end):
    """Apply TIMES; -1 leaves a time unchanged.

    Other negative values are unusual, because their effect depends on the layout.
    """
    row, pos = _changeable(state, buf, pos, end)
    if row < 0:
        return row
    if pos + TIMES.end != end:
        return UNUSUAL
    mtime, atime = i64(buf, pos + TIMES.mtime), i64(buf, pos + TIMES.atime)
    sets_mtime = mtime >= 0
    sets_atime = atime >= 0
    if mtime < -1 or atime < -1 or not (sets_mtime or sets_atime):
        return UNUSUAL
    if sets_mtime or (sets_atime and not state.skips_access_times):
        record(state, row)
    entry = rows_of(state)[row]
    if sets_mtime:
        entry["flags"] |= DIRTY
        entry["mtime"] = mtime
    if sets_atime:
        entry["flags"] |= DIRTY
        entry["atime"] = atime
    return DONE
