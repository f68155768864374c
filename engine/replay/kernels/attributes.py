"""SET_REPLICATION, SET_PERMISSIONS, SET_OWNER and TIMES as kernels; `engine.replay.attributes` is the plain twin.

Arguments and results are those of `kernels.files`.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.change import GROUP_SHIFT, MODE, USER_SHIFT, find_known
from engine.replay.kernels.files import anywhere
from engine.replay.kernels.layouts import SET_PERMISSIONS, SET_REPLICATION, TIMES
from engine.replay.kernels.recording import record, to_record
from engine.replay.kernels.records import i16, i64, skip_string, u16
from engine.replay.kernels.state import (
    ABSENT,
    DONE,
    HADOOP3,
    KNOWN_GROUP,
    KNOWN_USER,
    MAX_REPLICATION,
    MIN_REPLICATION,
    SKIPS_ACCESS_TIMES,
    UNUSUAL,
    known_values_of,
    rows_of,
)
from image_format.kernels.inode import ACL_DUE, DIRTY, FILE, SYMLINK, UNKNOWN_FIELDS
from image_format.kernels.jit import step
from image_format.permission import SERIAL_MASK

_ALL_MODE_BITS = np.uint64(0xFFFF)
_SERIAL = np.uint64(SERIAL_MASK)


@step
def _changeable(a, buf, pos, end):
    """Row of an inode that may change once it is `record`ed, `UNUSUAL` or `AGAIN`, and position behind its path.

    Absent inodes, symbolic links and inodes with unknown fields are `UNUSUAL`.
    """
    row, following = anywhere(a, buf, pos, end)
    if row == ABSENT:
        row = np.int64(UNUSUAL)
    if row >= 0 and (rows_of(a)[row]["kind"] == SYMLINK or rows_of(a)[row]["flags"] & UNKNOWN_FIELDS):
        row = np.int64(UNUSUAL)
    if row >= 0:
        known = to_record(a, row)
        if known != DONE:
            row = np.int64(known)
    return row, following


@step
def set_replication(a, buf, pos, end):
    """SET_REPLICATION of a file that is not striped."""
    row, pos = _changeable(a, buf, pos, end)
    if row < 0:
        return row
    entry = rows_of(a)[row]
    if pos + SET_REPLICATION.end != end or entry["kind"] != FILE or entry["ec_policy"] >= 0:
        return UNUSUAL
    record(a, row)
    entry["flags"] |= DIRTY
    entry["replication"] = min(max(i16(buf, pos), a[MIN_REPLICATION]), a[MAX_REPLICATION])
    return DONE


@step
def set_permissions(a, buf, pos, end):
    """SET_PERMISSIONS."""
    row, pos = _changeable(a, buf, pos, end)
    if row < 0:
        return row
    entry = rows_of(a)[row]
    # What it inherits depends on the mode that it was made with.
    if pos + SET_PERMISSIONS.end != end or entry["marks"] & ACL_DUE:
        return UNUSUAL
    record(a, row)
    entry["flags"] |= DIRTY
    entry["permission"] = (entry["permission"] & ~_ALL_MODE_BITS) | (np.uint64(u16(buf, pos)) & MODE)
    return DONE


@step
def set_owner(a, buf, pos, end):
    """SET_OWNER; an empty user or group leaves it as it is, but not both do."""
    row, user = _changeable(a, buf, pos, end)
    if row < 0:
        return row
    group = skip_string(buf, user, end)
    if group < 0 or skip_string(buf, group, end) != end or (group == user + 2 and end == group + 2):
        return UNUSUAL
    entry = rows_of(a)[row]
    permission = entry["permission"]
    if group > user + 2:
        known = find_known(a, KNOWN_USER, buf, user + 2, group)
        if known < 0:
            return UNUSUAL
        permission = (permission & ~(_SERIAL << USER_SHIFT)) | known_values_of(a)[known] << USER_SHIFT
    if end > group + 2:
        known = find_known(a, KNOWN_GROUP, buf, group + 2, end)
        if known < 0:
            return UNUSUAL
        permission = (permission & ~(_SERIAL << GROUP_SHIFT)) | known_values_of(a)[known] << GROUP_SHIFT
    record(a, row)
    entry["flags"] |= DIRTY
    entry["permission"] = permission
    return DONE


@step
def times(a, buf, pos, end):
    """TIMES; -1, and in Hadoop 3 anything negative, leaves a time as it is, but not both do."""
    row, pos = _changeable(a, buf, pos, end)
    if row < 0:
        return row
    if pos + TIMES.end != end:
        return UNUSUAL
    mtime, atime = i64(buf, pos + TIMES.mtime), i64(buf, pos + TIMES.atime)
    hadoop3 = a[HADOOP3] != 0
    sets_mtime = mtime >= 0 or (mtime != -1 and not hadoop3)
    sets_atime = atime >= 0 or (atime != -1 and not hadoop3)
    if not sets_mtime and not sets_atime:
        return UNUSUAL
    if sets_mtime or (sets_atime and not a[SKIPS_ACCESS_TIMES]):
        record(a, row)
    entry = rows_of(a)[row]
    if sets_mtime:
        entry["flags"] |= DIRTY
        entry["mtime"] = mtime
    if sets_atime:
        entry["flags"] |= DIRTY
        entry["atime"] = atime
    return DONE
