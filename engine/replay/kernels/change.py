"""Changes that several operations share, for kernels; each is checked before anything is written."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.lookup import add_link
from engine.replay.kernels.recording import come, keep, room
from engine.replay.kernels.records import i32, is_plain_text, skip_string, u16, vlong
from engine.replay.kernels.state import (
    ACLS_USED,
    AGAIN,
    DIRECTORIES_MOVED,
    DONE,
    GENERATION_STAMP,
    HADOOP3,
    INSIDE,
    KNOWN_GROUP,
    KNOWN_USER,
    LATEST,
    LEASES_CHANGED,
    NAMES_USED,
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
"""Mode bits of an operation that count."""
_ACL_NAMED = 1 << 6
_ACL_DEFAULT = 1 << 5
_ACL_UNKNOWN = 1 << 7
_MINIMAL_ACL = 3


# ---- fields of operations ------------------------------------------------------------------------------------


@step
def call_end(buf, pos, end):
    """Whether nothing but an RPC's client id and call id stands between `pos` and `end`."""
    following = skip_string(buf, pos, end)
    return following >= 0 and following + 4 == end and (following - pos == 2 or following - pos == 18)


@step
def owner_end(buf, pos, end):
    """Position behind a PermissionStatus, -1 where it is none."""
    for _ in range(2):
        size, pos = vlong(buf, pos, end)
        if pos < 0 or size < 0 or size > end - pos:
            return np.int64(-1)
        pos += size
    return pos + 2 if pos + 2 <= end else np.int64(-1)


@step
def permission_of(a, buf, pos, end):
    """(a PermissionStatus as the image has it, whether both of its names are known); `owner_end` found it whole."""
    size, pos = vlong(buf, pos, end)
    user = find_known(a, KNOWN_USER, buf, pos, pos + size)
    size, pos = vlong(buf, pos + size, end)
    group = find_known(a, KNOWN_GROUP, buf, pos, pos + size)
    if user < 0 or group < 0:
        return np.uint64(0), False
    values = known_values_of(a)
    return values[user] << USER_SHIFT | values[group] << GROUP_SHIFT | (np.uint64(u16(buf, pos + size)) & MODE), True


@step
def acl_end(buf, pos, end, default):
    """Position behind the entries of an ACL, or behind their number where there are none; -1 where it is not whole.

    Args:
        default: whether there may be default entries; they come after the others.
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
def find_known(a, group, buf, start, end):
    """Number of what is known under these bytes, -1 where nothing is."""
    hashed = hash_name(group, buf, start, end - start)
    return find_link(known_slots_of(a), known_of(a), known_arena_of(a), hashed, group, buf, start, end - start)


# ---- directories ---------------------------------------------------------------------------------------------


@step
def may_hold(row):
    """Whether a row can take a child."""
    return row["kind"] == DIRECTORY and row["flags"] & UNKNOWN_FIELDS == 0


@step
def raise_mtime(a, directory, mtime, latest):
    """A directory's modification time never goes back.

    Args:
        latest: id of the newest snapshot that has the directory, plus one, and does not have the change; 0 for none.
    """
    row = rows_of(a)[directory]
    if mtime > row["mtime"]:
        if latest != 0:
            keep(a, directory, latest, True)
        row["flags"] |= DIRTY
        row["mtime"] = mtime


@step
def keep_name(a, buf, start, size):
    """Append a name to the arena, which has room; returns where it starts."""
    offset = a[NAMES_USED]
    for i in range(size):
        names_of(a)[offset + i] = buf[start + i]
    a[NAMES_USED] = offset + size
    return offset


@step
def set_link(a, number, directory, row, offset, size, hashed):
    """Give a name in a directory to `row`, or to nobody (-1).

    Args:
        number: of the link if there is one, else -1; there is room for one then.
        offset: of the name in the arena.
    """
    holder = rows_of(a)[directory]
    if number < 0:
        number = add_link(a, directory, -1, offset, size, hashed)
        holder["marks"] |= OPENED
    link = links_of(a)[number]
    before = np.int64(link["row"])
    holder["growth"] += np.int32(row >= 0) - np.int32(before >= 0)
    link["row"] = row
    link["changed"] = 1
    if row >= 0:
        rows_of(a)[row]["parent"] = directory
    if before >= 0 and rows_of(a)[before]["kind"] == DIRECTORY:
        a[DIRECTORIES_MOVED] += 1
        rows_of(a)[before]["moved"] = a[DIRECTORIES_MOVED]


@step
def created_room(a):
    """Return `DONE` if a new child of the last found directory can be recorded for snapshots, else `AGAIN`."""
    return room(a) if a[INSIDE] else DONE


@step
def note_created(a, directory, row):
    """A new inode is about to come into the directory that was found last, see `created_room`."""
    come(a, row, directory, a[LATEST], a[INSIDE])


@step
def _has_acl(holder, given):
    """Whether a new child of a directory may get an ACL: its own, or one that it inherits."""
    inherits = holder["flags"] & FEATURES != 0 and holder["marks"] & NO_ACL == 0
    return given or inherits or holder["marks"] & ACL_DUE != 0


@step
def acl_room(a, directory, given):
    """Whether a new child of a directory can be noted: `DONE` or `AGAIN`."""
    if _has_acl(rows_of(a)[directory], given) and a[ACLS_USED] == acls_of(a).shape[0]:
        return AGAIN
    return DONE


@step
def note_acl(a, directory, row, body, given, pos):
    """Python gives a new inode its ACL, see `acl_room`.

    Args:
        body: where the operation's body stands; pos: where the ACL does, if it is `given`.
    """
    if _has_acl(rows_of(a)[directory], given):
        rows_of(a)[row]["marks"] |= ACL_DUE
        used = a[ACLS_USED]
        acls_of(a)[used, 0] = row
        acls_of(a)[used, 1] = directory
        acls_of(a)[used, 2] = body
        acls_of(a)[used, 3] = pos if given else -1
        a[ACLS_USED] = used + 1


# ---- files ---------------------------------------------------------------------------------------------------


@step
def open_file(a, row, client_name, client_machine):
    """A file is open for write from now on."""
    entry = rows_of(a)[row]
    entry["flags"] |= DIRTY | UNDER_CONSTRUCTION
    entry["client_name"] = client_name
    entry["client_machine"] = client_machine
    lease(a, entry)


@step
def lease(a, entry):
    entry["marks"] |= LEASED
    a[LEASES_CHANGED] = 1


@step
def close_file(a, row):
    """A file loses its lease, if it has one."""
    entry = rows_of(a)[row]
    if entry["marks"] & LEASED:
        entry["marks"] &= 0xFF ^ LEASED
        a[LEASES_CHANGED] = 1


@step
def see_stamp(a, stamp):
    """A block has this generation stamp: Hadoop 3 moves its counter for that."""
    if a[HADOOP3] and stamp > a[GENERATION_STAMP]:
        a[GENERATION_STAMP] = stamp
