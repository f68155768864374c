"""Changes that kernels of several operations share; a kernel validates each change completely before it writes."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.lookup import add_link
from engine.replay.kernels.recording import come, keep, note_change, room
from engine.replay.kernels.records import i32, is_plain_text, skip_string, u16, vlong
from engine.replay.kernels.state import (
    AGAIN,
    DONE,
    KNOWN_GROUP,
    KNOWN_USER,
    acls_of,
    known_arena_of,
    known_of,
    known_slots_of,
    known_values_of,
    links_of,
    names_of,
    rows_of,
)
from image_format import permission
from image_format.kernels.inode import (
    ACL_DUE,
    DIRECTORY,
    DIRTY,
    FEATURES,
    LEASED,
    NO_ACL,
    OPENED,
    UNDER_CONSTRUCTION,
    UNKNOWN_FIELDS,
)
from image_format.kernels.jit import step
from image_format.kernels.tables import find_link, hash_name
from image_format.kernels.wire import octet

GROUP_SHIFT = np.uint64(permission.GROUP_SHIFT)
USER_SHIFT = np.uint64(permission.USER_SHIFT)
MODE = np.uint64(permission.MODE_BITS)
"""Mask of the mode bits that operations use."""
_ACL_NAMED = 1 << 6
_ACL_DEFAULT = 1 << 5
_ACL_UNKNOWN = 1 << 7
_MINIMAL_ACL = 3


# ---- fields of operations ------------------------------------------------------------------------------------


@step
def call_end(buf, pos, end):
    """Return whether `buf[pos:end]` is exactly an RPC's client id and call id."""
    following = skip_string(buf, pos, end)
    return following >= 0 and following + 4 == end and (following - pos == 2 or following - pos == 18)


@step
def owner_end(buf, pos, end):
    """Return the position after a PermissionStatus; -1 if the PermissionStatus is invalid."""
    for _ in range(2):
        size, pos = vlong(buf, pos, end)
        if pos < 0 or size < 0 or size > end - pos:
            return np.int64(-1)
        pos += size
    return pos + 2 if pos + 2 <= end else np.int64(-1)


@step
def permission_of(state, buf, pos, end):
    """Return (a PermissionStatus in the form of the image, whether its names are known); `owner_end` must be valid."""
    size, pos = vlong(buf, pos, end)
    user = find_known(state, KNOWN_USER, buf, pos, pos + size)
    size, pos = vlong(buf, pos + size, end)
    group = find_known(state, KNOWN_GROUP, buf, pos, pos + size)
    if user < 0 or group < 0:
        return np.uint64(0), False
    values = known_values_of(state)
    return values[user] << USER_SHIFT | values[group] << GROUP_SHIFT | (np.uint64(u16(buf, pos + size)) & MODE), True


@step
def acl_end(buf, pos, end, default):
    """Return the position after the entries of an ACL, or after their number if it is 0; -1 if the ACL is invalid.

    Args:
        default: whether default entries are allowed after the access entries.
    """
    if pos < 0 or pos + 4 > end:
        return np.int64(-1)
    count = i32(buf, pos)
    pos += 4
    access = 0
    defaults = 0
    for _ in range(count):
        if pos >= end:
            return np.int64(-1)
        bits = octet(buf, pos)
        pos += 1
        if bits & _ACL_NAMED:
            following = skip_string(buf, pos, end)
            if following < 0 or not is_plain_text(buf, pos + 2, following):
                return np.int64(-1)
            pos = following
        if bits & _ACL_UNKNOWN or (bits & _ACL_DEFAULT and not default):
            return np.int64(-1)
        if bits & _ACL_DEFAULT:
            defaults += 1
        elif defaults:
            return np.int64(-1)
        else:
            access += 1
    return np.int64(pos) if count == 0 or access >= _MINIMAL_ACL else np.int64(-1)


@step
def find_known(state, group, buf, start, end):
    """Return the number of the known name with these bytes; -1 for an unknown name."""
    hashed = hash_name(group, buf, start, end - start)
    return find_link(
        known_slots_of(state), known_of(state), known_arena_of(state), hashed, group, buf, start, end - start
    )


# ---- directories ---------------------------------------------------------------------------------------------


@step
def may_hold(row):
    """Return whether a child can be added to a row."""
    return row["kind"] == DIRECTORY and row["flags"] & UNKNOWN_FIELDS == 0


@step
def raise_mtime(state, directory, mtime, latest):
    """Raise a directory's modification time, which never decreases.

    Args:
        latest: id of the newest snapshot that contains the directory without the change, plus one; 0 if no such
            snapshot exists.
    """
    row = rows_of(state)[directory]
    if mtime > row["mtime"]:
        if latest != 0:
            keep(state, directory, latest, True)
        row["flags"] |= DIRTY
        row["mtime"] = mtime


@step
def keep_name(state, buf, start, size):
    """Append a name to the arena, which has space for it; return its start."""
    offset = state.names_used
    for i in range(size):
        names_of(state)[offset + i] = buf[start + i]
    state.names_used = offset + size
    return offset


@step
def set_link(state, number, directory, row, offset, size, hashed):
    """Assign a name in a directory to `row`, or to no row (-1).

    Args:
        number: number of the name's link; -1 if the name has no link; space for a new link must then exist.
        offset: offset of the name in the arena.
    """
    holder = rows_of(state)[directory]
    if number < 0:
        number = add_link(state, directory, -1, offset, size, hashed)
        holder["marks"] |= OPENED
    link = links_of(state)[number]
    before = np.int64(link["row"])
    holder["growth"] += np.int32(row >= 0) - np.int32(before >= 0)
    link["row"] = row
    link["changed"] = 1
    if row >= 0:
        rows_of(state)[row]["parent"] = directory
        note_change(state, row)
    if before >= 0 and rows_of(state)[before]["kind"] == DIRECTORY:
        state.directories_moved += 1
        rows_of(state)[before]["moved"] = state.directories_moved


@step
def created_room(state):
    """Return `DONE` if a new child of the last directory found can be noted for snapshots, otherwise `AGAIN`."""
    return room(state) if state.inside else DONE


@step
def note_created(state, directory, row):
    """Note for snapshots that a new inode is added to the last directory found; see `created_room`."""
    come(state, row, directory, state.latest, state.inside)


@step
def _has_acl(holder, given):
    """Return whether a new child of a directory may receive an ACL, either given or inherited."""
    inherits = holder["flags"] & FEATURES != 0 and holder["marks"] & NO_ACL == 0
    return given or inherits or holder["marks"] & ACL_DUE != 0


@step
def acl_room(state, directory, given):
    """Return `DONE` if the ACL of a new child can be noted, otherwise `AGAIN`."""
    if _has_acl(rows_of(state)[directory], given) and state.acls_used == acls_of(state).shape[0]:
        return AGAIN
    return DONE


@step
def note_acl(state, directory, row, body, given, pos):
    """Note that Python must set the ACL of a new inode; see `acl_room`.

    Args:
        body: position of the operation's body; pos: position of the ACL, if it is `given`.
    """
    if _has_acl(rows_of(state)[directory], given):
        rows_of(state)[row]["marks"] |= ACL_DUE
        used = state.acls_used
        acls_of(state)[used, 0] = row
        acls_of(state)[used, 1] = directory
        acls_of(state)[used, 2] = body
        acls_of(state)[used, 3] = pos if given else -1
        state.acls_used = used + 1


# ---- files ---------------------------------------------------------------------------------------------------


@step
def open_file(state, row, client_name, client_machine):
    """Open a file for writing."""
    entry = rows_of(state)[row]
    entry["flags"] |= DIRTY | UNDER_CONSTRUCTION
    entry["client_name"] = client_name
    entry["client_machine"] = client_machine
    note_change(state, row)
    lease(state, entry)


@step
def lease(state, entry):
    entry["marks"] |= LEASED
    state.leases_changed = 1


@step
def close_file(state, row):
    """Remove a file's lease, if any."""
    entry = rows_of(state)[row]
    if entry["marks"] & LEASED:
        entry["marks"] &= 0xFF ^ LEASED
        state.leases_changed = 1


@step
def see_stamp(state, stamp):
    """Register the generation stamp of a block; Hadoop 3 raises its counter to the stamp."""
    if state.hadoop3 and stamp > state.generation_stamp:
        state.generation_stamp = stamp
